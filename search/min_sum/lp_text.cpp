// Sections of an LP file; sums are broken into short lines, because readers limit their length.
#include "search/min_sum/lp_text.h"

#include "core/base/at.h"

#include <fmt/core.h>

#include <iterator>

namespace sextant {
namespace {

class LpText {
 public:
  explicit LpText(const MinSumProblem& problem) : problem_(problem) {}

  std::string take() { return std::move(text_); }

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void objective() {
    add("Minimize\n obj:");
    terms_ = 0;
    for (std::size_t t = 0; t < problem_.tables.size(); ++t)
      for (std::size_t e = 0; e < problem_.tables[t].costs.size(); ++e)
        if (const std::int64_t cost = problem_.tables[t].costs[e]; cost != kForbiddenCost)
          term(fmt::format("+ {} y{}_{}", cost, t, e));
    add("\n");
  }

  void one_label_each() {
    for (std::int32_t v = 0; v < problem_.num_variables(); ++v) {
      add(" one{}:", v);
      terms_ = 0;
      for (std::int32_t l = 0; l < at(problem_.labels, v); ++l) term(fmt::format("+ x{}_{}", v, l));
      add(" = 1\n");
    }
  }

  // The entries that have a label of a variable count as much as that label.
  void entries_follow_labels(std::size_t t) {
    const CostTable& table = problem_.tables[t];
    std::size_t inner = table.costs.size();
    if (table.scope.empty()) constant_entry(t);
    for (const std::int32_t variable : table.scope) {
      const auto labels = static_cast<std::size_t>(at(problem_.labels, variable));
      inner /= labels;
      for (std::size_t label = 0; label < labels; ++label) {
        add(" t{}_{}_{}:", t, variable, label);
        terms_ = 0;
        for (std::size_t e = 0; e < table.costs.size(); ++e)
          if (e / inner % labels == label && table.costs[e] != kForbiddenCost)
            term(fmt::format("+ y{}_{}", t, e));
        add(" - x{}_{} = 0\n", variable, label);
      }
    }
  }

  void binaries() {
    add("Binary\n");
    terms_ = 0;
    for (std::int32_t v = 0; v < problem_.num_variables(); ++v)
      for (std::int32_t l = 0; l < at(problem_.labels, v); ++l) term(fmt::format("x{}_{}", v, l));
    add("\nEnd\n");
  }

 private:
  void constant_entry(std::size_t t) {
    if (problem_.tables[t].costs.front() != kForbiddenCost)
      add(" t{}: + y{}_0 = 1\n", t, t);
    else
      add(" t{}: 0 x0_0 = 1\n", t);
  }

  void term(const std::string& text) {
    constexpr int kTermsPerLine = 8;
    text_ += ++terms_ % kTermsPerLine == 0 ? "\n  " : " ";
    text_ += text;
  }

  const MinSumProblem& problem_;
  std::string text_;
  int terms_ = 0;  // of this sum
};

}  // namespace

std::string to_lp_text(const MinSumProblem& problem, std::span<const std::string> names) {
  validate(problem);
  LpText text(problem);
  for (std::size_t v = 0; v < names.size(); ++v) text.add("\\ x{}: {}\n", v, names[v]);
  text.objective();
  text.add("Subject To\n");
  text.one_label_each();
  for (std::size_t t = 0; t < problem.tables.size(); ++t) text.entries_follow_labels(t);
  text.binaries();
  return text.take();
}

}  // namespace sextant
