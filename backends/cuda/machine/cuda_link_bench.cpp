// Threads that enqueue alike, one per card, and events around what they enqueue.
#include "backends/cuda/machine/cuda_link_bench.h"

#include "actor/calls/kernel_timer.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/machine/bench_operands.h"
#include "backends/cuda/ranks/communicator_key.h"
#include "core/base/check.h"

#ifdef SEXTANT_HAS_NCCL
#include "backends/cuda/machine/bench_fill.h"
#include "backends/cuda/measured_choices.h"
#include "backends/cuda/nccl_settings.h"
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace sextant {

#ifndef SEXTANT_HAS_NCCL

struct CudaLinkBench::State {};
CudaLinkBench::CudaLinkBench(const std::vector<int>&, const CudaOptions&, Bytes) {
  fail(
      ErrorCode::kDevice,
      "this build has no NCCL: links between cards are measured by it, --gpus 0 measures one card");
}
CudaLinkBench::~CudaLinkBench() = default;
std::int64_t CudaLinkBench::ranks() const { return 0; }
LinkSetting CudaLinkBench::usual(Primitive) const { return {}; }
double CudaLinkBench::time(Primitive, Bytes, const LinkSetting&) { return 0; }
std::optional<BesideTiming> CudaLinkBench::beside(Primitive, Bytes,
                                                  std::span<const KernelContext>) {
  return std::nullopt;
}

#else

namespace {

constexpr int kWarmUpCalls = 3, kLoops = 3;
constexpr int kFewestCalls = 3, kMostCalls = 60;
constexpr double kLoop_s = 4e-3;  // of one size
// What runs beside each other runs long enough for the power limit to show. A stream takes about a
// thousand launches before the host waits, and a call is one to three.
constexpr double kBeside_s = 20e-3;
constexpr int kMostBeside = 300;
constexpr int kCover = 3;  // so many times longer is what runs beside

int calls_for(double seconds, double each_s, int most) {
  return std::clamp(static_cast<int>(std::ceil(seconds / each_s)), kFewestCalls, most);
}

// Buffers of one rank, plain or registered with the communicators that want it.
struct LinkBuffers {
  void* from = nullptr;
  void* to = nullptr;
};

std::byte* at(void* base, std::size_t elements) {
  return static_cast<std::byte*>(base) + 2 * elements;
}

struct Moved {
  Primitive primitive = Primitive::kAllReduce;
  Bytes global_bytes;
};

// As scripts of the backend do it: sends and receives are one group of calls.
class LinkCall {
 public:
  LinkCall(const Moved& moved, std::size_t rank, std::size_t ranks)
      : primitive_(moved.primitive),
        all_(std::max(static_cast<std::size_t>(moved.global_bytes.value) / 2, ranks * ranks)),
        rank_(rank),
        ranks_(ranks) {}

  void enqueue(const LinkBuffers& buffers, ncclComm_t with, cudaStream_t stream) const {
    switch (primitive_) {
      case Primitive::kAllReduce:
        SEXTANT_NCCL(
            ncclAllReduce(buffers.from, buffers.to, all_, ncclBfloat16, ncclSum, with, stream));
        return;
      case Primitive::kAllGather:
        SEXTANT_NCCL(
            ncclAllGather(buffers.from, buffers.to, all_ / ranks_, ncclBfloat16, with, stream));
        return;
      case Primitive::kReduceScatter:
        SEXTANT_NCCL(ncclReduceScatter(buffers.from, buffers.to, all_ / ranks_, ncclBfloat16,
                                       ncclSum, with, stream));
        return;
      case Primitive::kAllToAll:
      case Primitive::kBroadcast:
      case Primitive::kShift:
      case Primitive::kTransfer:
        SEXTANT_NCCL(ncclGroupStart());
        enqueue_pairs(buffers, with, stream);
        SEXTANT_NCCL(ncclGroupEnd());
        return;
    }
  }

 private:
  void enqueue_pairs(const LinkBuffers& buffers, ncclComm_t with, cudaStream_t stream) const {
    const auto send = [&](std::size_t peer, std::size_t first, std::size_t count) {
      SEXTANT_NCCL(ncclSend(at(buffers.from, first), count, ncclBfloat16, static_cast<int>(peer),
                            with, stream));
    };
    const auto receive = [&](std::size_t peer, std::size_t first, std::size_t count) {
      SEXTANT_NCCL(ncclRecv(at(buffers.to, first), count, ncclBfloat16, static_cast<int>(peer),
                            with, stream));
    };
    const std::size_t part = all_ / ranks_, piece = part / ranks_;
    switch (primitive_) {
      case Primitive::kAllToAll:
        for (std::size_t peer = 0; peer < ranks_; ++peer) {
          if (peer == rank_) continue;
          send(peer, peer * piece, piece);
          receive(peer, peer * piece, piece);
        }
        return;
      case Primitive::kBroadcast:
        for (std::size_t peer = 1; rank_ == 0 && peer < ranks_; ++peer) send(peer, 0, all_);
        if (rank_ != 0) receive(0, 0, all_);
        return;
      case Primitive::kShift:
        send((rank_ + 1) % ranks_, 0, part);
        receive((rank_ + ranks_ - 1) % ranks_, 0, part);
        return;
      case Primitive::kTransfer:
        if (rank_ == 0) send(1, 0, all_);
        if (rank_ == 1) receive(0, 0, all_);
        return;
      case Primitive::kAllReduce:
      case Primitive::kAllGather:
      case Primitive::kReduceScatter:
        return;
    }
  }

  Primitive primitive_;
  std::size_t all_, rank_, ranks_;  // elements of bf16
};

struct LinkCommunicator {
  ncclComm_t communicator = nullptr;
  std::vector<void*> registrations;
};

// One card. All members belong to it, and its thread has it current.
struct LinkRank {
  int gpu = 0;
  cudaStream_t compute = nullptr, link = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  LinkBuffers plain, registered;
  std::map<LinkSetting, LinkCommunicator> communicators;
  std::unique_ptr<BenchOperands> operands;
  std::unique_ptr<CudaContext> context;
  std::vector<std::unique_ptr<CudaKernel>> kernels;

  // Of what is enqueued on the stream, waited for.
  double seconds_of(cudaStream_t stream, const std::function<void()>& enqueue) {
    SEXTANT_CUDA(cudaEventRecord(begin, stream));
    enqueue();
    SEXTANT_CUDA(cudaEventRecord(end, stream));
    SEXTANT_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    SEXTANT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    return static_cast<double>(milliseconds) * 1e-3;
  }
  void enqueue(const LinkCall& call, const LinkSetting& setting, int times) {
    const LinkBuffers& buffers = setting.is_registered ? registered : plain;
    for (int i = 0; i < times; ++i)
      call.enqueue(buffers, communicators.at(setting).communicator, link);
  }
  void enqueue_kernels(int times) {
    for (int i = 0; i < times; ++i)
      for (const auto& kernel : kernels) kernel->enqueue(compute);
  }
};

}  // namespace

struct CudaLinkBench::State {
  State(const std::vector<int>& gpus, const CudaOptions& options, Bytes largest)
      : each(options), most(largest), kernels(cuda_kernels()), ranks(gpus.size()) {
    // Each product is tuned once, by whichever rank comes first, and written by one at a time.
    if (!each.choices) each.choices = std::make_shared<MeasuredChoices>();
    for (std::size_t rank = 0; rank < gpus.size(); ++rank) ranks[rank].gpu = gpus[rank];
    SEXTANT_CUDA(cudaSetDevice(gpus.front()));
    blocks = blocks_of_card();
    for_each([this](LinkRank& rank, std::size_t) { prepare(rank); });
  }
  ~State() {
    try {
      for_each([](LinkRank& rank, std::size_t) { release(rank); });
    } catch (const Error&) {
      // Nobody measures any more, and the process gives back what is left.
    }
  }

  void prepare(LinkRank& rank) const {
    const auto size = static_cast<std::size_t>(most.value);
    SEXTANT_CUDA(cudaStreamCreateWithFlags(&rank.compute, cudaStreamNonBlocking));
    SEXTANT_CUDA(cudaStreamCreateWithFlags(&rank.link, cudaStreamNonBlocking));
    SEXTANT_CUDA(cudaEventCreate(&rank.begin));
    SEXTANT_CUDA(cudaEventCreate(&rank.end));
    for (void** buffer : {&rank.plain.from, &rank.plain.to}) SEXTANT_CUDA(cudaMalloc(buffer, size));
    for (void** buffer : {&rank.registered.from, &rank.registered.to})
      SEXTANT_NCCL(ncclMemAlloc(buffer, size));
    for (void* buffer : {rank.plain.from, rank.plain.to, rank.registered.from, rank.registered.to})
      SEXTANT_CUDA(enqueue_fill_normal(buffer, size, rank.link));
    SEXTANT_CUDA(cudaStreamSynchronize(rank.link));
    rank.operands = std::make_unique<BenchOperands>(rank.compute);
  }

  static void release(LinkRank& rank) {
    rank.kernels.clear();
    rank.context.reset();
    rank.operands.reset();
    for (auto& [setting, made] : rank.communicators) {
      for (void* handle : made.registrations) ncclCommDeregister(made.communicator, handle);
      ncclCommDestroy(made.communicator);
    }
    for (void* registered : {rank.registered.from, rank.registered.to}) ncclMemFree(registered);
    for (void* plain : {rank.plain.from, rank.plain.to}) cudaFree(plain);
    for (const cudaEvent_t event : {rank.begin, rank.end}) cudaEventDestroy(event);
    for (const cudaStream_t stream : {rank.compute, rank.link}) cudaStreamDestroy(stream);
  }

  // `act` of every rank on a thread of its own, all at once; the first error is thrown when all
  // have ended. Memory and kernels fail before ranks wait for each other; a rank that NCCL fails
  // later leaves the others waiting, without a limit.
  void for_each(const std::function<void(LinkRank&, std::size_t)>& act) {
    std::exception_ptr first;
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          SEXTANT_CUDA(cudaSetDevice(ranks[rank].gpu));
          act(ranks[rank], rank);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
  }

  // Acts on all ranks at once, each of which says seconds: the longest.
  double longest(const std::function<double(LinkRank&, std::size_t)>& act) {
    std::vector<double> seconds(ranks.size());
    for_each([&](LinkRank& rank, std::size_t i) { seconds[i] = act(rank, i); });
    return *std::max_element(seconds.begin(), seconds.end());
  }

  LinkSetting usual(Primitive primitive) const {
    const bool is_transfer = primitive == Primitive::kTransfer;
    return {.blocks = is_transfer ? std::min(blocks, kBlocksInCompany) : blocks,
            .is_registered = false};
  }

  void make_communicators(const LinkSetting& setting) {
    if (ranks.front().communicators.contains(setting)) return;
    ncclUniqueId id;
    SEXTANT_NCCL(ncclGetUniqueId(&id));
    for_each([&](LinkRank& rank, std::size_t i) {
      ncclConfig_t config = nccl_config(setting.blocks);
      LinkCommunicator& made = rank.communicators[setting];
      SEXTANT_NCCL(ncclCommInitRankConfig(&made.communicator, static_cast<int>(ranks.size()), id,
                                          static_cast<int>(i), &config));
      if (!setting.is_registered) return;
      for (void* buffer : {rank.registered.from, rank.registered.to}) {
        made.registrations.push_back(nullptr);
        SEXTANT_NCCL(ncclCommRegister(made.communicator, buffer,
                                      static_cast<std::size_t>(most.value),
                                      &made.registrations.back()));
      }
    });
  }

  bool make_kernels(std::span<const KernelContext> calls) {
    std::atomic<bool> are_made{true};
    for_each([&](LinkRank& rank, std::size_t) {
      std::vector<KernelContext> placed(calls.begin(), calls.end());
      CudaOptions options = each;
      options.device = rank.gpu;
      rank.kernels.clear();
      rank.context = std::make_unique<CudaContext>(options);
      rank.context->set_in_company(true);
      rank.context->begin_step(0, rank.compute);
      try {
        if (!rank.operands->place(placed)) are_made = false;
        if (are_made) rank.kernels = kernels.make_all(placed, *rank.context);
      } catch (const NoCudaKernel&) {
        are_made = false;
      }
      rank.context->allocate_scratch();
    });
    return are_made;
  }

  // One of `kLoops` loops of so many calls, each behind one in which all ranks meet.
  double time_calls(const Moved& moved, const LinkSetting& setting, int calls) {
    return longest([&](LinkRank& rank, std::size_t i) {
             const LinkCall call(moved, i, ranks.size());
             rank.enqueue(call, setting, 1);
             return rank.seconds_of(rank.link, [&] { rank.enqueue(call, setting, calls); });
           }) /
           calls;
  }

  // Seconds of each of `times` launches while what moves is enqueued `moves` times, from before.
  double time_kernels(const Moved& moved, int times, int moves) {
    return longest([&](LinkRank& rank, std::size_t i) {
             rank.enqueue(LinkCall(moved, i, ranks.size()), usual(moved.primitive), moves);
             const double seconds =
                 rank.seconds_of(rank.compute, [&] { rank.enqueue_kernels(times); });
             SEXTANT_CUDA(cudaStreamSynchronize(rank.link));
             return seconds;
           }) /
           times;
  }
  // Seconds of each of `moves` communications while `times` launches are enqueued, from before.
  double time_moves(const Moved& moved, int moves, int times) {
    return longest([&](LinkRank& rank, std::size_t i) {
             rank.enqueue_kernels(times);
             const LinkCall call(moved, i, ranks.size());
             const double seconds = rank.seconds_of(
                 rank.link, [&] { rank.enqueue(call, usual(moved.primitive), moves); });
             SEXTANT_CUDA(cudaStreamSynchronize(rank.compute));
             return seconds;
           }) /
           moves;
  }

  CudaOptions each;
  const Bytes most;
  CudaKernelTable kernels;
  std::vector<LinkRank> ranks;
  int blocks = 0;  // of collectives
};

CudaLinkBench::CudaLinkBench(const std::vector<int>& gpus, const CudaOptions& each, Bytes most) {
  require(gpus.size() > 1, ErrorCode::kUsage, "{} GPU: a link has two ends", gpus.size());
  require_one_nccl();
  set_nccl_defaults(false);
  state_ = std::make_unique<State>(gpus, each, most);
}

CudaLinkBench::~CudaLinkBench() = default;

std::int64_t CudaLinkBench::ranks() const {
  return static_cast<std::int64_t>(state_->ranks.size());
}

LinkSetting CudaLinkBench::usual(Primitive primitive) const { return state_->usual(primitive); }

double CudaLinkBench::time(Primitive primitive, Bytes global_bytes, const LinkSetting& setting) {
  require(global_bytes <= state_->most, ErrorCode::kUsage, "{}: this bench has buffers of {}",
          to_text(global_bytes), to_text(state_->most));
  const Moved moved{primitive, global_bytes};
  state_->make_communicators(setting);
  const double about_s = state_->time_calls(moved, setting, kWarmUpCalls);
  const int calls = calls_for(kLoop_s, about_s, kMostCalls);
  std::vector<double> loops;
  for (int loop = 0; loop < kLoops; ++loop)
    loops.push_back(state_->time_calls(moved, setting, calls));
  return timing_of(std::move(loops)).median_s;
}

// Alone before and behind, since the power limit moves the clock meanwhile.
std::optional<BesideTiming> CudaLinkBench::beside(Primitive primitive, Bytes global_bytes,
                                                  std::span<const KernelContext> calls) {
  State& state = *state_;
  const Moved moved{primitive, global_bytes};
  state.make_communicators(state.usual(primitive));
  if (!state.make_kernels(calls)) return std::nullopt;
  state.time_kernels(moved, kFewestCalls, 0);  // the first launches load the kernels
  const double kernel_s = state.time_kernels(moved, kFewestCalls, 0);
  const double move_s = state.time_moves(moved, kFewestCalls, 0);
  const auto time_of = [&](double each_s) { return std::min(kBeside_s, kMostBeside * each_s); };
  const double together_s = std::min(time_of(kernel_s), time_of(move_s));
  const int times = calls_for(together_s, kernel_s, kMostBeside);
  const int moves = calls_for(together_s, move_s, kMostBeside);
  BesideTiming timing;
  timing.kernel_alone_s = state.time_kernels(moved, times, 0) / 2;
  timing.kernel_beside_s = state.time_kernels(moved, times, kCover * moves);
  timing.kernel_alone_s += state.time_kernels(moved, times, 0) / 2;
  timing.link_alone_s = state.time_moves(moved, moves, 0) / 2;
  timing.link_beside_s = state.time_moves(moved, moves, kCover * times);
  timing.link_alone_s += state.time_moves(moved, moves, 0) / 2;
  return timing;
}

#endif

}  // namespace sextant
