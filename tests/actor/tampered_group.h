// A member of a host group whose messages are handed over as a network without order would: the
// last of those that have come first, or one of them twice. Without such a bug it changes nothing.
#pragma once

#include "actor/hosts/host_group.h"
#include "tests/actor/interleaving_bugs.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::testing {

class TamperedGroup final : public HostGroup {
 public:
  // `group` outlives it.
  TamperedGroup(HostGroup& group, PlantedBug bug) : group_(group), bug_(bug) {}
  Rank rank() const override { return group_.rank(); }
  std::size_t size() const override { return group_.size(); }
  std::string name_of(Rank member) const override { return group_.name_of(member); }
  void abort(const std::string& reason) override { group_.abort(reason); }
  std::vector<HostBytes> all_gather(std::span<const std::byte> own) override {
    return group_.all_gather(own);
  }
  void send(Rank to, HostTag tag, HostBytes bytes) override {
    group_.send(to, tag, std::move(bytes));
  }
  HostBytes receive(Rank from, HostTag tag) override { return group_.receive(from, tag); }
  HostMessage receive_any(HostTag tag) override { return group_.receive_any(tag); }
  std::optional<HostMessage> try_receive_any(HostTag tag) override {
    std::optional<HostMessage> message = group_.try_receive_any(tag);
    if (bug_ == PlantedBug::kArrivalsNotInOrder)
      for (; message; message = group_.try_receive_any(tag)) kept_.push_back(std::move(*message));
    if (message && bug_ == PlantedBug::kRepeatsNotDropped && ++seen_ % 5 == 0)
      kept_.push_back(*message);
    if (!message && !kept_.empty()) {
      message = std::move(kept_.back());
      kept_.pop_back();
    }
    return message;
  }

 private:
  HostGroup& group_;
  const PlantedBug bug_;
  std::vector<HostMessage> kept_;
  std::int64_t seen_ = 0;
};

}  // namespace sextant::testing
