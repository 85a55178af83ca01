// Ranks on threads, each on memory that is kept between measurements.
#include "backends/cpu/cpu_bench.h"

#include "actor/hosts/rank_threads.h"
#include "backends/cpu/collectives.h"
#include "backends/cpu/machine_load.h"
#include "backends/cpu/rendezvous.h"
#include "backends/cpu/yardstick.h"
#include "core/base/check.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Clock = std::chrono::steady_clock;

// A step comes back to a tensor after it has touched many others: operands are laid out several
// times, as far as they fit into so much, and taken in turn. Second-level caches of a core hold 0.5
// to 2 MiB.
constexpr std::size_t kFootprint = std::size_t{16} << 20;
constexpr std::size_t kMostCopies = 64;
// Calls between two looks at the clock; in-place operands are filled anew after them, because a
// function that is applied to its own result a thousand times leaves numbers that no step has.
constexpr double kSecondsOfChunk = 0.001;
constexpr std::int64_t kMostCallsOfChunk = 64;
constexpr double kSecondsOfSpeed = 0.3;
constexpr std::int64_t kMeetingsOfChunk = 4, kFewestMeetings = 6 * kMeetingsOfChunk;
constexpr std::int64_t kMostMeetings = 4000;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A few values again and again: filling must not take longer than measuring.
template <typename T, typename Value>
void repeat(std::byte* to, std::size_t bytes, const Value& value) {
  constexpr std::size_t kPeriod = 97;
  T* const values = reinterpret_cast<T*>(to);
  const std::size_t count = bytes / sizeof(T);
  for (std::size_t i = 0; i < std::min(kPeriod, count); ++i) values[i] = static_cast<T>(value(i));
  for (std::size_t done = kPeriod; done < count; done *= 2)
    std::memcpy(values + done, values, std::min(done, count - done) * sizeof(T));
}

// Positive numbers near one, so that no kernel meets subnormal ones, and ids below the limit.
void fill(const KernelOperand& operand, std::int64_t id_limit) {
  const auto bytes = static_cast<std::size_t>(size_of(operand.local).value);
  const auto near_one = [](std::size_t i) { return 0.9 + 0.002 * static_cast<double>(i); };
  const auto bits_from = [](std::size_t one) {  // of the 16-bit format in which these are 1
    return [one](std::size_t i) { return one + i % 13; };
  };
  const auto id = [id_limit](std::size_t i) {
    return static_cast<std::int64_t>(i * 7919) % id_limit;
  };
  switch (operand.local.dtype) {
    case DType::kF64:
      return repeat<double>(operand.data, bytes, near_one);
    case DType::kF32:
      return repeat<float>(operand.data, bytes, near_one);
    case DType::kBF16:
      return repeat<std::uint16_t>(operand.data, bytes, bits_from(0x3f80));
    case DType::kF16:
      return repeat<std::uint16_t>(operand.data, bytes, bits_from(0x3c00));
    case DType::kI64:
      return repeat<std::int64_t>(operand.data, bytes, id);
    case DType::kI32:
      return repeat<std::int32_t>(operand.data, bytes, id);
    case DType::kE4M3:
    case DType::kE5M2:
      return repeat<std::uint8_t>(operand.data, bytes, [](std::size_t i) {
        return static_cast<std::uint8_t>(0x38 + i % 4);  // 0.5 to 1.4 and more
      });
    case DType::kU8:
      return repeat<std::uint8_t>(operand.data, bytes,
                                  [](std::size_t i) { return static_cast<std::uint8_t>(i); });
    case DType::kBool:
      std::memset(operand.data, 1, bytes);
      return;
  }
}

std::size_t room_of(const KernelOperand& operand) {
  return static_cast<std::size_t>(aligned(size_of(operand.local).value));
}

bool is_in_place(const KernelContext& call, std::size_t out) {
  return call.actor->in_place && static_cast<std::size_t>(call.actor->in_place->out) == out;
}

std::size_t room_of(const KernelContext& call) {
  std::size_t room = 0;
  for (const KernelOperand& in : call.in) room += room_of(in);
  for (std::size_t i = 0; i < call.out.size(); ++i)
    if (!is_in_place(call, i)) room += room_of(call.out[i]);
  return room;
}

void place(KernelContext& call, std::byte* at) {
  for (KernelOperand& in : call.in) {
    in.data = at;
    at += room_of(in);
  }
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    KernelOperand& out = call.out[i];
    if (is_in_place(call, i)) {
      out.data = call.in[static_cast<std::size_t>(call.actor->in_place->in)].data;
      continue;
    }
    out.data = at;
    at += room_of(out);
  }
}

// A group of all ranks (of a transfer: two) and one communication over f32.
struct Meeting {
  PhysicalGraph graph;
  Communication communication;
  std::int64_t elements = 0;
};

Meeting meeting_of(Primitive primitive, std::int64_t ranks, Bytes global_bytes) {
  Meeting meeting;
  const bool is_transfer = primitive == Primitive::kTransfer;
  const std::int64_t members = is_transfer ? 2 : ranks;
  const auto placement = [&meeting](std::int64_t first, std::int64_t count) {
    Placement made{{{"ranks", count}}, {}};
    for (std::int64_t rank = first; rank < first + count; ++rank)
      made.ranks.emplace_back(static_cast<std::int32_t>(rank));
    meeting.graph.placements.push_back(std::move(made));
    return PlacementId(meeting.graph.placements.size() - 1);
  };
  const PlacementId from = placement(0, is_transfer ? 1 : members);
  const PlacementId to = is_transfer ? placement(1, 1) : from;
  // Rows and columns divide by the members.
  const std::int64_t parts = members * members;
  const std::int64_t of_part =
      std::max<std::int64_t>(global_bytes.value / size_of(DType::kF32).value / parts, 1);
  const TensorType global{Shape{members, members * of_part}, DType::kF32};
  meeting.elements = parts * of_part;
  const auto layout = [&](Sbp word, PlacementId where) {
    meeting.graph.layouts.push_back({global, {word}, where});
    return LayoutId(meeting.graph.layouts.size() - 1);
  };
  meeting.communication.primitive = primitive;
  switch (primitive) {
    case Primitive::kAllReduce:
      meeting.communication.from = layout(Sbp::partial(ReduceOp::kSum), from);
      meeting.communication.to = layout(Sbp::broadcast(), to);
      break;
    case Primitive::kReduceScatter:
      meeting.communication.from = layout(Sbp::partial(ReduceOp::kSum), from);
      meeting.communication.to = layout(Sbp::split(0), to);
      break;
    case Primitive::kAllGather:
      meeting.communication.from = layout(Sbp::split(0), from);
      meeting.communication.to = layout(Sbp::broadcast(), to);
      break;
    case Primitive::kAllToAll:
      meeting.communication.from = layout(Sbp::split(0), from);
      meeting.communication.to = layout(Sbp::split(1), to);
      break;
    case Primitive::kBroadcast:
    case Primitive::kTransfer:
    case Primitive::kShift:
      meeting.communication.from = layout(Sbp::broadcast(), from);
      meeting.communication.to = layout(Sbp::broadcast(), to);
      break;
  }
  DeviceGroup group;
  group.name = "bench";
  for (std::int64_t rank = 0; rank < members; ++rank)
    group.ranks.emplace_back(static_cast<std::int32_t>(rank));
  meeting.graph.groups.push_back(std::move(group));
  return meeting;
}

}  // namespace

class CpuBench::RankMemory {
  Team team_;  // first: the workspace has it

 public:
  // `threads`: as a rank of a job has them for its kernels.
  explicit RankMemory(std::int64_t threads) : team_(threads) {}

  std::byte* reserve(std::size_t bytes) {
    if (bytes > size_) {
      bytes_ = std::make_unique<std::byte[]>(bytes + kAlignment);
      size_ = bytes;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.get());
    return bytes_.get() + (kAlignment - address % kAlignment) % kAlignment;
  }
  Workspace workspace{&team_};
  Yardstick yardstick;

 private:
  static constexpr std::size_t kAlignment = 4096;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
};

CpuBench::CpuBench(const CpuBenchOptions& options) : options_(options), kernels_(fast_kernels()) {
  require(options.ranks >= 1 && options.cores >= 1, ErrorCode::kUsage,
          "{} ranks on {} cores: wanted one or more of each", options.ranks, options.cores);
  for (std::int64_t rank = 0; rank < options.ranks; ++rank)
    memories_.push_back(
        std::make_unique<RankMemory>(std::max<std::int64_t>(options.cores / options.ranks, 1)));
  yardstick_s_ = measure_speed();
}

CpuBench::~CpuBench() = default;

double CpuBench::measure_speed() {
  std::vector<double> by_rank(memories_.size());
  on_rank_threads(memories_.size(), [&](std::size_t rank) {
    const auto begin = Clock::now();
    std::int64_t count = 0;
    for (; count == 0 || seconds_since(begin) < kSecondsOfSpeed; ++count) {
      // As calls between two looks at the yardstick do.
      std::memset(memories_[rank]->reserve(kFootprint), 0, kFootprint);
      by_rank[rank] += memories_[rank]->yardstick.seconds();
    }
    by_rank[rank] /= static_cast<double>(count);
  });
  double sum = 0;
  for (const double seconds : by_rank) sum += seconds;
  return sum / static_cast<double>(by_rank.size());
}

void CpuBench::set_id_limit(std::int64_t limit) {
  require(limit > 0, ErrorCode::kUsage, "ids below {}: wanted a positive limit", limit);
  id_limit_ = limit;
}

double CpuBench::ranks_per_core() const {
  return std::max(1.0, static_cast<double>(options_.ranks) / static_cast<double>(options_.cores));
}

// One rank's copies of a call.
class CpuBench::RankCalls {
 public:
  RankCalls(const KernelContext& call, Kernel kernel, RankMemory& memory, std::int64_t id_limit)
      : kernel_(kernel), memory_(memory), id_limit_(id_limit) {
    const std::size_t room = std::max<std::size_t>(room_of(call), 1);
    calls_.resize(std::clamp<std::size_t>(kFootprint / room, 1, kMostCopies), call);
    std::byte* const base = memory.reserve(calls_.size() * room);
    for (std::size_t copy = 0; copy < calls_.size(); ++copy) {
      place(calls_[copy], base + copy * room);
      for (const KernelOperand& in : calls_[copy].in) fill(in, id_limit_);
      for (const KernelOperand& out : calls_[copy].out) fill(out, id_limit_);
    }
  }

  // Processor time of one call, the mean of `count` in a row.
  double seconds(std::int64_t count) {
    const double begin = thread_seconds();
    for (std::int64_t i = 0; i < count; ++i) {
      const Workspace::Frame frame(memory_.workspace);
      kernel_(calls_[turn_++ % calls_.size()], memory_.workspace);
    }
    return (thread_seconds() - begin) / static_cast<double>(count);
  }

  void refill_in_place() {
    for (const KernelContext& call : calls_)
      if (call.actor->in_place)
        fill(call.in[static_cast<std::size_t>(call.actor->in_place->in)], id_limit_);
  }

 private:
  Kernel kernel_;
  RankMemory& memory_;
  std::int64_t id_limit_;
  std::vector<KernelContext> calls_;
  std::size_t turn_ = 0;
};

std::vector<double> CpuBench::measure(const KernelContext& call, Kernel kernel) {
  std::vector<std::vector<double>> by_rank(memories_.size());
  std::barrier all_ready(static_cast<std::ptrdiff_t>(memories_.size()));
  on_rank_threads(memories_.size(), [&](std::size_t rank) {
    std::optional<RankCalls> calls;
    double once = 0;
    try {
      calls.emplace(call, kernel, *memories_[rank], id_limit_);
      once = std::max(calls->seconds(1), 1e-7);
    } catch (...) {
      all_ready.arrive_and_drop();  // the others would wait for this rank
      throw;
    }
    const auto in_chunk = std::clamp(static_cast<std::int64_t>(kSecondsOfChunk / once),
                                     std::int64_t{1}, kMostCallsOfChunk);
    all_ready.arrive_and_wait();
    const double before = memories_[rank]->yardstick.seconds();
    const auto begin = Clock::now();
    do {
      by_rank[rank].push_back(calls->seconds(in_chunk) * ranks_per_core());
      calls->refill_in_place();
    } while (seconds_since(begin) < options_.seconds_per_call);
    const double speed =
        2 * yardstick_s_ / std::max(before + memories_[rank]->yardstick.seconds(), 1e-9);
    for (double& seconds : by_rank[rank]) seconds *= speed;
  });
  std::vector<double> all;
  for (const std::vector<double>& of_rank : by_rank)
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  return all;
}

std::optional<KernelTiming> CpuBench::time(std::span<const KernelContext> calls) {
  require(calls.size() == 1, ErrorCode::kInternal, "{} calls in one launch of a CPU", calls.size());
  const Kernel kernel = kernels_.find(calls.front().actor->kind, calls.front());
  if (kernel == nullptr) return std::nullopt;
  try {
    return timing_of(measure(calls.front(), kernel));
  } catch (const Error&) {
    return std::nullopt;  // a kernel that looks at its inputs and finds them senseless
  }
}

KernelTiming CpuBench::meet(Primitive primitive, Bytes global_bytes) {
  require(options_.ranks >= 2, ErrorCode::kUsage, "{} rank meets nobody", options_.ranks);
  const Meeting meeting = meeting_of(primitive, options_.ranks, global_bytes);
  const std::size_t members = meeting.graph.groups.front().ranks.size();
  Rendezvous rendezvous(meeting.graph, std::chrono::minutes(1));
  const auto room =
      static_cast<std::size_t>(aligned(size_of(DType::kF32).value * meeting.elements));
  std::vector<double> seconds;
  std::atomic<std::int64_t> meetings = kMostMeetings;
  on_rank_threads(members, [&](std::size_t rank) {
    std::byte* const base = memories_[rank]->reserve(2 * room);
    std::memset(base, 0, 2 * room);
    Half half{Rank(static_cast<std::int32_t>(rank)),
              GroupId(0),
              0,
              &meeting.communication,
              "bench",
              {base, base + room, false}};
    if (primitive == Primitive::kTransfer && rank == 0) half.buffers.out = nullptr;
    if (primitive == Primitive::kTransfer && rank == 1) half.buffers.in = nullptr;
    const auto begin = Clock::now();
    double wall_before = 0, processor_before = 0;
    for (std::int64_t i = 0; i < meetings; ++i) {
      // Nobody is further than the next meeting, so all hear of an earlier end in time.
      if (rank == 0 && i >= kFewestMeetings && seconds_since(begin) > options_.seconds_per_call)
        meetings = std::min<std::int64_t>(meetings, i + 2);
      half.occurrence = i;
      rendezvous.wait(rendezvous.post(half));
      if (rank != 0 || (i + 1) % kMeetingsOfChunk != 0) continue;
      const double wall = seconds_since(begin), processor = process_seconds();
      if (i + 1 > kMeetingsOfChunk)  // the first fill caches
        seconds.push_back(std::min(wall - wall_before, processor - processor_before) /
                          static_cast<double>(kMeetingsOfChunk));
      wall_before = wall;
      processor_before = processor;
    }
  });
  return timing_of(std::move(seconds));
}

}  // namespace sextant
