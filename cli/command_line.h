// The command line: what was typed, as a verb whose options have their values.
#pragma once

#include "cli/verb.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr std::string_view kDefaultPlace = "default";

// A value of an option and where it comes from: kDefaultPlace, "command line", or a place of
// cli/settings.h.
struct NamedValue {
  std::string key;
  std::vector<std::string> values;
  std::string place;
};

class CommandLine {
 public:
  // `common` outlives it.
  CommandLine(std::vector<Verb> verbs, CommonOptions& common);
  ~CommandLine();

  // Sets the options of the verb that was typed, from everywhere that options come from, and
  // returns it; nothing where help was asked for, which is then printed. Once. Throws
  // Error(kUsage) for what is not understood, Error(kBadInput) for a bad configuration file.
  const Verb* parse(int argc, char** argv);
  // By option of that verb.
  const std::vector<NamedValue>& values() const { return values_; }

 private:
  struct Parser;
  void add_found(const std::vector<NamedValue>& found, int argc, char** argv);
  void note_values(const Verb& verb, const std::vector<NamedValue>& found);

  std::vector<Verb> verbs_;
  const CommonOptions& common_;
  std::unique_ptr<Parser> parser_;
  std::vector<NamedValue> values_;
};

}  // namespace sextant
