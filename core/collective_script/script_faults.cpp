// The rules that the scripts of one group keep (README.md, invariants 1 and 3).
#include "core/base/check.h"
#include "core/collective_script/collective_script.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

using Buffer = ScriptPlace::Buffer;
using Call = ExchangeCall::Kind;
using Step = LocalStep::Kind;

// Elements of a buffer that a step or call touches, or nothing where they overflow.
struct ByteRange {
  Buffer buffer;
  std::int64_t begin = 0, end = 0;  // bytes
  bool writes = false;
};

class FaultFinder {
 public:
  FaultFinder(std::span<const CollectiveScript> scripts, std::span<const Bytes> in,
              std::span<const Bytes> out)
      : scripts_(scripts), in_(in), out_(out) {}

  std::vector<std::string> find() {
    for (std::size_t m = 0; m < scripts_.size(); ++m) {
      for (const LocalStep& step : scripts_[m].before) check_step(m, step);
      for (const LocalStep& step : scripts_[m].after) check_step(m, step);
      check_exchange(m);
    }
    check_rings();
    check_pairs();
    return std::move(faults_);
  }

 private:
  template <typename... Args>
  void expect(bool condition, fmt::format_string<Args...> text, Args&&... args) {
    if (!condition) faults_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  std::int64_t size_of_buffer(std::size_t member, Buffer buffer) const {
    switch (buffer) {
      case Buffer::kIn:
        return in_[member].value;
      case Buffer::kOut:
        return out_[member].value;
      case Buffer::kStaging:
        return scripts_[member].staging.value;
    }
    return 0;
  }

  // `elements` from the place to the last touched element, inclusive; -1: too many to count.
  void check_inside(std::size_t member, const ScriptPlace& place, std::int64_t elements) {
    std::int64_t bytes = 0, end = 0;
    const bool overflows =
        elements < 0 ||
        __builtin_mul_overflow(elements, size_of(scripts_[member].dtype).value, &bytes) ||
        __builtin_add_overflow(bytes, place.offset.value, &end);
    expect(!overflows && place.offset.value >= 0 && end <= size_of_buffer(member, place.buffer),
           "member {}: {} elements from byte {} on leave a buffer of {} bytes", member, elements,
           place.offset.value, size_of_buffer(member, place.buffer));
  }

  static std::int64_t reach(const std::vector<ScriptDim>& dims, std::int64_t ScriptDim::*stride) {
    std::int64_t last = 0;
    for (const ScriptDim& dim : dims) {
      std::int64_t step = 0;
      if (dim.extent < 1 || dim.*stride < 0 ||
          __builtin_mul_overflow(dim.extent - 1, dim.*stride, &step) ||
          __builtin_add_overflow(last, step, &last))
        return -1;
    }
    return last + 1;
  }

  void check_step(std::size_t member, const LocalStep& step) {
    if (step.kind != Step::kFill)
      check_inside(member, step.from, reach(step.dims, &ScriptDim::from));
    check_inside(member, step.to, reach(step.dims, &ScriptDim::to));
  }

  void check_exchange(std::size_t member) {
    const auto members = static_cast<std::int64_t>(scripts_.size());
    std::vector<ByteRange> ranges;
    const auto touch = [&](const ScriptPlace& place, std::int64_t elements, bool writes) {
      check_inside(member, place, elements);
      const std::int64_t bytes = (size_of(scripts_[member].dtype) * elements).value;
      ranges.push_back({place.buffer, place.offset.value, place.offset.value + bytes, writes});
    };
    for (const ExchangeCall& call : scripts_[member].exchange) {
      expect(call.elements > 0, "member {}: a call of {} elements", member, call.elements);
      expect(is_ring(call.kind) ? scripts_[member].exchange.size() == 1
                                : call.peer >= 0 && call.peer < members &&
                                      call.peer != static_cast<std::int32_t>(member),
             "member {}: a ring beside other calls, or no peer", member);
      const std::int64_t all = call.elements * members;
      switch (call.kind) {
        case Call::kAllReduce:
          check_inside(member, call.from, call.elements);
          check_inside(member, call.to, call.elements);
          break;
        case Call::kAllGather:
          check_inside(member, call.from, call.elements);
          check_inside(member, call.to, all);
          break;
        case Call::kReduceScatter:
          check_inside(member, call.from, all);
          check_inside(member, call.to, call.elements);
          break;
        case Call::kSend:
          touch(call.from, call.elements, false);
          break;
        case Call::kReceive:
          touch(call.to, call.elements, true);
          break;
      }
    }
    for (std::size_t a = 0; a < ranges.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        expect(ranges[a].buffer != ranges[b].buffer || !(ranges[a].writes || ranges[b].writes) ||
                   ranges[a].end <= ranges[b].begin || ranges[b].end <= ranges[a].begin,
               "member {}: two calls of the exchange touch the same bytes", member);
  }

  void check_rings() {
    const auto ring_of = [](const CollectiveScript& script) {
      const bool rings = !script.exchange.empty() && is_ring(script.exchange.front().kind);
      return rings ? std::optional(std::tuple(script.exchange.front().kind,
                                              script.exchange.front().op,
                                              script.exchange.front().elements))
                   : std::nullopt;
    };
    for (const CollectiveScript& script : scripts_)
      expect(ring_of(script) == ring_of(scripts_.front()), "members take part in different rings");
  }

  void check_pairs() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int64_t>> sent, received;
    for (std::size_t m = 0; m < scripts_.size(); ++m)
      for (const ExchangeCall& call : scripts_[m].exchange) {
        const auto own = static_cast<std::int32_t>(m);
        if (call.kind == Call::kSend) sent[{own, call.peer}].push_back(call.elements);
        if (call.kind == Call::kReceive) received[{call.peer, own}].push_back(call.elements);
      }
    expect(sent == received, "sends have no receives of their size, or receives no sends");
  }

  const std::span<const CollectiveScript> scripts_;
  const std::span<const Bytes> in_, out_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> faults_of(std::span<const CollectiveScript> scripts,
                                   std::span<const Bytes> in, std::span<const Bytes> out) {
  return FaultFinder(scripts, in, out).find();
}

}  // namespace sextant
