// Values for options from elsewhere than the command line: defaults < configuration file <
// environment < --set < command line.
#pragma once

#include "cli/verb.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

class JsonCursor;

inline constexpr std::string_view kConfigSchema = "sextant.config/1";

// Whether files, environment and --set may give the option of this name: not those that say where
// values come from.
bool is_settable(std::string_view key);

// A value and where it was found: "run.json: search.top", "SEXTANT_TOP", "--set top=5".
struct FoundValue {
  std::vector<std::string> values;  // one, but for an option that is a list
  std::string place;
};

// A configuration file is a JSON object. Its keys are options by their long names, for every verb
// that has them, and verbs, whose values are objects of the same form and count more:
//   {"global-batch": 64, "search": {"top": 3}, "cluster": {"bench": {"dtype": "bf16"}}}
// Numbers, texts, true and false as options take them; lists of texts for options that repeat.
class Settings {
 public:
  // Of `verb`, one of `verbs`. Reads `config` ("": none) and `sets` ("search.top=5"). Throws
  // Error(kBadInput) with the place of a key in the file that no verb has, and Error(kUsage) for
  // one of --set, with the nearest that would do; also where a value cannot be one.
  Settings(std::span<const Verb> verbs, const Verb& verb, const std::string& config,
           const std::vector<std::string>& sets);

  // The value that counts most for an option of the verb; nothing where all are silent. An empty
  // variable of the environment is none.
  std::optional<FoundValue> find(const Option& option) const;

 private:
  struct Entry {
    std::string key;  // of an option
    FoundValue found;
  };
  class Section;
  void add_section(const JsonCursor& object, const Section& section, const Verb& verb);
  void add_set(const std::string& set, Section section, const Verb& verb);
  static const FoundValue* last(const std::vector<Entry>& entries, const std::string& key);

  std::vector<Entry> file_, sets_;  // what counts more stands behind
};

}  // namespace sextant
