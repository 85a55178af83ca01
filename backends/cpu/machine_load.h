// How quiet the machine is for whoever measures on it: what others took of its processors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace sextant {

// Processor seconds a second that the process's control groups allow, of both versions and at every
// level up to the root: the least; nothing without a limit. `root`: where `proc` and `sys` lie.
std::optional<double> processor_quota(const std::filesystem::path& root = "/");

// Cores that this process may use, at least one: its affinity, and the quota.
std::int64_t usable_cores();

// Processor time of all threads of this process since its start.
double process_seconds();
// Processor time of the calling thread since its start.
double thread_seconds();

// Shares of all processor time of the machine, 0..1.
struct OthersLoad {
  double others = 0;  // other processes, and what the hypervisor gave to other guests
  double stolen = 0;  // the latter alone
  // Whether others took too little to slow this process down.
  bool is_quiet() const;
};

// "others used 43 % of this machine's processor time (2 % by other guests of its host)"; empty
// where it was quiet.
std::string busy_text(const OthersLoad& load);

// From its making to now. Says nothing where the system does not count, or not for long enough:
// counters tick a hundred times a second.
class LoadWatch {
 public:
  LoadWatch();
  // From the making of the watch to now.
  std::optional<OthersLoad> load() const;

 private:
  struct Counters {
    double all = 0, busy = 0, stolen = 0, own = 0;  // s, of all processors
  };
  static std::optional<Counters> now();

  std::optional<Counters> begin_;
};

}  // namespace sextant
