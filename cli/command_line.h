// The command line: what was typed, as a verb whose options have their values.
#pragma once

#include "cli/verb.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace sextant {

inline constexpr std::string_view kDefaultPlace = "default";
inline constexpr const char* kCommandLinePlace = "command line";

// A value of an option and where it comes from: kDefaultPlace, kCommandLinePlace, or a place of
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

  // What of these a user should know.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Parser;
  bool is_left_to_plan(const Verb& verb, const Option& option) const;
  std::map<std::string, std::string> add_found(const Verb& verb, CLI::App& typed, int argc,
                                               char** argv);
  struct Addition;
  static std::vector<std::string> arguments_of(std::span<const Addition> found);
  void parse_with(std::span<const Addition> found, int argc, char** argv);
  void note_values(const Verb& verb, const std::map<std::string, std::string>& places);

  std::vector<Verb> verbs_;
  CommonOptions& common_;
  std::unique_ptr<Parser> parser_;
  std::vector<NamedValue> values_;
  std::vector<std::string> notes_;
};

}  // namespace sextant
