// A member of a host group whose messages are handed over as a network without order would: the
// last of those that have come first, or one of them twice. Without such a bug it changes nothing.
#pragma once

#include "actor/hosts/host_group.h"
#include "tests/actor/interleaving_bugs.h"
#include "tests/support/forwarding_group.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sextant::testing {

class TamperedGroup final : public ForwardingGroup {
 public:
  // `group` outlives it.
  TamperedGroup(HostGroup& group, PlantedBug bug) : ForwardingGroup(group), bug_(bug) {}
  std::optional<HostMessage> try_receive_any(HostTag tag) override {
    std::optional<HostMessage> message = ForwardingGroup::try_receive_any(tag);
    if (bug_ == PlantedBug::kArrivalsNotInOrder)
      for (; message; message = ForwardingGroup::try_receive_any(tag))
        kept_.push_back(std::move(*message));
    if (message && bug_ == PlantedBug::kRepeatsNotDropped && ++seen_ % 5 == 0)
      kept_.push_back(*message);
    if (!message && !kept_.empty()) {
      message = std::move(kept_.back());
      kept_.pop_back();
    }
    return message;
  }

 private:
  const PlantedBug bug_;
  std::vector<HostMessage> kept_;
  std::int64_t seen_ = 0;
};

}  // namespace sextant::testing
