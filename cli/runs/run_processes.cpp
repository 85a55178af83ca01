// Ends are bounded: whatever this process does, once the group is aborted it is over in a few
// seconds.
#include "cli/runs/run_processes.h"

#include "cli/console.h"
#include "cli/signals.h"
#include "compiler/expand/plan.h"
#include "core/base/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace sextant {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWatchTick{50};
// From an abort, or a signal, to the end of a process whose work does not end.
constexpr milliseconds kTimeToFail{3'000};
constexpr milliseconds kTimeToStop{700};  // a launcher kills a second after its signal
constexpr milliseconds kTimeToTell{50};   // for a goodbye to get out
// Between the signals of a launcher to two of its processes.
constexpr milliseconds kTimeOfSignals{100};
// For the goodbyes of others: longer than the last of them takes to fail, because the launcher ends
// whoever is left when the first has ended.
constexpr milliseconds kGoodbyePatience = kTimeToFail + milliseconds(1'000);

constexpr HostTag kMetricsTag{HostSubject::kMetrics, 0};

milliseconds timeout_of(double seconds) {
  constexpr double kShortest_s = 0.1, kLongest_s = 86'400;
  return milliseconds(std::llround(
      1e3 * (std::isfinite(seconds) ? std::clamp(seconds, kShortest_s, kLongest_s) : kLongest_s)));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

[[noreturn]] void end_process(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  std::_Exit(code);
}

}  // namespace

std::string build_hash() {
  // Verbs of many parts ask for each; the program's file stays what it is while it runs.
  static const std::string hash = [] {
    std::ifstream file("/proc/self/exe", std::ios::binary | std::ios::ate);
    std::string bytes(static_cast<std::size_t>(std::max<std::streamoff>(0, file.tellg())), '\0');
    file.seekg(0);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return text_hash(bytes);
  }();
  return hash;
}

RunProcesses::RunProcesses(const Launched& launched, double timeout_s, bool json)
    : json_(json),
      group_(join_processes(launched, {.timeout = timeout_of(timeout_s)})),
      watch_([this] { watch(); }) {}

RunProcesses::~RunProcesses() {
  if (!watch_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  watch_.join();
}

void RunProcesses::watch() {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<milliseconds> failed, stopped;
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, kWatchTick, [this] { return is_over_; })) {
    const auto now =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
    const std::string fault = group_->fault();
    if (!fault.empty() && !failed) failed = now;
    if (was_interrupted() && !stopped) stopped = now;
    if (stopped && now - *stopped > kTimeToStop) {
      if (has_failed()) end_failed();
      tell_interrupted();
      group_->flush(kTimeToTell);
      end_interrupted();
    }
    if (!failed || stopped || now - *failed < kTimeToFail) continue;
    end_with(fault);
  }
}

void RunProcesses::end_with(const std::string& reason) {
  ignore_signals();
  if (speaks()) report_error(named(Error(ErrorCode::kRankFailed, reason)), json_);
  end_process(static_cast<int>(ErrorCode::kRankFailed));
}

std::string RunProcesses::failure() {
  if (!group_) return {};
  const std::string lost = group_->lost();
  return !lost.empty() || group_->was_left() ? lost : group_->fault();
}

// Who was interrupted alone ends as its user wants, without a word of why the others end.
bool RunProcesses::speaks() {
  group_->lost();  // another look: another process may know more of the first than this one
  const std::size_t own = group_->group().rank().index();
  const bool first_left =
      group_->was_left() &&
      group_->fault().find(group_->group().name_of(Rank(0))) != std::string::npos;
  return group_->speaks() || (own == 1 && first_left);
}

void RunProcesses::tell_interrupted() {
  group_->say_goodbye();
  group_->group().abort(
      fmt::format("interrupted ({})", group_->group().name_of(group_->group().rank())));
}

bool RunProcesses::is_interrupted() {
  if (!group_) return was_interrupted();
  if (group_->was_left())
    for (milliseconds waited{0}; !was_interrupted() && waited < kTimeOfSignals; ++waited)
      std::this_thread::sleep_for(milliseconds(1));
  return was_interrupted() && !has_failed();
}

bool RunProcesses::is_beside_first() const {
  return !group_ || group_->machines()[group_->group().rank().index()] == group_->machines()[0];
}

std::string RunProcesses::text() const {
  return group_ ? fmt::format(" in {} processes", group_->group().size()) : "";
}

void RunProcesses::agree_after(const std::function<void()>& act) {
  if (!group_) return act();
  together([&] { group_->group().agree_after(act); });
}

void RunProcesses::together(const std::function<void()>& act) {
  try {
    act();
  } catch (...) {
    is_agreed_ = true;
    throw;
  }
}

std::vector<std::string> RunProcesses::gather(const std::string& text) {
  if (!group_) return {text};
  std::vector<std::string> texts;
  for (const HostBytes& bytes : group_->group().all_gather(host_bytes(text)))
    texts.push_back(host_text(bytes));
  return texts;
}

void RunProcesses::require_common(const std::vector<CommonFact>& facts) {
  if (!group_) return;
  for (const CommonFact& fact : facts) {
    const std::vector<std::string> values = gather(fact.value);
    for (std::size_t p = 1; p < values.size(); ++p)
      together([&] {
        require(values[p] == values[0], fact.code,
                "all processes must have the same {}: {} has {}, {} has {}", fact.name,
                group_->group().name_of(Rank(0)), values[0], group_->group().name_of(Rank(p)),
                values[p]);
      });
  }
}

std::int64_t RunProcesses::least(std::int64_t value) {
  std::int64_t least = value;
  for (const std::string& text : gather(std::to_string(value)))
    least = std::min<std::int64_t>(least, std::stoll(text));
  return least;
}

void RunProcesses::spread(std::size_t ranks) {
  if (!group_) return;
  blocks_.emplace(ranks, group_->group().size());
  std::vector<std::string> work;
  for (std::size_t p = 0; p < blocks_->num_processes(); ++p)
    work.push_back(blocks_->text_of(Rank(p)));
  group_->name_work(std::move(work));
}

std::optional<RankProcesses> RunProcesses::of_ranks() const {
  if (!group_) return std::nullopt;
  return RankProcesses{group_->group(), *blocks_};
}

Bytes RunProcesses::share(Bytes of_machine) const {
  if (!group_) return of_machine;
  const std::size_t own = group_->group().rank().index();
  std::size_t ranks = 0;
  for (std::size_t p = 0; p < group_->machines().size(); ++p)
    if (group_->machines()[p] == group_->machines()[own]) ranks += blocks_->size_of(Rank(p));
  return Bytes(of_machine.value / static_cast<std::int64_t>(ranks) *
               static_cast<std::int64_t>(blocks_->size_of(Rank(own))));
}

void RunProcesses::send_metrics(const std::string& text) {
  group_->group().send(Rank(0), kMetricsTag, host_bytes(text));
}

void RunProcesses::receive_metrics(std::int64_t steps,
                                   const std::function<void(const std::string&)>& take) {
  for (std::int64_t step = 0; step < steps; ++step)
    take(host_text(group_->group().receive_any(kMetricsTag).bytes));
}

std::string RunProcesses::reason_of_signal() {
  if (!group_) return "interrupted";
  const std::string failed = failure();
  if (!failed.empty()) return failed;
  tell_interrupted();
  return "interrupted";
}

// A launcher kills an eighth of a second after its signal.
double RunProcesses::grace_s() const { return group_ ? 0.03 : 0.4; }

bool RunProcesses::has_failed() { return !failure().empty(); }

void RunProcesses::end_failed() { end_with(failure()); }

// The host of a rank stands in the name of its process.
Error RunProcesses::named(const Error& error) const {
  const std::string own = group_->group().name_of(group_->group().rank());
  const std::string text = error.what();
  const std::string first = first_line(text);
  if (first.find("host ") != std::string::npos) return error;
  return {error.code(), first + " (" + own + ")" + text.substr(first.size()), error.hints()};
}

void RunProcesses::end(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;  // this is the end
  }
  if (is_interrupted()) {
    if (is_first()) report_interrupted(error, json_);
    end_stopped();
  }
  // An error of one process is a failed rank to all; where all agreed, it is what it is.
  const Error failed =
      is_agreed_ ? error : named(Error(ErrorCode::kRankFailed, error.what(), error.hints()));
  if (!is_agreed_) group_->group().abort(first_line(failed.what()));
  ignore_signals();
  if (speaks()) report_error(failed, json_);
  group_->leave(was_interrupted() ? kTimeToTell : kGoodbyePatience);
  end_process(static_cast<int>(failed.code()));
}

void RunProcesses::leave() {
  if (!group_) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  if (!is_done_ && was_interrupted()) {
    if (has_failed()) end_failed();
    end_stopped();
  }
  // What a launcher tells those that are left when one has ended changes nothing any more.
  ignore_signals();
  if (!group_->leave(kGoodbyePatience)) end_process(0);
}

// The launcher does not wait: nobody meets at the end of MPI.
void RunProcesses::end_stopped() {
  group_->say_goodbye();
  group_->flush(kTimeToTell);
  end_process(128 + interrupting_signal());
}

}  // namespace sextant
