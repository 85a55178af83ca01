// Brute force over all one-axis rows of every kind, on small shapes: what is sound is claimed,
// follows from a claimed row by steps that cost nothing, or is listed with its reason in
// omitted_rows.txt. Kinds and inputs come from the registry, so a new operator is covered by
// existing.
#include "core/base/error.h"
#include "tests/conformance/signatures/signature_omissions.h"
#include "tests/conformance/signatures/signature_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant::signature_completeness_test {
namespace {

std::vector<Omission> omitted_rows() {
  std::ifstream file(SEXTANT_SOURCE_ROOT "/tests/conformance/signatures/omitted_rows.txt");
  return parse_omissions(std::string(std::istreambuf_iterator<char>(file), {}));
}

bool has_elements(const SignatureCase& on) {
  const auto is_empty = [](const TensorType& type) { return type.shape.elements() == 0; };
  return std::none_of(on.on.inputs.begin(), on.on.inputs.end(), is_empty) &&
         std::none_of(on.outputs.begin(), on.outputs.end(), is_empty);
}

// The case, and relatives with extents that the number of parts divides and does not divide.
std::vector<SignatureCase> with_relatives(const SignatureCase& on, std::int64_t parts) {
  std::vector<SignatureCase> cases{on};
  const auto add = [&](auto change) {
    auto relative = with_extents(
        on, [&](std::int64_t extent) { return extent <= 1 ? extent : change(extent); });
    if (relative) cases.push_back(std::move(*relative));
  };
  add([parts](std::int64_t extent) { return (extent + parts - 1) / parts * parts; });
  add([parts](std::int64_t extent) { return extent % parts == 0 ? extent + 1 : extent; });
  return cases;
}

std::vector<SbpSignature> fitting_rows(const SignatureCase& on, std::int64_t parts) {
  std::vector<SbpSignature> rows;
  for (const SbpSignature& row : on.rows) {
    const std::vector<const SbpSignature*> one = {&row};
    if (fits(one, Hierarchy{parts})) rows.push_back(row);
  }
  return rows;
}

bool follows_from_any(const SbpSignature& row, const std::vector<SbpSignature>& others) {
  return std::any_of(others.begin(), others.end(), [&](const SbpSignature& other) {
    return &other != &row && follows(row, other);
  });
}

// Sound rows that no claimed row covers, without those that follow from others of them.
std::vector<SbpSignature> unclaimed(const std::vector<SbpSignature>& sound,
                                    const std::vector<SbpSignature>& claimed) {
  std::vector<SbpSignature> missing, least;
  for (const SbpSignature& row : sound)
    if (!follows_from_any(row, claimed)) missing.push_back(row);
  for (const SbpSignature& row : missing)
    if (!follows_from_any(row, missing)) least.push_back(row);
  return least;
}

// Where one unclaimed row was found sound: "matmul #0 (5x4 f64, 4x3 f64) over 2, 3 parts; ...".
class Findings {
 public:
  void add(const SbpSignature& row, const SignatureCase& on, std::int64_t parts) {
    places_[to_string(row)].insert({on.name, parts});
    rows_.emplace(to_string(row), row);
  }

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [text, row] : rows_) visit(row, text, places_text(places_.at(text)));
  }

 private:
  static std::string places_text(const std::set<std::pair<std::string, std::int64_t>>& places) {
    std::string text, name;
    for (const auto& [case_name, parts] : places) {
      text += case_name == name ? ", " : (name.empty() ? "" : "; ") + case_name + " over ";
      text += std::to_string(parts);
      name = case_name;
    }
    return text;
  }

  std::map<std::string, SbpSignature> rows_;
  std::map<std::string, std::set<std::pair<std::string, std::int64_t>>> places_;
};

// The suite itself must see what is there: a claimed row that it does not find sound is one that it
// did not try or the soundness suite refutes.
void check_found(const SignatureCase& on, std::int64_t parts,
                 const std::vector<SbpSignature>& claimed, const std::vector<SbpSignature>& sound) {
  for (const SbpSignature& row : claimed) {
    const bool is_found = std::any_of(sound.begin(), sound.end(), [&](const SbpSignature& other) {
      return other.inputs == row.inputs && follows(row, other);
    });
    CHECK_MESSAGE(is_found, on.name, ": brute force over ", parts,
                  " parts does not find the claimed row ", to_string(row));
  }
}

Findings unclaimed_rows(const OperatorDef& def) {
  Findings findings;
  const std::vector<SignatureCase> examples = example_cases(def);
  const ShapeRule rule = shape_rule_of(examples);
  CHECK_MESSAGE(rule != ShapeRule::kNone, def.kind,
                ": its shape rule does not hold on the local types of its own rows, so brute force "
                "cannot tell which shapes belong together");
  for (const SignatureCase& example : examples) {
    if (!has_elements(example)) continue;
    for (const std::int64_t parts : {2, 3})
      for (const SignatureCase& on : with_relatives(example, parts)) {
        const std::vector<SbpSignature> claimed = fitting_rows(on, parts);
        const std::vector<SbpSignature> sound = sound_rows(on, parts, rule);
        check_found(on, parts, claimed, sound);
        for (const SbpSignature& row : unclaimed(sound, claimed)) findings.add(row, on, parts);
      }
  }
  return findings;
}

TEST_CASE("every sound row is claimed, follows from a claimed one or is omitted for a reason") {
  const std::vector<Omission> omissions = omitted_rows();
  std::set<int> used;
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    unclaimed_rows(registry.get(kind))
        .for_each([&](const SbpSignature& row, const std::string& text, const std::string& places) {
          bool is_omitted = false;
          for (const Omission& omission : omissions) {
            if (!omission.covers(kind, row)) continue;
            is_omitted = true;
            used.insert(omission.line);
          }
          CHECK_MESSAGE(is_omitted, "sound, but neither claimed nor omitted:  ", kind, ": ", text,
                        "  on ", places);
        });
  }
  for (const Omission& omission : omissions)
    CHECK_MESSAGE(used.contains(omission.line), "omitted_rows.txt:", omission.line,
                  ": no such row of ", omission.kind, " is sound and unclaimed: ", omission.reason);
}

// The suite must be able to fail: rows that are taken away are found, and nothing else.
TEST_CASE("a row that is no longer claimed is found") {
  const SignatureCase on = example_cases(builtin_operators().get("matmul"))[0];
  std::vector<SbpSignature> claimed = fitting_rows(on, 2);
  const std::vector<SbpSignature> sound = sound_rows(on, 2, ShapeRule::kInfer);
  CHECK(unclaimed(sound, claimed).empty());
  const std::size_t last = on.outputs[0].shape.rank() - 1;
  const SbpSignature column{{Sbp::broadcast(), Sbp::split(1)}, {Sbp::split(last)}};
  CHECK(std::erase(claimed, column) == 1);
  CHECK(unclaimed(sound, claimed) == std::vector<SbpSignature>{column});
}

TEST_CASE("a row follows from a claimed one by free steps alone") {
  const Sbp b = Sbp::broadcast(), s = Sbp::split(0), p = Sbp::partial(),
            max = Sbp::partial(ReduceOp::kMax);
  CHECK(follows({{b}, {s}}, {{s}, {s}}));               // slice, then run
  CHECK(follows({{s}, {p}}, {{s}, {s}}));               // fill up behind
  CHECK(follows({{b}, {max}}, {{b}, {b}}));             // a copy is a pending maximum
  CHECK(!follows({{s}, {s}}, {{b}, {b}}));              // would gather
  CHECK(!follows({{p}, {b}}, {{b}, {b}}));              // would reduce
  CHECK(!follows({{s}, {s}}, {{Sbp::split(1)}, {s}}));  // would exchange
  CHECK(!follows({{p}, {p}}, {{max}, {p}}));
}

TEST_CASE("omitted rows are read with their reasons, and match by word") {
  const std::vector<Omission> omissions = parse_omissions(
      "# comment\n\nf: S(0)|B P -> * -- because\ng: S B -> P(max) -- another: reason\n");
  REQUIRE(omissions.size() == 2);
  const Sbp b = Sbp::broadcast(), s = Sbp::split(0), s1 = Sbp::split(1), p = Sbp::partial(),
            max = Sbp::partial(ReduceOp::kMax);
  CHECK(omissions[0].line == 3);
  CHECK(omissions[0].reason == "because");
  CHECK(omissions[0].covers("f", {{s, p}, {max}}));
  CHECK(omissions[0].covers("f", {{b, max}, {s}}));
  CHECK(!omissions[0].covers("g", {{s, p}, {max}}));
  CHECK(!omissions[0].covers("f", {{s1, p}, {max}}));
  CHECK(!omissions[0].covers("f", {{s, b}, {max}}));
  CHECK(!omissions[0].covers("f", {{s, p}, {max, b}}));
  CHECK(omissions[1].covers("g", {{s1, b}, {max}}));
  CHECK(!omissions[1].covers("g", {{s1, b}, {p}}));
  for (const char* wrong : {"f: B -> B", "f: B -> B -- ", "f B -> B -- why", "f: B B -- why"})
    CHECK_THROWS_AS(parse_omissions(wrong), Error);
}

}  // namespace
}  // namespace sextant::signature_completeness_test
