// What MPI itself takes for the messages of `message_bench`: MPI_Send and MPI_Recv of the same
// bytes between two processes, and nothing around them.
//   mpirun --bind-to none -n 2 mpi_bench
#include <benchmark/benchmark.h>
#include <mpi.h>

#include <cstddef>
#include <vector>

namespace sextant::mpi_bench {
namespace {

constexpr int kMostBytes = 65'536;

void send(const std::vector<std::byte>& bytes, int to) {
  MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, MPI_COMM_WORLD);
}

// How many bytes came.
int receive(std::vector<std::byte>& bytes, int from) {
  MPI_Status status;
  MPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, 0, MPI_COMM_WORLD,
           &status);
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  return count;
}

// An empty message ends it.
void echo_until_empty() {
  std::vector<std::byte> room(kMostBytes);
  while (const int count = receive(room, 0)) send({room.begin(), room.begin() + count}, 0);
}

void ping_pong(benchmark::State& state) {
  const std::vector<std::byte> word(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> room(kMostBytes);
  for (auto _ : state) {
    send(word, 1);
    receive(room, 1);
  }
  state.counters["message"] =
      benchmark::Counter(2.0 * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(ping_pong)->Name("message/mpi_other_process")->Arg(64)->Arg(kMostBytes)->UseRealTime();

}  // namespace
}  // namespace sextant::mpi_bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 2 && rank == 1) sextant::mpi_bench::echo_until_empty();
  if (size == 2 && rank == 0) {
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    sextant::mpi_bench::send({}, 1);
  }
  MPI_Finalize();
  return size == 2 ? 0 : 2;
}
