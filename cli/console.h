// What a verb says and where: tables and sentences for people, one document for programs.
#pragma once

#include "core/base/error.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct CommonOptions {
  bool json = false;
  bool quiet = false;
  std::uint64_t seed = 0;
  std::string out;  // folder; empty: nothing is written
  bool overwrite = false;
  std::int64_t threads = 0;  // that compile and check; 0: one per core
  bool dry_run = false;
  std::string config;            // file with values for options
  std::vector<std::string> set;  // "search.top=5"
  bool print_config = false;
};

class Console {
 public:
  explicit Console(const CommonOptions& options) : options_(options) {}

  // A line for people on standard output; nothing when quiet or where a document stands there.
  void say(const std::string& line) const;
  // What a user should know whatever becomes of the output: standard error; nothing when quiet.
  void note(const std::string& line) const;
  // A line that replaces the one before on a terminal, and is shown at most every ten seconds
  // elsewhere; nothing in the first two seconds. One thread at a time.
  void progress(const std::string& line);
  void end_progress();
  // The document of --json; `schema` is "sextant.<verb>.v1". Adds schema and ok.
  void document(const std::string& verb, const nlohmann::ordered_json& body) const;

  bool json() const { return options_.json; }

 private:
  const CommonOptions& options_;
  double last_progress_s_ = -1e9;
  bool progress_shown_ = false;
};

// Error as text for people or as a document for programs; returns the exit code.
int report_error(const Error& error, bool json);

// Reports work that a signal ended; a search says in `error` what it found out before.
void report_interrupted(const Error& error, bool json);

// Columns aligned, the first to the left, the others to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  // A row has as many cells as the header.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // All lines, without an end of line behind the last.
  std::string text() const;
  std::vector<std::string> lines() const;  // the header first

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Lines of at most so many columns: broken at blanks, words that are longer within; what goes on is
// indented by four more than the line began.
std::string wrapped(const std::string& text, std::size_t columns);

// Writes `text` beside `path` and renames it; makes the folder. Throws Error(kBadInput).
void write_file_whole(const std::string& path, const std::string& text);

// A file that an option names, by that option's name.
using NamedFile = std::pair<std::string, std::string>;
// Refuses one file under two names (links and dots resolved): what is written would replace what is
// read. Empty paths are none.
void require_different_files(const std::vector<NamedFile>& files);
// Refuses, before work is lost, a path that no file can be written to.
void require_writable(const std::string& option, const std::string& path);

// Refuses, before work is lost, a folder for results that exists as something else or cannot be
// written, and results of that name that are there: only --overwrite replaces them.
void require_results_folder(const CommonOptions& options, const std::vector<std::string>& files);

// Seconds on a clock that never goes back.
double wall_seconds();

}  // namespace sextant
