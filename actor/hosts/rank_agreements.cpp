// Between processes a round is one message from each to each other.
#include "actor/hosts/rank_agreements.h"

#include "core/base/check.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace sextant {
namespace {

// Of each rank its number of bytes, and they.
HostBytes packed(const std::vector<HostBytes>& parts) {
  HostBytes bytes;
  for (const HostBytes& part : parts) {
    const std::uint64_t size = part.size();
    const auto head = std::as_bytes(std::span(&size, 1));
    bytes.insert(bytes.end(), head.begin(), head.end());
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

std::vector<HostBytes> unpacked(std::span<const std::byte> bytes) {
  std::vector<HostBytes> parts;
  while (!bytes.empty()) {
    std::uint64_t size = 0;
    require(bytes.size() >= sizeof(size), ErrorCode::kInternal, "a round's message is cut");
    std::memcpy(&size, bytes.data(), sizeof(size));
    bytes = bytes.subspan(sizeof(size));
    require(size <= bytes.size(), ErrorCode::kInternal, "a round's message is cut");
    const auto part = bytes.first(static_cast<std::size_t>(size));
    parts.emplace_back(part.begin(), part.end());
    bytes = bytes.subspan(part.size());
  }
  return parts;
}

std::vector<Rank> ranks_here(std::size_t ranks, const std::optional<RankProcesses>& processes) {
  return processes ? processes->own_ranks() : RankBlocks(ranks, 1).ranks_of(Rank(0));
}

}  // namespace

class RankAgreements::Member final : public HostAgreement {
 public:
  Member(RankAgreements& all, Rank rank) : all_(all), rank_(rank) {}
  Rank rank() const override { return rank_; }
  std::size_t size() const override { return all_.members_.size(); }
  std::string name_of(Rank member) const override {
    if (!all_.processes_) return fmt::format("rank {}", member.value);
    const RankProcesses& processes = *all_.processes_;
    return fmt::format("rank {} ({})", member.value,
                       processes.group.name_of(processes.blocks.process_of(member)));
  }
  void abort(const std::string& reason) override { all_.abort(reason); }
  std::vector<HostBytes> all_gather(std::span<const std::byte> own) override {
    return all_.gather(rank_, own);
  }

 private:
  RankAgreements& all_;
  const Rank rank_;
};

RankAgreements::RankAgreements(std::size_t ranks, const std::optional<RankProcesses>& processes)
    : processes_(processes),
      own_ranks_(ranks_here(ranks, processes)),
      brought_(own_ranks_.size()),
      members_(ranks) {
  require(!processes || processes->blocks.num_ranks() == ranks, ErrorCode::kUsage,
          "processes with {} ranks for {}", processes ? processes->blocks.num_ranks() : 0, ranks);
  for (const Rank rank : own_ranks_) members_[rank.index()] = std::make_unique<Member>(*this, rank);
}

RankAgreements::~RankAgreements() = default;

HostAgreement& RankAgreements::of(Rank rank) {
  require(members_.at(rank.index()) != nullptr, ErrorCode::kInternal,
          "rank {} is in another process", rank.value);
  return *members_[rank.index()];
}

void RankAgreements::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (abort_reason_) return;
    abort_reason_ = reason;
    changed_.notify_all();
  }
  if (processes_) processes_->abort(reason);
}

std::vector<HostBytes> RankAgreements::gather(Rank rank, std::span<const std::byte> own) {
  std::unique_lock lock(mutex_);
  const std::uint64_t round = rounds_;
  if (!abort_reason_) {
    brought_[static_cast<std::size_t>(rank.value - own_ranks_.front().value)].assign(own.begin(),
                                                                                     own.end());
    if (++arrived_ == brought_.size()) exchange(lock);
    changed_.wait(lock, [&] { return rounds_ > round || abort_reason_.has_value(); });
  }
  if (rounds_ == round) fail(ErrorCode::kRankFailed, "stopped: {}", *abort_reason_);
  return gathered_;
}

// By the last rank of this process that arrives. The others wait, so nobody touches the round while
// the lock is given up.
void RankAgreements::exchange(std::unique_lock<std::mutex>& lock) {
  arrived_ = 0;
  std::vector<HostBytes> all = std::exchange(brought_, std::vector<HostBytes>(own_ranks_.size()));
  if (processes_) {
    lock.unlock();
    try {
      all = gather_over_processes(std::move(all), rounds_);
    } catch (const Error& error) {
      lock.lock();
      if (!abort_reason_) abort_reason_ = reason_of_abort(error);
      changed_.notify_all();
      return;
    } catch (const std::exception& error) {
      lock.lock();
      if (!abort_reason_) abort_reason_ = error.what();
      changed_.notify_all();
      return;
    }
    lock.lock();
  }
  gathered_ = std::move(all);
  ++rounds_;
  changed_.notify_all();
}

std::vector<HostBytes> RankAgreements::gather_over_processes(std::vector<HostBytes> own,
                                                             std::uint64_t round) {
  HostGroup& group = processes_->group;
  const HostTag tag{HostSubject::kRanks, round};
  const HostBytes message = packed(own);
  for (std::size_t process = 0; process < group.size(); ++process)
    if (Rank(process) != group.rank()) group.send(Rank(process), tag, message);
  std::vector<HostBytes> all;
  for (std::size_t process = 0; process < group.size(); ++process) {
    std::vector<HostBytes> parts = Rank(process) == group.rank()
                                       ? std::move(own)
                                       : unpacked(group.receive(Rank(process), tag));
    require(parts.size() == processes_->blocks.size_of(Rank(process)), ErrorCode::kInternal,
            "{} brings {} ranks to a round", group.name_of(Rank(process)), parts.size());
    std::move(parts.begin(), parts.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace sextant
