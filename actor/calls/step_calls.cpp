// Equal launches are found by a text of all that tells them apart.
#include "actor/calls/step_calls.h"

#include "actor/calls/operands.h"
#include "core/graphs/operator.h"

#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sextant {
namespace {

std::string text_of(const KernelOperand& operand) {
  return fmt::format("{} {}", to_string(operand.local.shape), to_string(operand.local.dtype));
}

std::string types_of(const KernelContext& call) {
  std::string text;
  for (const KernelOperand& in : call.in) text += (text.empty() ? "" : ", ") + text_of(in);
  text += " ->";
  for (std::size_t i = 0; i < call.out.size(); ++i)
    text += (i == 0 ? " " : ", ") + text_of(call.out[i]) + (call.accumulate[i] ? " +=" : "");
  return text;
}

template <typename Value>
std::string text_of(const Value& value) {
  return fmt::format("{}", value);
}

std::string text_of(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values)
    text += (text.empty() ? "[" : ", ") + std::to_string(value);
  return text.empty() ? "[]" : text + "]";
}

// Names of tensors and streams change no time.
std::string text_of(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.entries())
    if (name != "parameter" && name != "stream")
      text += " " + name + "=" + std::visit([](const auto& v) { return text_of(v); }, value);
  return text;
}

std::string key_of(const KernelContext& call) {
  std::string key = call.actor->kind + " " + types_of(call) + text_of(call.actor->attributes);
  for (const ActorMember& member : call.actor->members)
    key += " " + member.kind + text_of(member.attributes);
  return key;
}

// Plans state the work of the whole only.
Work work_of(const KernelContext& member) {
  std::vector<TensorType> inputs, outputs;
  for (const KernelOperand& in : member.in) inputs.push_back(in.local);
  for (const KernelOperand& out : member.out) outputs.push_back(out.local);
  return builtin_operators()
      .get(member.actor->kind)
      .work(inputs, outputs, member.actor->attributes);
}

void forget_addresses(KernelContext& call) {
  for (KernelOperand& in : call.in) in.data = nullptr;
  for (KernelOperand& out : call.out) out.data = nullptr;
}

}  // namespace

std::string StepLaunch::types() const { return types_of(calls.front()); }

Work StepLaunch::work() const {
  Work sum = works.front();
  for (std::size_t i = 1; i < works.size(); ++i) {
    sum.flops += works[i].flops;
    sum.read += works[i].read;
    sum.written += works[i].written;
  }
  return sum;
}

StepLaunches::StepLaunches(const PhysicalGraph& graph, Rank rank, const GoTogether& go_together)
    : contexts_(graph, rank, 0, [](const BufferRef&) { return nullptr; }) {
  const ProgramId program = graph.ranks[rank].program;
  const OperandResolver resolver(graph, program);
  const Table<RunId, Run>& order = graph.programs[program].order;
  std::map<std::string, std::size_t> known;
  const auto add = [&](std::vector<KernelContext> calls, const std::string& key) {
    const auto [found, is_new] = known.emplace(key, launches_.size());
    if (is_new) {
      std::vector<Work> works;
      for (const KernelContext& call : calls) works.push_back(call.actor->work);
      launches_.push_back({.calls = std::move(calls), .works = std::move(works), .count = 0});
    }
    ++launches_[found->second].count;
  };
  for (const RunId run : order.keys()) {
    std::vector<KernelContext> together;
    std::string key;
    for (const ActorCall& call : resolver.calls(run)) {
      if (call.actor->queue != QueueRole::kCompute || call.actor->communication) continue;
      const bool joins = !together.empty() && together.back().actor->kind == call.actor->kind &&
                         go_together(call.actor->kind);
      if (!joins && !together.empty()) {
        add(std::move(together), key);
        together.clear();
        key.clear();
      }
      together.push_back(contexts_.of_call(call, order[run]));
      key += key_of(together.back()) + "\n";
    }
    if (!together.empty()) add(std::move(together), key);
  }
}

std::vector<StepLaunch> StepLaunches::members(const StepLaunch& fused) {
  std::vector<StepLaunch> made;
  std::byte* const nowhere = nullptr;
  for (KernelContext& member : contexts_.of_members(fused.calls.front(), nowhere)) {
    forget_addresses(member);
    const Work work = work_of(member);
    made.push_back({.calls = {std::move(member)}, .works = {work}, .count = fused.count});
  }
  return made;
}

}  // namespace sextant
