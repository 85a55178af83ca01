// The processes that a launcher (mpirun, srun) started for one job, as one host group: they join,
// watch each other, and leave together. Ranks are spread over them in blocks.
#pragma once

#include "actor/hosts/host_group.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// What the environment says of who started this process.
struct Launched {
  std::string launcher;  // "mpirun", "srun", or "a launcher", which does not say which
  std::size_t process = 0, processes = 1;
};

// Looks up a variable of the environment; nullptr: there is none.
using EnvironmentLookup = std::function<const char*(const char*)>;

// Nothing where this process was started alone, by whomever.
std::optional<Launched> launched_by(const EnvironmentLookup& lookup);

struct ProcessOptions {
  // A process that says nothing for so long is given up.
  std::chrono::milliseconds timeout{60'000};
};

// Whether this build has MPI, without which no processes join.
bool has_mpi();

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  // What the processes agree on and send each other goes through it.
  virtual HostGroup& group() = 0;
  // What each process is here for ("ranks 0 to 1"): said with its name from then on.
  virtual void name_work(std::vector<std::string> work) = 0;
  // Machine of each process: a number that is equal where processes share memory.
  virtual const std::vector<std::size_t>& machines() const = 0;
  // Bytes of messages that this process has sent to others, what they carry alone.
  virtual std::int64_t sent_bytes() const = 0;
  // Why the group was aborted. Empty: it was not.
  virtual std::string fault() const = 0;
  // It was aborted by a process that had said goodbye before: somebody wanted its end, nothing
  // failed.
  virtual bool was_left() const = 0;
  // Which process is lost, after another look at those of this machine: a twentieth of a second at
  // most where one is missing, no time otherwise. Empty: none.
  virtual std::string lost() = 0;
  // The process that speaks for all: the first that is not lost, and was heard within half of the
  // timeout. One that was stopped may speak too when it is let go on.
  virtual bool speaks() const = 0;
  // This process is about to end: nobody will miss it.
  virtual void say_goodbye() = 0;
  // Waits until what was sent has got out, so long at most; whether it has.
  virtual bool flush(std::chrono::milliseconds patience) = 0;
  // Says goodbye and waits until the others have, or are lost, so long at most. True: this process
  // has left as it came and may end in the ordinary way; false: it must end at once.
  virtual bool leave(std::chrono::milliseconds patience) = 0;
};

// Through MPI; returns when all processes have joined. Error(kDevice): this build has no MPI, or a
// launcher of another kind; Error(kRankFailed): not all came in time, or one was lost meanwhile.
// Whoever drops the group leaves it, half a second at most for each of goodbyes and MPI's end.
std::shared_ptr<ProcessGroup> join_processes(const Launched& launched,
                                             const ProcessOptions& options);

}  // namespace sextant
