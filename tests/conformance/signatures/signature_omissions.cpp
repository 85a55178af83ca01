// Parses and matches the patterns of omitted rows.
#include "tests/conformance/signatures/signature_omissions.h"

#include "core/base/check.h"

#include <algorithm>
#include <sstream>

namespace sextant {
namespace {

bool matches_one(std::string_view pattern, const Sbp& word) {
  return pattern == "*" || (pattern == "S" && word.is_split()) ||
         (pattern == "P" && word.is_partial()) || pattern == to_string(word);
}

bool matches(std::string_view pattern, const Sbp& word) {
  while (true) {
    const std::size_t bar = pattern.find('|');
    if (matches_one(pattern.substr(0, bar), word)) return true;
    if (bar == std::string_view::npos) return false;
    pattern.remove_prefix(bar + 1);
  }
}

bool matches(const std::vector<std::string>& patterns, const std::vector<Sbp>& words) {
  return std::equal(
      patterns.begin(), patterns.end(), words.begin(), words.end(),
      [](const std::string& pattern, const Sbp& word) { return matches(pattern, word); });
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Omission parse_line(const std::string& line, int number) {
  const std::size_t colon = line.find(": "), reason = line.find(" -- ");
  require(colon != std::string::npos && reason != std::string::npos && colon < reason &&
              line.find_first_not_of(' ', reason + 4) != std::string::npos,
          ErrorCode::kBadInput, "omitted rows, line {}: '{}', wanted 'kind: row -- reason'", number,
          line);
  Omission omission;
  omission.line = number;
  omission.kind = line.substr(0, colon);
  omission.reason = line.substr(reason + 4);
  const std::vector<std::string> words = words_of(line.substr(colon + 1, reason - colon - 1));
  const auto arrow = std::find(words.begin(), words.end(), "->");
  require(arrow != words.end(), ErrorCode::kBadInput,
          "omitted rows, line {}: no '->' between the words of inputs and outputs", number);
  omission.inputs.assign(words.begin(), arrow);
  omission.outputs.assign(arrow + 1, words.end());
  return omission;
}

}  // namespace

bool Omission::covers(std::string_view other_kind, const SbpSignature& row) const {
  return kind == other_kind && matches(inputs, row.inputs) && matches(outputs, row.outputs);
}

std::vector<Omission> parse_omissions(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<Omission> omissions;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number)
    if (!line.empty() && line[0] != '#') omissions.push_back(parse_line(line, number));
  return omissions;
}

}  // namespace sextant
