// The exchange by NCCL: a communicator per set of ranks, one rank per card. A script's exchange is
// one group of NCCL's calls; kernels of all members run when all are enqueued, and no host waits.
//
//   before | ncclGroup{AllReduce | AllGather | ReduceScatter | Send, Recv ...} | after
#pragma once

#include "backends/cuda/communicator_key.h"
#include "backends/cuda/cuda_exchange.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

bool has_nccl();

class NcclExchange final : public CudaExchange {
 public:
  // Borrows the graph. `deterministic`: sums in one order, whatever NCCL would choose by size.
  // Throws Error(kDevice) without NCCL, or when the library is not of the header's version.
  NcclExchange(const PhysicalGraph& graph, bool deterministic);
  ~NcclExchange() override;

  Bytes beside_staging(const CollectiveScript&) const override { return Bytes(0); }
  Bytes communicator_bytes(std::span<const CudaCommunication* const> own) const override;
  int processors_of_slow() const override;
  void connect(std::span<CudaCommunication* const> own, HostGroup& group) override;
  void enqueue(std::span<const Part> parts) override;
  bool is_alone() const override { return true; }
  void note_replay(Rank rank, std::int64_t step) override;
  std::optional<std::string> fault(Rank rank) override;
  std::string arrivals(const CudaCommunication& communication, std::int64_t step) const override;
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
  std::int64_t enqueued_by(Rank rank, GroupId group) const;

  const PhysicalGraph& graph_;
  const bool deterministic_;
  std::vector<std::unique_ptr<Member>> members_;  // by rank
  mutable std::mutex mutex_;                      // of abort_reason_
  std::optional<std::string> abort_reason_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace sextant
