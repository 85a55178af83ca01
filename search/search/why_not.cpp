// A search with one more fixed setting, and a subtraction.

#include "search/search/why_not.h"

#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "simulator/reports/named_parts.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace sextant {

namespace {

void append_words(const std::string& text, std::vector<std::string>& words) {
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
}

std::vector<WhyNotTerm> time_terms(const StepParts& chosen, const StepParts& constrained) {
  std::vector<WhyNotTerm> terms;
  for (const NamedPart& part : kNamedParts)
    terms.push_back({std::string(part.name), WhyNotTerm::Unit::kSeconds, (chosen.*part.part).mean_s,
                     (constrained.*part.part).mean_s});
  std::stable_sort(terms.begin(), terms.end(), [](const WhyNotTerm& a, const WhyNotTerm& b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  return terms;
}

std::vector<WhyNotTerm> memory_terms(const Candidate& chosen, const Candidate& constrained) {
  std::vector<WhyNotTerm> terms;
  for (std::size_t memory = 0; memory < kNumMemoryClasses; ++memory)
    terms.push_back({fmt::format("memory: {}", to_string(static_cast<MemoryClass>(memory))),
                     WhyNotTerm::Unit::kBytes,
                     static_cast<double>(chosen.memory_by_class.at(memory).value),
                     static_cast<double>(constrained.memory_by_class.at(memory).value)});
  return terms;
}

std::string amount(const WhyNotTerm& term, double value) {
  const char* const sign = value < 0 ? "-" : "";
  switch (term.unit) {
    case WhyNotTerm::Unit::kSeconds:
      return fmt::format("{}{}", sign, to_text(duration_from_seconds(std::abs(value))));
    case WhyNotTerm::Unit::kBytes:
      return fmt::format("{}{}", sign, to_text(Bytes(std::llround(std::abs(value)))));
  }
  return "?";
}

std::string signed_amount(const WhyNotTerm& term) {
  const double difference = term.difference();
  return fmt::format("{}{}", difference > 0 ? "+" : "", amount(term, difference));
}

std::string line_of(const WhyNotTerm& term) {
  return fmt::format("  {:<24} {:>12} {:>12} {:>13}\n", term.name, amount(term, term.chosen),
                     amount(term, term.constrained), signed_amount(term));
}

// A line per kind of reason.
std::string reasons_of(const SearchResult& result) {
  std::string text;
  for (const Rejection& rejection : result.rejections)
    text += fmt::format("  {}, for instance {}: {}\n", counted(rejection.count, "strategy"),
                        to_string(rejection.example), rejection.reason);
  if (result.open > 0)
    text += fmt::format("  {} not looked at\n",
                        counted(result.open, "strategy was", "strategies were"));
  return text;
}

}  // namespace

WhyNot why_not(const SearchProblem& problem, const Candidate& chosen, const std::string& constraint,
               const SearchLimits& limits) {
  SearchLimits constrained = limits;
  append_words(constraint, constrained.fixed);
  require(constrained.fixed.size() > limits.fixed.size(), ErrorCode::kUsage,
          "why not what? wanted a setting like tp=8");
  WhyNot answer;
  answer.constraint = constraint;
  answer.chosen = chosen;
  answer.search = search(problem, constrained);
  if (answer.search.plans.empty()) return answer;
  answer.constrained = answer.search.plans.front();
  answer.terms = time_terms(chosen.parts, answer.constrained->parts);
  const auto memory = memory_terms(chosen, *answer.constrained);
  answer.terms.insert(answer.terms.end(), memory.begin(), memory.end());
  return answer;
}

std::string to_text(const WhyNot& answer) {
  if (!answer.constrained)
    return fmt::format("No plan {}has {} ({}):\n{}",
                       answer.search.complete() ? "" : "that was found ", answer.constraint,
                       counted(answer.search.counted, "strategy"), reasons_of(answer.search));
  const Candidate& chosen = answer.chosen;
  const Candidate& constrained = *answer.constrained;
  if (constrained.strategy == chosen.strategy)
    return fmt::format("The chosen plan has {} already: {}\n", answer.constraint,
                       to_string(chosen.strategy));
  const double ratio = to_seconds(constrained.step_time) / to_seconds(chosen.step_time);
  std::string text = fmt::format(
      "The best plan {}with {} takes {} a step, {:.1f} % {} than the chosen one with {}.\n"
      "  chosen:      {}\n  constrained: {}\n\n  {:<24} {:>12} {:>12} {:>13}\n",
      answer.search.complete() ? "" : "found ", answer.constraint, to_text(constrained.step_time),
      std::abs(ratio - 1) * 100, ratio < 1 ? "less" : "more", to_text(chosen.step_time),
      to_string(chosen.strategy), to_string(constrained.strategy), "mean over ranks", "chosen",
      "constrained", "difference");
  for (const WhyNotTerm& term : answer.terms)
    if (term.chosen != 0 || term.constrained != 0) text += line_of(term);
  return text;
}

}  // namespace sextant
