// The exchange inside one process: launch threads meet on the host, each rank pulls what it wants
// from its peers by kernels. Ranks may share a card, and no kernel waits for another. Slow, and
// independent of any library.
//
//   before | ready -> meet -> wait(peers' ready), pull | pulled -> meet -> wait(peers' pulled) |
//   after
#pragma once

#include "backends/cuda/cuda_exchange.h"
#include "core/costs/communication_volume.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

class LocalExchange final : public CudaExchange {
 public:
  // Borrows the graph. A rank that waits longer than `timeout` for its peers' launch threads fails.
  LocalExchange(const PhysicalGraph& graph, std::chrono::milliseconds timeout);

  Bytes beside_staging(const CollectiveScript& script) const override;
  Bytes communicator_bytes(std::span<const CudaCommunication* const>) const override {
    return Bytes(0);
  }
  int processors_of_slow() const override { return 0; }
  void connect(std::span<CudaCommunication* const>, HostAgreement&) override {}
  void enqueue(std::span<const Part> parts) override;
  bool is_alone() const override { return false; }
  void note_replay(Rank, std::int64_t) override {}
  std::optional<std::string> fault(Rank) override { return std::nullopt; }
  std::string arrivals(const CudaCommunication& communication, std::int64_t step) const override;
  void abort(const std::string& reason, Rank rank) override;
  std::optional<std::string> abort_reason() const override;
  void close(Rank) override {}
  Traffic traffic() const override;

 private:
  struct Meeting;
  struct Pending;
  using Key = std::pair<GroupId, std::int64_t>;

  std::shared_ptr<Meeting> post(const Part& part);
  void post_pulled(Meeting& meeting);
  Pending& next_of(std::vector<Pending>& pending);
  void check_not_aborted() const;
  void count(const Meeting& meeting);
  void pull(const Part& part, const Meeting& meeting) const;
  void pull_ring(const Part& part, const Meeting& meeting) const;
  void finish(const Part& part, const Meeting& meeting) const;
  std::string missing_text(const Meeting& meeting) const;

  const PhysicalGraph& graph_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::shared_ptr<Meeting>> meetings_;  // until all members have pulled
  std::optional<std::string> abort_reason_;
  // By group and number in the step: what one meeting sends, and how many there were.
  std::map<Key, std::pair<Traffic, std::int64_t>> traffic_;
};

}  // namespace sextant
