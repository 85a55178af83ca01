// To a helper: a strategy, or the end. From a helper: what became of a strategy, or its own end.
#include "cli/runs/search_helpers.h"

#include "cli/signals.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

constexpr HostTag kTasks{HostSubject::kWork, 0}, kResults{HostSubject::kWork, 1};
constexpr std::string_view kEnd = "end";
// How long somebody who waits goes without asking whether to stop.
constexpr std::chrono::milliseconds kTick{20};

Rank process_of(std::size_t helper) { return Rank(helper + 1); }

}  // namespace

HelpingProcesses::HelpingProcesses(HostGroup& group)
    : group_(group), helpers_(group.size() - 1), receiver_([this] { receive(); }) {}

HelpingProcesses::~HelpingProcesses() {
  for (std::size_t helper = 0; helper < helpers_.size(); ++helper) {
    try {
      group_.send(process_of(helper), kTasks, host_bytes(kEnd));
    } catch (const std::exception&) {
      break;  // the group is aborted, which ends all
    }
  }
  receiver_.join();
}

void HelpingProcesses::receive() {
  try {
    for (std::size_t ended = 0; ended < helpers_.size();) {
      const HostMessage message = group_.receive_any(kResults);
      std::string text = host_text(message.bytes);
      const std::lock_guard lock(mutex_);
      if (text == kEnd) {
        ++ended;
        continue;
      }
      std::string& busy = helpers_[message.from.index() - 1];
      found_[std::exchange(busy, {})] = std::move(text);
      give_work();
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

void HelpingProcesses::give_work() {
  for (std::size_t helper = 0; helper < helpers_.size(); ++helper) {
    if (!helpers_[helper].empty()) continue;
    if (expected_.empty()) return;
    helpers_[helper] = expected_.front();
    expected_.erase(expected_.begin());
    found_.emplace(helpers_[helper], "");
    ++counts_.begun;
    group_.send(process_of(helper), kTasks, host_bytes(helpers_[helper]));
  }
}

void HelpingProcesses::expect(std::span<const Strategy> next) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  expected_.clear();
  for (const Strategy& strategy : next)
    if (std::string text = to_string(strategy); !found_.contains(text))
      expected_.push_back(std::move(text));
  give_work();
}

std::optional<Evaluation> HelpingProcesses::take(const Strategy& strategy, const StopPoll& stop) {
  const std::string text = to_string(strategy);
  std::unique_lock lock(mutex_);
  const auto place = found_.find(text);
  if (place == found_.end()) {
    std::erase(expected_, text);
    return std::nullopt;
  }
  while (place->second.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    lock.unlock();
    stop();
    lock.lock();
    changed_.wait_for(lock, kTick);
  }
  ++counts_.used;
  return evaluation_from(place->second);
}

HelpingProcesses::Counts HelpingProcesses::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

namespace {

// What the first process wants, as it comes.
class Tasks {
 public:
  explicit Tasks(HostGroup& group) : receiver_([this, &group] { receive(group); }) {}
  ~Tasks() { receiver_.join(); }
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  bool is_over() const { return is_over_ || was_interrupted(); }

  // Nothing: it is over.
  std::optional<std::string> next() {
    std::unique_lock lock(mutex_);
    while (strategies_.empty() && !is_over()) changed_.wait_for(lock, kTick);
    if (is_over()) return std::nullopt;
    std::string strategy = std::move(strategies_.front());
    strategies_.pop_front();
    return strategy;
  }

 private:
  void receive(HostGroup& group) {
    try {
      while (true) {
        std::string text = host_text(group.receive(Rank(0), kTasks));
        if (text == kEnd) break;
        const std::lock_guard lock(mutex_);
        strategies_.push_back(std::move(text));
        changed_.notify_all();
      }
    } catch (const Error&) {  // aborted: whoever calls the group next is told why
    }
    is_over_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;  // of strategies_
  std::condition_variable changed_;
  std::deque<std::string> strategies_;
  std::atomic<bool> is_over_ = false;
  std::thread receiver_;
};

}  // namespace

void help_search(HostGroup& group, const SearchProblem& problem, const SearchLimits& limits) {
  StrategyEvaluator evaluator(problem, limits);
  Tasks tasks(group);
  const StopPoll stop([&tasks] { return tasks.is_over(); });
  try {
    while (const std::optional<std::string> strategy = tasks.next())
      group.send(Rank(0), kResults,
                 host_bytes(evaluation_text(evaluator.evaluate(parse_strategy(*strategy), stop))));
  } catch (const CompileStopped&) {
  } catch (const std::exception& error) {
    group.abort(error.what());  // the first process would wait for it, and this one for its end
    throw;
  }
  group.send(Rank(0), kResults, host_bytes(kEnd));
}

}  // namespace sextant
