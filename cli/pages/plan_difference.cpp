// Subtractions, and two maps of words merged by name.
#include "cli/pages/plan_difference.h"

#include "cli/pages/words_part.h"
#include "compiler/strategy/strategy_settings.h"
#include "simulator/reports/named_parts.h"

#include <fmt/core.h>

#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace sextant {
namespace {

void add_if_different(std::vector<StatedDifference>& all, const std::string& key,
                      const std::string& first, const std::string& second) {
  if (first != second) all.push_back({key, first, second});
}

std::string pins_text(const Strategy& strategy) {
  std::string text;
  for (const WordPin& pin : strategy.pins) text += (text.empty() ? "" : " ") + to_string(pin);
  return text;
}

// "gpt2-124m, 5f3a...": equal names may stand for different texts.
std::string named_text(const std::string& name, const std::string& hash) {
  return fmt::format("{}, {}", name, hash);
}

std::vector<StatedDifference> stated_differences(const PlanView& a, const PlanView& b) {
  std::vector<StatedDifference> all;
  const Plan &first = a.planned.plan, &second = b.planned.plan;
  if (first.model_hash != second.model_hash)
    all.push_back({"model", named_text(first.model, first.model_hash),
                   named_text(second.model, second.model_hash)});
  if (first.cluster_hash != second.cluster_hash)
    all.push_back({"cluster", named_text(first.cluster, first.cluster_hash),
                   named_text(second.cluster, second.cluster_hash)});
  for (const StrategySetting& setting : strategy_settings())
    if (setting.write != nullptr)
      add_if_different(all, std::string(setting.key), setting.write(first.strategy),
                       setting.write(second.strategy));
  add_if_different(all, "pin", pins_text(first.strategy), pins_text(second.strategy));
  const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
  add_if_different(all, "global batch", number(first.global_batch), number(second.global_batch));
  add_if_different(all, "sequence", number(first.sequence), number(second.sequence));
  add_if_different(all, "dtype", std::string(to_string(first.compute_dtype)),
                   std::string(to_string(second.compute_dtype)));
  add_if_different(all, "optimizer", to_string(first.optimizer), to_string(second.optimizer));
  const BucketLimits &from = first.expand.buckets, &to = second.expand.buckets;
  add_if_different(all, "bucket_bytes", to_text(from.bytes), to_text(to.bytes));
  add_if_different(all, "bucket_operations", number(from.operations), number(to.operations));
  const ExpandOptions &one = first.expand, &other = second.expand;
  for (const auto& [name, a, b] :
       {std::tuple{"fusion", one.fusion, other.fusion},
        std::tuple{"join_runs", one.join_runs, other.join_runs},
        std::tuple{"launch_groups", one.launch_groups, other.launch_groups},
        std::tuple{"plan_memory", one.plan_memory, other.plan_memory},
        std::tuple{"in_place", one.in_place, other.in_place},
        std::tuple{"symmetric", one.symmetric, other.symmetric},
        std::tuple{"slot_lifetime modelled", one.slot_lifetime == SlotLifetime::kModelled,
                   other.slot_lifetime == SlotLifetime::kModelled},
        std::tuple{"transfer_order early", one.transfer_order == TransferOrder::kEarly,
                   other.transfer_order == TransferOrder::kEarly}})
    add_if_different(all, name, a ? "on" : "off", b ? "on" : "off");
  const auto memory = [](const Plan& plan) {
    return plan.memory ? to_text(*plan.memory) : std::string("the device's");
  };
  add_if_different(all, "memory", memory(first), memory(second));
  return all;
}

// "dp S(0), tp B": axes by name, so that meshes of other extents can be compared.
std::string words_by_axis(const NdSbp& words, const Placement& placement) {
  std::string text;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (placement.axes[axis].extent > 1)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", placement.axes[axis].name,
                          to_string(words[axis]));
  return text.empty() ? "whole" : text;
}

// By operator, all that its layers have, each once.
std::map<std::string, std::string> words_by_name(const PlanView& plan) {
  std::map<std::string, std::set<std::string>> found;
  for (const WordRow& row : word_rows(plan.staged))
    found[row.name].insert(words_by_axis(
        row.result, plan.staged.placements[static_cast<std::size_t>(*row.stages.begin())]));
  std::map<std::string, std::string> texts;
  for (const auto& [name, words] : found)
    for (const std::string& one : words) {
      std::string& text = texts[name];
      text += (text.empty() ? "" : " or ") + one;
    }
  return texts;
}

std::vector<WordsDifference> words_differences(const PlanView& first, const PlanView& second) {
  const auto a = words_by_name(first), b = words_by_name(second);
  std::vector<WordsDifference> all;
  std::set<std::string> names;
  for (const auto* texts : {&a, &b})
    for (const auto& [name, words] : *texts) names.insert(name);
  for (const std::string& name : names) {
    const auto in_first = a.find(name), in_second = b.find(name);
    WordsDifference one{name, in_first == a.end() ? "" : in_first->second,
                        in_second == b.end() ? "" : in_second->second};
    if (one.first != one.second) all.push_back(std::move(one));
  }
  return all;
}

std::vector<DifferentTerm> time_differences(const PlanView& first, const PlanView& second) {
  std::vector<DifferentTerm> terms;
  for (const NamedPart& part : kNamedParts)
    terms.push_back({std::string(part.name), DifferentTerm::Unit::kSeconds,
                     (first.simulation.parts.*part.part).mean_s,
                     (second.simulation.parts.*part.part).mean_s});
  return terms;
}

const std::vector<Bytes>& classes_of(const PlanView& plan) {
  return plan.graph().programs[plan.tightest.program].arena.peak_by_class;
}

Bytes packing_of(const PlanView& plan) {
  Bytes rest = plan.tightest.arena;
  for (const Bytes bytes : classes_of(plan)) rest -= bytes;
  return rest;
}

DifferentTerm bytes_term(std::string name, Bytes first, Bytes second) {
  return {std::move(name), DifferentTerm::Unit::kBytes, static_cast<double>(first.value),
          static_cast<double>(second.value)};
}

std::vector<DifferentTerm> memory_differences(const PlanView& first, const PlanView& second) {
  std::vector<DifferentTerm> terms;
  for (std::size_t c = 0; c < kNumMemoryClasses; ++c)
    terms.push_back(bytes_term(std::string(to_string(static_cast<MemoryClass>(c))),
                               classes_of(first)[c], classes_of(second)[c]));
  terms.push_back(bytes_term("room between them", packing_of(first), packing_of(second)));
  terms.push_back(
      bytes_term("libraries", total(first.tightest.libraries), total(second.tightest.libraries)));
  return terms;
}

std::vector<DifferentTerm> boxing_differences(const PlanView& first, const PlanView& second) {
  const auto a = boxing_totals(first.boxing), b = boxing_totals(second.boxing);
  std::set<std::string> names;
  for (const auto* totals : {&a, &b})
    for (const auto& [name, sums] : *totals)
      if (name != "all") names.insert(name);
  std::vector<DifferentTerm> terms;
  const auto sum = [](const std::map<std::string, BoxingTotal>& totals, const std::string& name) {
    const auto found = totals.find(name);
    return found == totals.end() ? BoxingTotal() : found->second;
  };
  for (const std::string& name : names) {
    const BoxingTotal from = sum(a, name), to = sum(b, name);
    terms.push_back({name + ", times", DifferentTerm::Unit::kCount, static_cast<double>(from.acts),
                     static_cast<double>(to.acts)});
    terms.push_back(bytes_term(name + ", moved", from.moved, to.moved));
    terms.push_back({name + ", modelled time", DifferentTerm::Unit::kSeconds, to_seconds(from.time),
                     to_seconds(to.time)});
  }
  return terms;
}

}  // namespace

PlanDifference plan_difference(const PlanView& first, const PlanView& second) {
  return {stated_differences(first, second), words_differences(first, second),
          time_differences(first, second), memory_differences(first, second),
          boxing_differences(first, second)};
}

}  // namespace sextant
