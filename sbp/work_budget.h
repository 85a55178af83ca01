// How much a search may do before it gives up. Counted, not timed, so that a refusal does not
// depend on the machine. Internal to sbp/.
#pragma once

#include <cstdint>

namespace sextant {

struct OutOfWork {};  // thrown by a search, never seen outside sbp/

class WorkBudget {
 public:
  explicit WorkBudget(std::int64_t units = kMost) : left_(units) {}
  void spend(std::int64_t units) {
    if ((left_ -= units) < 0) throw OutOfWork();
  }

  // A unit is about 10 ns.
  static constexpr std::int64_t kMost = std::int64_t{1} << 28;

 private:
  std::int64_t left_;
};

}  // namespace sextant
