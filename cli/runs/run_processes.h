// The processes of one verb: this one alone, or those that a launcher
// has started. Who speaks, what all must have in common, and how all end together.
#pragma once

#include "backends/cpu/cpu_backend.h"
#include "backends/hosts/process_group.h"
#include "core/base/error.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sextant {

// What must be equal in all processes, by name, and the code of the error where it is not.
struct CommonFact {
  std::string name, value;
  ErrorCode code = ErrorCode::kBadInput;
};

// Of the program file that runs.
std::string build_hash();

class RunProcesses {
 public:
  RunProcesses() = default;  // this one alone
  // Throws what join_processes throws. Errors are reported as `json` says.
  RunProcesses(const Launched& launched, double timeout_s, bool json);
  ~RunProcesses();
  RunProcesses(const RunProcesses&) = delete;
  RunProcesses& operator=(const RunProcesses&) = delete;

  bool are_several() const { return group_ != nullptr; }
  // Of several.
  HostGroup& group() const { return group_->group(); }
  bool is_first() const { return !group_ || group_->group().rank().index() == 0; }
  // On one machine with the first process, and so with its clock.
  bool is_beside_first() const;
  // " in 2 processes"; empty for one.
  std::string text() const;

  // All go on, or none: every process throws the first error.
  void agree_after(const std::function<void()>& act);
  // What throws the same in every process, because it agrees itself.
  void together(const std::function<void()>& act);
  // Throws on every process where a fact of one differs from that of the first.
  void require_common(const std::vector<CommonFact>& facts);
  std::int64_t least(std::int64_t value);
  std::vector<std::string> gather(const std::string& text);

  // Gives each process its block of ranks.
  void spread(std::size_t ranks);
  std::optional<RankProcesses> of_ranks() const;
  // Of what this machine has, the share of the ranks of this process.
  Bytes share(Bytes of_machine) const;

  // For `on_step` of whoever has it and for the process that keeps metrics.
  void send_metrics(const std::string& text);
  // One by one, until `steps` have come; throws once the group is aborted.
  void receive_metrics(std::int64_t steps, const std::function<void(const std::string&)>& take);

  // A signal came. Why the work ends: a process is lost or has failed, or the user wants it, which
  // the others are told.
  std::string reason_of_signal();
  double grace_s() const;  // from a signal to last words
  // A process is lost or has failed, this one included: the launcher's signal is no wish of the
  // user then.
  bool has_failed();
  // A signal ended the work, and no failure did. Where another process was interrupted it waits a
  // moment for the signal: the word of the other may be faster.
  bool is_interrupted();
  // Ends the process because of what `has_failed` has found.
  [[noreturn]] void end_failed();
  // Ends the process after an error; the first that lives says it.
  [[noreturn]] void end(const Error& error);
  // All have agreed that all is done: from here on no end of another, and no signal, changes how
  // this one ends.
  void note_done() { is_done_ = true; }
  // Ends the process after the work; returns where it may end in the ordinary way.
  void leave();

 private:
  void watch();
  std::string failure();  // empty: none
  // Says for all why the work ends: the first that lives, or that is left.
  bool speaks();
  void tell_interrupted();
  [[noreturn]] void end_with(const std::string& reason);
  [[noreturn]] void end_stopped();
  Error named(const Error& error) const;

  bool json_ = false;
  bool is_done_ = false;
  bool is_agreed_ = false;  // the error that is thrown is everyone's
  std::shared_ptr<ProcessGroup> group_;
  std::optional<RankBlocks> blocks_;
  std::mutex mutex_;  // of is_over_
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread watch_;
};

}  // namespace sextant
