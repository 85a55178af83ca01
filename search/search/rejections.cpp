// Of each kind the closest miss, or the first refusal, stands for all.
#include "search/search/rejections.h"

#include "core/text/part_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

namespace sextant {
namespace {

std::string text_of_excess(Bytes needed, const std::vector<LibraryUse>& libraries,
                           Bytes available) {
  const std::string beside =
      libraries.empty()
          ? ""
          : fmt::format(" (libraries {}: {})", to_text(total(libraries)), to_text(libraries));
  return fmt::format("memory: {}{}", part_text(needed, available), beside);
}

// A reason without its numbers, names and hints: what refusals of one kind have in common.
std::string kind_of_reason(const std::string& reason) {
  std::string kind;
  bool quoted = false;
  for (const char c : reason.substr(0, reason.find(';'))) {
    if (c == '\'') quoted = !quoted;
    if (!quoted && std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  }
  return kind;
}

}  // namespace

void Rejections::note_bound(const Strategy& node, std::int64_t leaves,
                            const NodeFacts::Excess& excess,
                            const std::vector<LibraryUse>& libraries) {
  Rejection& kind = of_kind(Rejection::Kind::kMemoryBound, "");
  kind.count += leaves;
  if (!kind.reason.empty() && excess.missing >= least_excess_) return;
  least_excess_ = excess.missing;
  kind.example = node;
  const Bytes beside = total(libraries);
  kind.reason =
      "at least " + text_of_excess(excess.needed + beside, libraries, excess.room + beside);
}

void Rejections::note_miss(const Candidate& candidate) {
  Rejection& kind = of_kind(Rejection::Kind::kMemoryPlan, "");
  ++kind.count;
  if (!note_closest(candidate)) return;
  kind.example = candidate.strategy;
  kind.reason = text_of_excess(candidate.needed_memory, candidate.libraries, candidate.capacity);
}

void Rejections::note_refusal(const Strategy& example, std::int64_t leaves,
                              const std::string& reason) {
  Rejection& kind = of_kind(Rejection::Kind::kRefused, kind_of_reason(reason));
  if (kind.count == 0) {
    kind.example = example;
    kind.reason = reason;
  }
  kind.count += leaves;
}

bool Rejections::note_closest(const Candidate& candidate) {
  const Bytes missing = candidate.needed_memory - candidate.capacity;
  if (closest_ && missing >= closest_->needed - closest_->capacity) return false;
  closest_ = {candidate.strategy, candidate.needed_memory, candidate.capacity};
  return true;
}

std::vector<Rejection> Rejections::by_kind() const {
  std::vector<Rejection> sorted = kinds_;
  std::sort(sorted.begin(), sorted.end(), [](const Rejection& a, const Rejection& b) {
    return std::tie(a.kind, a.what) < std::tie(b.kind, b.what);
  });
  return sorted;
}

Rejection& Rejections::of_kind(Rejection::Kind kind, const std::string& what) {
  const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const Rejection& one) {
    return one.kind == kind && one.what == what;
  });
  if (known != kinds_.end()) return *known;
  kinds_.push_back({kind, what, 0, {}, ""});
  return kinds_.back();
}

}  // namespace sextant
