// The program of the paper's Table 4 (arXiv 2110.15032), against the library: a product that is
// data parallel on the devices 0 and 1, then one that is split by columns on 2 and 3.
//
//   A0 = randn(4, 5, placement=P0, sbp=split(0))       P0 = devices 0, 1
//   B0 = randn(5, 8, placement=P0, sbp=broadcast)
//   Y0 = matmul(A0, B0)
//   Y0.to_global(placement=P1, sbp=broadcast)          P1 = devices 2, 3
//   B1 = randn(8, 6, placement=P1, sbp=split(1))
//   Y2 = matmul(Y0, B1)
//
// `table4 GRAPH.json` stages it, checks that the same program as graph JSON stages alike, runs it
// on four CPU ranks and compares Y2 with the product of the whole matrices. Prints the staged
// graph.
#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "compiler/expand/expand.h"
#include "compiler/words/graph_program.h"
#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "core/base/elements.h"
#include "core/operators/movement/sources.h"
#include "core/text/json_reader.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

using namespace sextant;

namespace {

constexpr std::uint64_t kSeed = 1;

TensorId randn(GraphDocument& program, const char* name, int layer, Shape shape,
               const char* words) {
  ParameterInfo info;
  info.initializer = {.kind = Initializer::Kind::kNormal, .standard_deviation = 1.0};
  const TensorId tensor = add_parameter(program.graph, name, layer,
                                        {.shape = std::move(shape), .dtype = DType::kF32}, info);
  program.words.push_back({.op = program.graph.tensor(tensor).producer,
                           .is_input = false,
                           .index = 0,
                           .words = parse_nd_sbp(words)});
  return tensor;
}

OpId matmul(GraphDocument& program, const char* name, int layer, TensorId x, TensorId w) {
  LogicalOp op;
  op.kind = "matmul";
  op.name = name;
  op.inputs = {x, w};
  op.layer = layer;
  return program.graph.add(std::move(op));
}

GraphDocument table4() {
  GraphDocument program;
  program.name = "table 4";
  program.placements = {consecutive_placement({{"d", 2}}),
                        consecutive_placement({{"d", 2}}, Rank(2))};
  program.stage_of_layer = {0, 1};
  const TensorId a0 = randn(program, "A0", 0, {4, 5}, "S(0)");
  const TensorId b0 = randn(program, "B0", 0, {5, 8}, "B");
  const TensorId y0 = program.graph.output(matmul(program, "Y0", 0, a0, b0));
  const TensorId b1 = randn(program, "B1", 1, {8, 6}, "S(1)");
  const OpId y2 = matmul(program, "Y2", 1, y0, b1);
  // to_global is how an operator reads a tensor.
  program.words.push_back({.op = y2, .is_input = true, .index = 0, .words = parse_nd_sbp("B")});
  return program;
}

// Values of a tensor that starts by chance, as every device of any plan draws them.
std::vector<double> drawn(const char* name, std::int64_t count) {
  const CounterRng random(kSeed, name);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(random.normal(static_cast<std::uint64_t>(i)));
  return values;
}

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b,
                            std::size_t rows, std::size_t inner, std::size_t columns) {
  std::vector<double> y(rows * columns, 0.0);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < inner; ++i)
      for (std::size_t c = 0; c < columns; ++c)
        y[r * columns + c] += a[r * inner + i] * b[i * columns + c];
  return y;
}

class NoHost final : public HostActors {
 public:
  void act(const HostAct&) override {}
};

// Largest difference of the parts of Y2 on all ranks from the whole product; every element is on
// one rank.
double error_of_run(const StagedGraph& staged) {
  const Cluster cluster = load_cluster("cpu:ranks=4,memory=2GiB");
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  ExpandOptions options;
  options.plan_memory = false;  // nobody reads Y2, so planned memory might use its bytes again
  const PhysicalGraph graph = expand(staged, *cost, *network, options);
  CpuOptions cpu;
  cpu.seed = kSeed;
  CpuWorld world(graph, cpu);
  NoHost host;
  run_all(graph, world.devices(), host, 1);
  const std::vector<double> expected =
      product(product(drawn("A0", 20), drawn("B0", 40), 4, 5, 8), drawn("B1", 48), 4, 8, 6);
  double error = 0;
  std::int64_t found = 0;
  for (const Rank rank : graph.ranks.keys()) {
    const RankProgram& program = graph.program_of(rank);
    for (const InstanceId i : program.instances.keys()) {
      const Block& block = graph.block_of(program.instances[i]);
      for (const Actor& actor : block.actors) {
        if (actor.name != "Y2") continue;
        const Register& reg = block.registers[static_cast<std::size_t>(actor.out[0])];
        const Shard box = shard_of(graph, reg.layout, rank);
        const auto bytes = world.read_register(rank, i, actor.out[0]);
        std::vector<double> part(static_cast<std::size_t>(box.elements()));
        load_as_double(reg.local.dtype, bytes.data(), part);
        for (std::size_t k = 0; k < part.size(); ++k, ++found) {
          const std::int64_t at = global_index(static_cast<std::int64_t>(k), {4, 6}, box);
          error = std::max(error, std::abs(part[k] - expected[static_cast<std::size_t>(at)]));
        }
      }
    }
  }
  require(found == 24, ErrorCode::kVerification, "{} elements of Y2 on all ranks, wanted 24",
          found);
  return error;
}

void run(const std::string& path) {
  const StagedGraph staged = stage_program(table4(), 1, nullptr);
  const JsonDocument text = read_json_file(path);
  const GraphDocument written = graph_from_json(text.root());
  const std::string mine = to_text(staged), theirs = to_text(stage_program(written, 1, nullptr));
  fmt::print("{}", mine);
  require(mine == theirs, ErrorCode::kVerification, "{} stages otherwise:\n{}", path, theirs);
  const double error = error_of_run(staged);
  fmt::print("Y2 on four CPU ranks differs from the whole product by {:.1e} at most\n", error);
  // Sums of 5 and 8 products of f32 numbers of about 1.
  require(error < 1e-5, ErrorCode::kVerification, "that is more than rounding");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc == 2, ErrorCode::kUsage, "usage: table4 GRAPH.json");
    run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "table4: {}\n", error.what());
    return 1;
  }
}
