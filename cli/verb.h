// A verb as a value: what it understands and what it does. Command line, environment and
// configuration files are all read by this one list (cli/settings.h, cli/command_line.h).
#pragma once

#include "cli/console.h"
#include "cli/workflow.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sextant {

// Where a value goes; what is there before is the default. A list takes one value per mention.
using OptionTarget =
    std::variant<bool*, std::string*, std::vector<std::string>*, std::int64_t*, std::uint64_t*,
                 double*, std::optional<std::int64_t>*, std::optional<double>*>;

struct Option {
  std::string names;  // "-c,--cluster"; without dashes it is a place on the command line: "plan"
  OptionTarget target;
  std::string text;  // one line
  bool required = false;
  std::vector<std::string> choices = {};  // what the value may be; empty: anything
  bool describes_job = false;             // a plan file in the model's place says it itself
  bool is_detail = false;                 // -h has it in the text of the option that it belongs to

  // Its name in configuration files, "cluster"; nothing of a place.
  std::string key() const;
  // "SEXTANT_GLOBAL_BATCH" of --global-batch, where the environment may give it
  // (cli/settings.h); nothing of a place.
  std::string environment_name() const;
};

// An option that -h leaves to the text of another one.
Option detail(Option option);

struct Verb {
  std::string path;  // "cluster bench"
  std::string text;  // one line
  std::string examples;
  std::vector<Option> options;
  std::function<void(const CommonOptions&, Console&)> action;
  // Which options of all verbs mean something here.
  bool is_seeded = false;       // --seed
  bool writes_results = false;  // --out, --overwrite
  bool has_dry_run = false;     // --dry-run
  // Processes of a launcher share the work; without it the first does it alone.
  bool shares_processes = false;
  // It compiles and does nothing else: what it frees, it takes again. Who trains leaves freed pages
  // to the ranks.
  bool keeps_freed_pages = false;
};

// Options of all verbs.
std::vector<Option> common_options(CommonOptions& common);
// What names a job: a model with its cluster and batch, or with a strategy, or a plan in its place.
std::vector<Option> job_options(JobArguments& job, bool with_strategy);

// The options of both, those of `first` before the others.
std::vector<Option> joined(std::vector<Option> first, std::vector<Option> more);

// The value that an option has now: empty where there is none.
std::vector<std::string> values_of(const OptionTarget& target);

}  // namespace sextant
