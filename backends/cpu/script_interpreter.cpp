// All members' steps before, the exchange of all, all members' steps after. Calls of the exchange
// go member by member: each is matched with its peers' by kind and number.
#include "backends/cpu/script_interpreter.h"

#include "backends/cpu/kernels/shared/boxes.h"
#include "core/base/check.h"

#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using ScriptCall = ExchangeCall::Kind;

// One member: its script and where its three buffers begin.
class ScriptedMember {
 public:
  ScriptedMember(CollectiveScript script, const MemberBuffers& buffers)
      : script_(std::move(script)),
        in_(const_cast<std::byte*>(buffers.in)),
        out_(buffers.out),
        staging_(static_cast<std::size_t>(script_.staging.value)) {}

  const CollectiveScript& script() const { return script_; }
  std::int64_t element_size() const { return size_of(script_.dtype).value; }

  std::byte* at(const ScriptPlace& place) {
    std::byte* begin = place.buffer == ScriptPlace::Buffer::kIn    ? in_
                       : place.buffer == ScriptPlace::Buffer::kOut ? out_
                                                                   : staging_.data();
    require(begin != nullptr, ErrorCode::kInternal, "a script uses a buffer that its member lacks");
    return begin + place.offset.value;
  }

  void run(const std::vector<LocalStep>& steps) {
    for (const LocalStep& step : steps) {
      std::byte* to = at(step.to);
      visit(step, step.kind == LocalStep::Kind::kFill ? to : at(step.from), to, 0);
    }
  }

 private:
  void visit(const LocalStep& step, const std::byte* from, std::byte* to, std::size_t dim) {
    const bool is_row =
        dim + 1 == step.dims.size() && step.dims[dim].from == 1 && step.dims[dim].to == 1;
    if (dim == step.dims.size() || is_row)
      return move_row(step, from, to, is_row ? step.dims[dim].extent : 1);
    const ScriptDim& own = step.dims[dim];
    for (std::int64_t i = 0; i < own.extent; ++i)
      visit(step, from + i * own.from * element_size(), to + i * own.to * element_size(), dim + 1);
  }

  void move_row(const LocalStep& step, const std::byte* from, std::byte* to,
                std::int64_t elements) {
    switch (step.kind) {
      case LocalStep::Kind::kCopy:
        // Onto itself where it is in its place.
        std::memmove(to, from, static_cast<std::size_t>(elements * element_size()));
        break;
      case LocalStep::Kind::kFill:
        fill_neutral(step.op, script_.dtype, to, elements);
        break;
      case LocalStep::Kind::kReduce:
        reduce_elements(step.op, script_.dtype, from, to, elements);
        break;
    }
  }

  CollectiveScript script_;
  std::byte* in_;
  std::byte* out_;
  std::vector<std::byte> staging_;
};

class ScriptExchange {
 public:
  explicit ScriptExchange(std::vector<ScriptedMember>& members) : members_(members) {}

  void run() {
    const std::vector<ExchangeCall>& first = members_.front().script().exchange;
    if (!first.empty() && is_ring(first.front().kind)) return run_ring(first.front());
    send_all();
  }

 private:
  std::size_t size() const { return members_.size(); }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * members_.front().element_size());
  }
  const ExchangeCall& ring_of(std::size_t member) const {
    return members_[member].script().exchange.front();
  }
  std::byte* from(std::size_t member) { return members_[member].at(ring_of(member).from); }
  std::byte* to(std::size_t member) { return members_[member].at(ring_of(member).to); }

  void run_ring(const ExchangeCall& call) {
    const auto members = static_cast<std::int64_t>(size());
    if (call.kind == ScriptCall::kAllGather) return gather(call.elements);
    // Owners have the balanced parts of the whole in an all_reduce, equal ones in a reduce_scatter.
    // Results come last: an output may share its bytes with the input.
    std::vector<std::vector<std::byte>> parts;
    std::vector<std::int64_t> offsets;
    for (std::int64_t owner = 0; owner < members; ++owner) {
      const Interval part = call.kind == ScriptCall::kAllReduce
                                ? balanced_part(call.elements, members, owner)
                                : Interval{owner * call.elements, call.elements};
      offsets.push_back(part.offset);
      parts.push_back(reduced(call.op, static_cast<std::size_t>(owner), part));
    }
    for (std::size_t member = 0; member < size(); ++member)
      for (std::size_t owner = 0; owner < size(); ++owner) {
        if (call.kind == ScriptCall::kReduceScatter && owner != member) continue;
        const std::int64_t offset = call.kind == ScriptCall::kAllReduce ? offsets[owner] : 0;
        if (!parts[owner].empty())
          std::memcpy(to(member) + bytes(offset), parts[owner].data(), parts[owner].size());
      }
  }

  // In the order of a ring that ends at the owner.
  std::vector<std::byte> reduced(ReduceOp op, std::size_t owner, const Interval& part) {
    std::vector<std::byte> value(bytes(part.extent));
    if (value.empty()) return value;
    for (std::size_t hop = 1; hop <= size(); ++hop) {
      const std::byte* source = from((owner + hop) % size()) + bytes(part.offset);
      if (hop == 1)
        std::memcpy(value.data(), source, value.size());
      else
        reduce_elements(op, members_.front().script().dtype, source, value.data(), part.extent);
    }
    return value;
  }

  void gather(std::int64_t elements) {
    for (std::size_t member = 0; member < size(); ++member)
      for (std::size_t owner = 0; owner < size(); ++owner)
        std::memmove(to(member) + bytes(static_cast<std::int64_t>(owner) * elements), from(owner),
                     bytes(elements));
  }

  void send_all() {
    // By sender and receiver, in the sender's order.
    std::map<std::pair<std::size_t, std::size_t>, std::vector<const ExchangeCall*>> sent;
    for (std::size_t member = 0; member < size(); ++member)
      for (const ExchangeCall& call : members_[member].script().exchange)
        if (call.kind == ScriptCall::kSend)
          sent[{member, static_cast<std::size_t>(call.peer)}].push_back(&call);
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> taken;
    for (std::size_t member = 0; member < size(); ++member)
      for (const ExchangeCall& call : members_[member].script().exchange) {
        if (call.kind != ScriptCall::kReceive) continue;
        const std::pair pair(static_cast<std::size_t>(call.peer), member);
        const std::size_t number = taken[pair]++;
        require(number < sent[pair].size() && sent[pair][number]->elements == call.elements,
                ErrorCode::kInternal, "member {} receives what member {} does not send", member,
                call.peer);
        std::memcpy(members_[member].at(call.to), members_[pair.first].at(sent[pair][number]->from),
                    bytes(call.elements));
      }
    for (const auto& [pair, calls] : sent)
      require(taken[pair] == calls.size(), ErrorCode::kInternal,
              "member {} sends what member {} does not receive", pair.first, pair.second);
  }

  std::vector<ScriptedMember>& members_;
};

}  // namespace

void run_scripts(const CollectiveCall& call, Traffic& traffic) {
  require(call.members.size() == call.ranks.size(), ErrorCode::kInternal,
          "a communication of {} ranks was run with {} members", call.ranks.size(),
          call.members.size());
  std::vector<CollectiveScript> scripts;
  for (std::size_t member = 0; member < call.ranks.size(); ++member)
    scripts.push_back(make_script(*call.graph, *call.communication, call.ranks, member,
                                  call.members[member].accumulate));
  add_traffic(scripts, call.ranks, traffic);
  std::vector<ScriptedMember> members;
  for (std::size_t member = 0; member < scripts.size(); ++member)
    members.emplace_back(std::move(scripts[member]), call.members[member]);
  for (ScriptedMember& member : members) member.run(member.script().before);
  ScriptExchange(members).run();
  for (ScriptedMember& member : members) member.run(member.script().after);
}

}  // namespace sextant
