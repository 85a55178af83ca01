// Between processes a round is one message from each to each other.
#include "actor/hosts/rank_agreements.h"

#include "core/base/check.h"

#include <cstring>
#include <utility>

namespace sextant {
namespace {

// The parts behind each other, each behind its number of bytes.
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
      threads_(own_ranks_.size()),
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

HostGroup& RankAgreements::here(Rank rank) {
  return threads_.of(Rank(static_cast<std::size_t>(rank.value - own_ranks_.front().value)));
}

void RankAgreements::abort(const std::string& reason) {
  threads_.abort(reason);
  if (processes_) std::call_once(tells_, [&] { processes_->abort(reason); });
}

std::vector<HostBytes> RankAgreements::gather(Rank rank, std::span<const std::byte> own) {
  HostGroup& group = here(rank);
  std::vector<HostBytes> brought = group.all_gather(own);
  if (!processes_) return brought;
  HostBytes all;
  if (rank == own_ranks_.front()) all = exchanged(std::move(brought));
  return unpacked(group.broadcast(all, Rank(0)));
}

// What all ranks brought, packed; where that fails the ranks of this process end.
HostBytes RankAgreements::exchanged(std::vector<HostBytes> own) {
  HostGroup& group = processes_->group;
  const HostTag tag{HostSubject::kRanks, rounds_++};
  const HostBytes message = packed(own);
  HostBytes all;
  try {
    for (std::size_t process = 0; process < group.size(); ++process)
      if (Rank(process) != group.rank()) group.send(Rank(process), tag, message);
    for (std::size_t process = 0; process < group.size(); ++process) {
      const HostBytes part =
          Rank(process) == group.rank() ? message : group.receive(Rank(process), tag);
      const std::size_t ranks = unpacked(part).size();
      require(ranks == processes_->blocks.size_of(Rank(process)), ErrorCode::kInternal,
              "{} brings {} ranks to a round", group.name_of(Rank(process)), ranks);
      all.insert(all.end(), part.begin(), part.end());
    }
  } catch (const Error& error) {
    threads_.abort(reason_of_abort(error));
  } catch (const std::exception& error) {
    threads_.abort(error.what());
  }
  return all;
}

}  // namespace sextant
