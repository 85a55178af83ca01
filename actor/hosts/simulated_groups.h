// A host group over a simulated link: members of one process, on threads of their own or all driven
// by one, whose messages come late, in another order and twice. What holds over it holds over a
// network, and a seed repeats what went wrong as far as threads allow.
#pragma once

#include "actor/hosts/arrival_order.h"
#include "actor/hosts/host_group.h"
#include "actor/hosts/simulated_link.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sextant {

class SimulatedHostGroups {
 public:
  SimulatedHostGroups(std::size_t members, const LinkFaults& faults);
  ~SimulatedHostGroups();
  SimulatedHostGroups(const SimulatedHostGroups&) = delete;
  SimulatedHostGroups& operator=(const SimulatedHostGroups&) = delete;

  HostGroup& of(Rank member);
  void abort(const std::string& reason);
  // Lets one message arrive; false: none is on its way.
  bool move_one();
  bool is_idle() const;  // none is on its way
  // Messages that came before their turn, and once more, and were put right.
  std::int64_t early() const;
  std::int64_t repeated() const;

 private:
  class Member;
  bool move_one_locked();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  SimulatedLink link_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace sextant
