// Terminal, documents and whole files.
#include "cli/console.h"

#include "cli/signals.h"
#include "core/base/check.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

namespace sextant {
namespace {

namespace fs = std::filesystem;

// Tried, because permissions do not tell: root has them all, and /proc takes nothing from it.
bool can_hold(const fs::path& folder) {
  std::string probe = (folder / ".sextant-XXXXXX").string();
  if (mkdtemp(probe.data()) == nullptr) return false;
  std::error_code ignored;
  fs::remove(probe, ignored);
  return true;
}

void print_error_document(std::string_view code, const std::string& message,
                          const std::string& place, const std::vector<std::string>& hints) {
  const nlohmann::ordered_json document = {
      {"schema", "sextant.error.v1"}, {"ok", false},    {"code", code},
      {"message", message},           {"place", place}, {"hints", hints}};
  // Messages quote what files hold, which need not be UTF-8.
  fmt::print("{}\n",
             document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  document_is_written();
}

}  // namespace

void Console::say(const std::string& line) const {
  if (!options_.quiet && !options_.json) fmt::print("{}\n", line);
}

void Console::note(const std::string& line) const {
  if (options_.quiet) return;
  std::fflush(stdout);
  fmt::print(stderr, "note: {}\n", line);
}

void Console::progress(const std::string& line) {
  if (options_.quiet) return;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const double now = wall_seconds();
  constexpr double kShortWork_s = 2;  // is over before anybody asks
  const double interval_s = terminal ? 0.2 : 10.0;
  if (last_progress_s_ < 0) last_progress_s_ = now + kShortWork_s - interval_s;
  if (now - last_progress_s_ < interval_s) return;
  last_progress_s_ = now;
  progress_shown_ = terminal;
  fmt::print(stderr, "{}{}{}", terminal ? "\r\x1b[K" : "", line, terminal ? "" : "\n");
  std::fflush(stderr);
}

void Console::end_progress() {
  if (progress_shown_) fmt::print(stderr, "\r\x1b[K");
  progress_shown_ = false;
}

void Console::document(const std::string& verb, const nlohmann::ordered_json& body) const {
  if (!options_.json) return;
  nlohmann::ordered_json document = {{"schema", "sextant." + verb + ".v1"}, {"ok", true}};
  document.update(body);
  fmt::print("{}\n", document.dump(2));
  document_is_written();
}

int report_error(const Error& error, bool json) {
  std::fflush(stdout);
  if (json)
    print_error_document(to_string(error.code()), error.what(), error.place(), error.hints());
  fmt::print(stderr, "error ({}): {}\n", to_string(error.code()), error.what());
  for (const std::string& hint : error.hints()) fmt::print(stderr, "  hint: {}\n", hint);
  return static_cast<int>(error.code());
}

void report_interrupted(const Error& error, bool json) {
  std::fflush(stdout);
  const std::string text = error.code() == ErrorCode::kInfeasible
                               ? fmt::format("interrupted: {}", error.what())
                               : "interrupted";
  if (json) print_error_document("interrupted", text, "", {});
  fmt::print(stderr, "{}\n", text);
}

std::vector<std::string> TextTable::lines() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += c == 0 ? fmt::format("{:<{}}", row[c], widths[c])
                     : fmt::format("  {:>{}}", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string TextTable::text() const {
  std::string text;
  for (const std::string& line : lines()) text += line + '\n';
  text.pop_back();
  return text;
}

std::string wrapped(const std::string& text, std::size_t columns) {
  constexpr std::size_t kMore = 4;
  std::istringstream lines(text);
  std::string result;
  for (std::string rest; std::getline(lines, rest);) {
    rest.erase(rest.find_last_not_of(' ') + 1);
    const std::size_t indent = std::min(rest.find_first_not_of(' '), columns / 2);
    while (rest.size() > columns) {
      std::size_t end = rest.find_last_of(' ', columns);
      if (end == std::string::npos || end <= indent + kMore) end = columns;
      result += rest.substr(0, rest.find_last_not_of(' ', end - 1) + 1) + '\n';
      rest = std::string(indent + kMore, ' ') + rest.substr(rest.find_first_not_of(' ', end));
    }
    result += rest + '\n';
  }
  if (!result.empty()) result.pop_back();
  return result;
}

void write_file_whole(const std::string& path, const std::string& text) {
  const fs::path target(path);
  std::error_code failed;
  // A rename would replace a device, a pipe or a link by a file.
  const fs::file_status found = fs::symlink_status(target, failed);
  require(!fs::exists(found) || fs::is_regular_file(found), ErrorCode::kBadInput,
          "{}: exists and is not a regular file; it is left alone", path);
  failed.clear();
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), failed);
  require(!failed, ErrorCode::kBadInput, "{}: cannot make the folder: {}", path, failed.message());
  const fs::path beside = target.string() + ".partial";
  const RemovedBySignal removed(beside.string());
  errno = 0;
  std::ofstream file(beside, std::ios::binary);
  file << text;
  file.close();
  if (file.good())
    fs::rename(beside, target, failed);
  else
    failed = std::error_code(errno, std::generic_category());
  if (file.good() && !failed) return;
  std::error_code ignored;
  fs::remove(beside, ignored);
  fail(ErrorCode::kBadInput, "{}: cannot be written{}", path,
       failed ? ": " + failed.message() : "");
}

void require_results_folder(const CommonOptions& options, const std::vector<std::string>& files) {
  const std::string& folder = options.out;
  if (folder.empty()) return;
  require(!fs::exists(folder) || fs::is_directory(folder), ErrorCode::kBadInput,
          "--out {}: exists and is not a folder", folder);
  for (const std::string& file : files)
    require_writable("--out", (fs::path(folder) / file).string());
  if (options.overwrite) return;
  for (const std::string& file : files)
    if (fs::exists(fs::path(folder) / file))
      throw Error(ErrorCode::kUsage,
                  fmt::format("--out {}: {} is there from an earlier run", folder, file),
                  {"--overwrite replaces the results in the folder", "or name another folder"});
}

void require_different_files(const std::vector<NamedFile>& files) {
  std::map<fs::path, std::string> seen;
  for (const auto& [name, file] : files) {
    if (file.empty()) continue;
    std::error_code failed;
    const fs::path path = fs::weakly_canonical(fs::absolute(file, failed), failed);
    const auto [first, is_new] = seen.emplace(failed ? fs::path(file) : path, name);
    require(is_new, ErrorCode::kUsage, "{} and {} are the same file, {}", first->second, name,
            file);
  }
}

void require_writable(const std::string& option, const std::string& path) {
  const fs::path target(path);
  std::error_code failed;
  const fs::file_status found = fs::symlink_status(target, failed);
  require(!fs::exists(found) || fs::is_regular_file(found), ErrorCode::kBadInput,
          "{} {}: exists and is not a regular file", option, path);
  fs::path folder = fs::absolute(target, failed).parent_path();
  while (!fs::exists(folder, failed) && folder.has_relative_path()) folder = folder.parent_path();
  require(can_hold(folder), ErrorCode::kBadInput, "{} {}: nothing can be written in {}", option,
          path, folder.string());
}

double wall_seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace sextant
