// posix_spawn, because other threads may hold locks that a fork would copy; the row comes back in
// the folder of results that every sweep writes.
#include "cli/runs/point_process.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "experiments/sweeps/results_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <spawn.h>
#include <stdlib.h>
#include <system_error>
#include <thread>
#include <utility>

namespace sextant {
namespace {

using Clock = std::chrono::steady_clock;

// Says to a process that it computes a point for another.
constexpr const char* kVariable = "SEXTANT_POINT_PROCESS";

constexpr std::array<std::string_view, 4> kDropped = {"--out", "--point", "--point-limit",
                                                      "--threads"};
constexpr std::array<std::string_view, 5> kDroppedFlags = {"--json", "--overwrite", "-q", "--quiet",
                                                           "--quick"};

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  require(!words.empty(), ErrorCode::kDevice,
          "/proc/self/cmdline cannot be read: --point-limit needs it");
  words.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sextant-point-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, ErrorCode::kBadInput,
            "no folder for the row of a point can be made in {}",
            std::filesystem::temp_directory_path().string());
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Pointers to texts with a null behind them, as the system wants them.
class TextPointers {
 public:
  explicit TextPointers(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  TextPointers(const TextPointers&) = delete;
  TextPointers& operator=(const TextPointers&) = delete;

  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// Temporary files of the point go into `temporary`, which outlives a process that is killed.
std::vector<std::string> environment_of_point(const std::string& temporary) {
  constexpr std::string_view kTemporary = "TMPDIR=";
  std::vector<std::string> texts = {fmt::format("{}=1", kVariable),
                                    std::string(kTemporary) + temporary};
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with(kTemporary)) texts.emplace_back(*variable);
  return texts;
}

// In a group of its own. Its standard output goes nowhere, its errors into `errors`.
class Process {
 public:
  Process(const std::vector<std::string>& command, const std::string& errors,
          const std::string& temporary) {
    const TextPointers words(command), environment(environment_of_point(temporary));
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int failure = ::posix_spawn(&id_, command.front().c_str(), &files, &attributes,
                                      words.get(), environment.get());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    require(failure == 0, ErrorCode::kDevice, "{} cannot be started: {}", command.front(),
            std::strerror(failure));
  }
  ~Process() {
    if (!is_running_) return;
    ::kill(-id_, SIGKILL);  // and what it has started
    ::waitpid(id_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The status that it ended with; nothing where it has not by then.
  std::optional<int> wait_until(Clock::time_point end) {
    auto pause = std::chrono::milliseconds(1);
    constexpr auto kLongest = std::chrono::milliseconds(50);
    for (;;) {
      int status = 0;
      const pid_t ended = ::waitpid(id_, &status, WNOHANG);
      if (ended == id_) {
        is_running_ = false;
        return status;
      }
      require(ended == 0 || errno == EINTR, ErrorCode::kDevice,
              "the process of a point cannot be waited for: {}", std::strerror(errno));
      if (Clock::now() >= end) return std::nullopt;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongest);
    }
  }

 private:
  pid_t id_ = 0;
  bool is_running_ = true;
};

std::string end_text(int status, const std::string& errors) {
  if (WIFSIGNALED(status))
    return fmt::format("its process was ended by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  std::ifstream file(errors);
  std::string first;
  std::getline(file, first);
  return fmt::format("its process ended with exit code {} and without a row{}{}",
                     WEXITSTATUS(status), first.empty() ? "" : ": ", first);
}

ErrorCode code_named(std::string_view name) {
  for (const ErrorCode code :
       {ErrorCode::kUsage, ErrorCode::kBadInput, ErrorCode::kInfeasible, ErrorCode::kDevice,
        ErrorCode::kRankFailed, ErrorCode::kVerification, ErrorCode::kCheckpoint})
    if (name == to_string(code)) return code;
  return ErrorCode::kInternal;
}

PointResult result_in(const std::string& folder, const std::string& point, int status,
                      const std::string& errors) {
  const std::string path = folder + "/results.jsonl";
  if (std::filesystem::exists(path))
    for (const SweepRow& row : rows_from_lines(read_text_file(path), path)) {
      if (row.point.name != point) continue;
      if (row.error) throw Error(code_named(row.error->code), row.error->text);
      return row.result;
    }
  fail(ErrorCode::kRankFailed, "{}", end_text(status, errors));
}

PointResult evaluate_in_process(const std::string& experiment, const SweepPoint& point,
                                Duration limit) {
  const ScratchFolder scratch;
  const std::string folder = scratch.path() + "/row", errors = scratch.path() + "/errors";
  const std::string temporary = scratch.path() + "/temporary";
  std::filesystem::create_directory(temporary);
  const bool is_alone = point.way == ResultWay::kMeasured;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(to_seconds(limit)));
  Process process(point_command(own_command(), experiment, point.name, folder, is_alone), errors,
                  temporary);
  const std::optional<int> status = process.wait_until(end);
  require(status.has_value(), ErrorCode::kRankFailed,
          "it took longer than {}, the limit of a point", to_text(limit));
  return result_in(folder, point.name, *status, errors);
}

}  // namespace

std::vector<std::string> point_command(std::span<const std::string> own,
                                       const std::string& experiment, const std::string& point,
                                       const std::string& folder, bool alone) {
  std::vector<std::string> words;
  for (std::size_t index = 0; index < own.size(); ++index) {
    const std::string& word = own[index];
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (is_one_of(kDroppedFlags, word)) continue;
    if (is_one_of(kDropped, name)) {
      if (name == word) ++index;  // its value stands behind it
      continue;
    }
    const bool is_all = word == "all" && index > 0 && own[index - 1] == "experiment";
    words.push_back(is_all ? experiment : word);
  }
  for (const std::string& word : {"--point=" + point, "--out=" + folder, std::string("--quiet")})
    words.push_back(word);
  if (!alone) words.emplace_back("--threads=1");
  return words;
}

EvaluatePoint in_own_process(const Experiment& experiment, Duration limit) {
  return [name = experiment.name, limit](const SweepPoint& point) {
    return evaluate_in_process(name, point, limit);
  };
}

bool is_point_process() {
  const bool is_one = ::getenv(kVariable) != nullptr;
  if (is_one) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return is_one;
}

}  // namespace sextant
