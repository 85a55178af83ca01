// `search` over processes: the first walks the tree, the others compile what it may come to next.
#pragma once

#include "actor/hosts/host_group.h"
#include "search/search/evaluators.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace sextant {

// Of the first process: one strategy at a time for each of the others. Ends them when it is
// destroyed.
class HelpingProcesses final : public Evaluators {
 public:
  explicit HelpingProcesses(HostGroup& group);
  ~HelpingProcesses() override;
  HelpingProcesses(const HelpingProcesses&) = delete;
  HelpingProcesses& operator=(const HelpingProcesses&) = delete;

  std::size_t wanted() const override { return helpers_.size(); }
  void expect(std::span<const Strategy> next) override;
  std::optional<Evaluation> take(const Strategy& strategy, const StopPoll& stop) override;

  struct Counts {
    std::int64_t begun = 0, used = 0;  // strategies
  };
  // So far. Any thread.
  Counts counts() const;

 private:
  // By strategy, as text. Empty: under way.
  using Found = std::map<std::string, std::string>;

  void receive();
  void give_work();  // under the mutex

  HostGroup& group_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<std::string> helpers_;   // what each is at; empty: idle
  std::vector<std::string> expected_;  // the likeliest first
  Found found_;
  Counts counts_;
  std::exception_ptr failure_;
  std::thread receiver_;
};

// Of every other process: compiles what it is sent until the first process is done, or a signal
// comes.
void help_search(HostGroup& group, const SearchProblem& problem, const SearchLimits& limits);

}  // namespace sextant
