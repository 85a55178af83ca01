// The validator: each rule is broken alone, starting from a valid graph, and gives its own message.
// The cases are text, in broken_graphs/ (README there).
#include "core/base/check.h"
#include "core/graphs/physical_graph_text.h"
#include "tests/support/graph_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sextant::broken_graphs_test {
namespace {

using Lines = std::vector<std::string>;

struct Case {
  std::string rule, message;
  Lines edits;
};

// A file of cases.
struct CaseFile {
  std::string graph;  // name of the valid one
  Lines edits;        // of all cases
  std::vector<Case> cases;
};

std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(' ') - begin + 1);
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// "--- RULE: MESSAGE"
Case case_from(const std::string& line) {
  const std::size_t colon = line.find(": ");
  require(colon != std::string::npos, ErrorCode::kBadInput, "'{}': wanted --- RULE: MESSAGE", line);
  return {.rule = line.substr(4, colon - 4), .message = line.substr(colon + 2), .edits = {}};
}

CaseFile case_file(const std::string& path) {
  CaseFile file;
  for (const std::string& line : lines_of(testing::test_file(path))) {
    if (line.empty() || line.starts_with("//")) continue;
    if (line.starts_with("graph "))
      file.graph = line.substr(6);
    else if (line.starts_with("--- "))
      file.cases.push_back(case_from(line));
    else
      (file.cases.empty() ? file.edits : file.cases.back().edits).push_back(line);
  }
  return file;
}

// The lines after edits; refuses an edit that finds no line.
Lines edited(Lines lines, const Lines& edits) {
  std::size_t at = 0;
  for (const std::string& edit : edits) {
    const std::string wanted = trimmed(edit.substr(1));
    if (edit.front() == '+') {
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at++), wanted);
      continue;
    }
    const auto found = std::find_if(lines.begin() + static_cast<std::ptrdiff_t>(at), lines.end(),
                                    [&](const auto& line) { return trimmed(line) == wanted; });
    require(found != lines.end(), ErrorCode::kBadInput, "no line '{}' from line {} on", wanted,
            at + 1);
    at = static_cast<std::size_t>(found - lines.begin());
    if (edit.front() == '-')
      lines.erase(found);
    else
      ++at;
  }
  return lines;
}

std::vector<std::string> case_paths() {
  std::vector<std::string> paths;
  const std::string folder = std::string(SEXTANT_SOURCE_ROOT) + "/tests/core/broken_graphs";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt")
      paths.push_back("core/broken_graphs/" + entry.path().filename().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void check_case(const Case& broken, const Lines& valid) {
  const PhysicalGraph graph = physical_graph_from_text(text_of(edited(valid, broken.edits)));
  const std::vector<std::string> messages = validate(graph);
  REQUIRE(messages.size() >= 1);
  CHECK_MESSAGE(messages.size() == 1, messages.back());
  CHECK_MESSAGE(messages[0].starts_with(broken.rule + ": "), messages[0]);
  CHECK_MESSAGE(messages[0].find(broken.message) != std::string::npos, messages[0]);
}

TEST_CASE("each rule, broken alone, gives its own message") {
  for (const std::string& path : case_paths()) {
    CAPTURE(path);
    const CaseFile file = case_file(path);
    const Lines valid =
        edited(lines_of(testing::test_file("support/graphs/" + file.graph + ".txt")), file.edits);
    CHECK(validate(physical_graph_from_text(text_of(valid))) == std::vector<std::string>());
    CHECK(!file.cases.empty());
    for (const Case& broken : file.cases) {
      CAPTURE(broken.rule);
      CAPTURE(broken.message);
      check_case(broken, valid);
    }
  }
}

// "I1" of the list's lines "// - I1  the version ...".
std::set<std::string> rules_of_the_list() {
  std::set<std::string> rules;
  for (const std::string& line :
       lines_of(testing::test_file("../core/validator/physical_graph_validator.cpp")))
    if (line.starts_with("// - ")) rules.insert(line.substr(5, line.find(' ', 5) - 5));
  return rules;
}

TEST_CASE("every rule of the validator's list has a case, and every case a rule") {
  std::set<std::string> rules;
  for (const std::string& path : case_paths())
    for (const Case& broken : case_file(path).cases) rules.insert(broken.rule);
  CHECK(rules == rules_of_the_list());
}

}  // namespace
}  // namespace sextant::broken_graphs_test
