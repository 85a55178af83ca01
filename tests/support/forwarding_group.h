// A member of a host group that another one stands behind: the base of those that change a little.
#pragma once

#include "actor/hosts/host_group.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::testing {

class ForwardingGroup : public HostGroup {
 public:
  // `group` outlives it.
  explicit ForwardingGroup(HostGroup& group) : group_(group) {}
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
    return group_.try_receive_any(tag);
  }

 private:
  HostGroup& group_;
};

}  // namespace sextant::testing
