// The exchange by NCCL: a communicator per set of ranks, one rank per card. A script's exchange is
// one group of NCCL's calls; kernels of all members run when all are enqueued, and no host waits.
//
//   before | ncclGroup{AllReduce | AllGather | ReduceScatter | Send, Recv ...} | after
#pragma once

#include "backends/cuda/cuda_exchange.h"
#include "backends/cuda/ranks/communicator_key.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Whether the build has NCCL.
bool has_nccl();

// Which ranks are in this process, and what the others answer.
struct RanksElsewhere {
  std::function<bool(Rank)> is_here;
  // By group, how many communications the rank has enqueued; nothing: its process does not answer.
  std::function<std::optional<std::vector<std::int64_t>>(Rank)> enqueued;
};

class NcclExchange final : public CudaExchange {
 public:
  // Borrows the graph. `deterministic`: sums in one order, whatever NCCL would choose by size.
  // Without `elsewhere` all ranks are in this process. Throws Error(kDevice) without NCCL, or when
  // the library is not of the header's version.
  NcclExchange(const PhysicalGraph& graph, bool deterministic,
               std::optional<RanksElsewhere> elsewhere = std::nullopt);
  ~NcclExchange() override;

  Bytes beside_staging(const CollectiveScript&) const override { return Bytes(0); }
  Bytes communicator_bytes(std::span<const CudaCommunication* const> own) const override;
  int processors_of_slow() const override;
  void connect(std::span<CudaCommunication* const> own, HostAgreement& group) override;
  void enqueue(std::span<const Part> parts) override;
  bool is_alone() const override { return true; }
  void note_replay(Rank rank, std::int64_t step) override;
  std::optional<std::string> fault(Rank rank) override;
  std::string arrivals(const CudaCommunication& communication, std::int64_t step) const override;
  std::vector<std::int64_t> enqueued(Rank rank) const override;
  bool have_all_arrived(const CudaCommunication& communication, std::int64_t step) const override;
  void announce_abort(const std::string& reason) override;
  void abort(const std::string& reason, Rank rank) override;
  std::optional<std::string> abort_reason() const override;
  void close(Rank rank) override;
  Traffic traffic() const override;

 private:
  struct Member;

  void check_not_aborted() const;
  void enqueue_exchange(Member& member, std::span<const Part> parts);
  bool is_here(Rank rank) const { return !elsewhere_ || elsewhere_->is_here(rank); }
  // Nothing: its process does not answer.
  std::optional<std::int64_t> enqueued_by(Rank rank, GroupId group) const;
  using Meeting = std::vector<const CudaCommunication*>;  // by member; nullptr: not here
  void count(const Meeting& meeting, Traffic& all) const;

  const PhysicalGraph& graph_;
  const bool deterministic_;
  const std::optional<RanksElsewhere> elsewhere_;
  std::vector<std::unique_ptr<Member>> members_;  // by rank
  mutable std::mutex mutex_;                      // of abort_reason_
  std::optional<std::string> abort_reason_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace sextant
