// Whoever waits lets messages arrive, until his own has; whoever finds none under way sleeps until
// somebody sends.
#include "actor/hosts/simulated_groups.h"

#include "core/base/check.h"

#include <optional>
#include <utility>

namespace sextant {

class SimulatedHostGroups::Member final : public HostGroup {
 public:
  Member(SimulatedHostGroups& groups, Rank rank, std::size_t members)
      : groups_(groups), rank_(rank), size_(members), numbers_(members), order_(members) {}
  Rank rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::string name_of(Rank member) const override {
    return fmt::format("simulated process {} of {}", member.value, size());
  }
  void abort(const std::string& reason) override { groups_.abort(reason); }
  std::vector<HostBytes> all_gather(std::span<const std::byte> own) override {
    return gather_by_messages(*this, own, gathers_++);
  }
  void send(Rank to, HostTag tag, HostBytes bytes) override {
    const std::lock_guard lock(groups_.mutex_);
    mailbox_.require_open();
    groups_.link_.send({rank_, to, numbers_[to.index()]++, tag, std::move(bytes)});
    groups_.changed_.notify_all();
  }
  HostBytes receive(Rank from, HostTag tag) override { return take(tag, from).bytes; }
  HostMessage receive_any(HostTag tag) override { return take(tag, std::nullopt); }
  std::optional<HostMessage> try_receive_any(HostTag tag) override {
    const std::lock_guard lock(groups_.mutex_);
    groups_.move_one_locked();
    return mailbox_.try_take(tag, std::nullopt);
  }

  // Under the groups' mutex.
  void arrived(Packet packet) {
    ArrivalOrder<Packet>& order = order_[packet.from.index()];
    const std::uint64_t number = packet.number;
    order.put(number, std::move(packet));
    while (std::optional<Packet> next = order.take())
      mailbox_.put(next->tag, {next->from, std::move(next->bytes)});
  }
  void close(const std::string& reason) { mailbox_.close(reason); }
  const std::vector<ArrivalOrder<Packet>>& order() const { return order_; }

 private:
  HostMessage take(HostTag tag, std::optional<Rank> from) {
    std::unique_lock lock(groups_.mutex_);
    while (true) {
      if (std::optional<HostMessage> message = mailbox_.try_take(tag, from))
        return std::move(*message);
      if (!groups_.move_one_locked()) groups_.changed_.wait(lock);
    }
  }

  SimulatedHostGroups& groups_;
  const Rank rank_;
  const std::size_t size_;
  std::uint64_t gathers_ = 0;
  // Under the groups' mutex.
  std::vector<std::uint64_t> numbers_;       // of the next message, by receiver
  std::vector<ArrivalOrder<Packet>> order_;  // by sender
  HostMailbox mailbox_;
};

SimulatedHostGroups::SimulatedHostGroups(std::size_t members, const LinkFaults& faults)
    : link_(faults) {
  for (std::size_t member = 0; member < members; ++member)
    members_.push_back(std::make_unique<Member>(*this, Rank(member), members));
}

SimulatedHostGroups::~SimulatedHostGroups() = default;

HostGroup& SimulatedHostGroups::of(Rank member) { return *members_[member.index()]; }

void SimulatedHostGroups::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  for (const auto& member : members_) member->close(reason);
  changed_.notify_all();
}

bool SimulatedHostGroups::move_one() {
  const std::lock_guard lock(mutex_);
  return move_one_locked();
}

bool SimulatedHostGroups::is_idle() const {
  const std::lock_guard lock(mutex_);
  return link_.is_idle();
}

bool SimulatedHostGroups::move_one_locked() {
  std::optional<Packet> packet = link_.next();
  if (!packet) return false;
  const Rank to = packet->to;
  members_[to.index()]->arrived(std::move(*packet));
  changed_.notify_all();
  return true;
}

std::int64_t SimulatedHostGroups::early() const {
  const std::lock_guard lock(mutex_);
  std::int64_t count = 0;
  for (const auto& member : members_)
    for (const auto& order : member->order()) count += order.early();
  return count;
}

std::int64_t SimulatedHostGroups::repeated() const {
  const std::lock_guard lock(mutex_);
  std::int64_t count = 0;
  for (const auto& member : members_)
    for (const auto& order : member->order()) count += order.repeated();
  return count;
}

}  // namespace sextant
