// Values for options from elsewhere than the command line: defaults < configuration file <
// environment < --set < command line.
#pragma once

#include "cli/verb.h"
#include "core/base/error.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class JsonCursor;

inline constexpr std::string_view kConfigSchema = "sextant.config/1";

// Whether files, environment and --set may give the option of this name: not those that say where
// values come from, and not --overwrite.
bool is_settable(std::string_view key);

// "true" or "false" for what people write of a flag (true, 1, on, yes; false, 0, off, no); nothing
// for anything else.
std::optional<std::string> flag_value(std::string_view text);

// A value and where it was found: "run.json: search.top", "SEXTANT_TOP", "--set top".
struct FoundValue {
  std::vector<std::string> values;  // one, but for an option that is a list
  std::string place;
  ErrorCode refused_as = ErrorCode::kUsage;  // where the option does not understand it
};

// A configuration file is a JSON object. Its keys are options by their long names, for every verb
// that has them, and verbs, whose values are objects of the same form and count more:
//   {"global-batch": 64, "search": {"top": 3}, "cluster": {"bench": {"dtype": "bf16"}}}
// Numbers, texts, true and false as options take them; lists of texts for options that repeat.
// Where a key is an option of one kind here and of another there ("memory" of search and of
// simulate), a value goes to those that can take it. Paths are relative to the working directory.
class Settings {
 public:
  // Of `verb`, one of `verbs`; both outlive it. Reads `config` ("": none) and `sets`
  // ("search.top=5"). Throws Error(kBadInput) with the place of a key in the file that no verb has,
  // and Error(kUsage) for one of --set, with the nearest that would do; also where a value cannot
  // be one.
  Settings(std::span<const Verb> verbs, const Verb& verb, const std::string& config,
           const std::vector<std::string>& sets);

  // The value that counts most for an option of the verb; nothing where all are silent. An empty
  // variable of the environment is none. Throws Error(kUsage) for a flag that the environment sets
  // to neither true (1, on, yes) nor false (0, off, no).
  std::optional<FoundValue> find(const Option& option) const;

 private:
  struct Entry {
    std::string key;        // of an option
    std::size_t depth = 0;  // of its section
    FoundValue found;
  };
  class Section;
  void add_section(const JsonCursor& object, const Section& section);
  void add_value(const JsonCursor& value, const std::string& key, const Section& section);
  void add_set(const std::string& set, Section section);
  std::optional<FoundValue> in_environment(const Option& option) const;
  static const FoundValue* strongest(const std::vector<Entry>& entries, const std::string& key);

  std::span<const Verb> verbs_;
  const Verb& verb_;
  std::vector<Entry> file_, sets_;
};

}  // namespace sextant
