// Communications on GPUs: the script of one member made ready at its addresses, and who moves bytes
// between members.
#pragma once

#include "backends/cuda/kernels/moves.h"
#include "core/collective_script/collective_script.h"
#include "core/ids.h"
#include "core/physical_graph.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Where a member's buffers are on its card; null: it has none.
struct ScriptBuffers {
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::byte* staging = nullptr;
  std::byte* at(const ScriptPlace& place) const;
};

// One communication of one rank. Events belong to the card that is current when it is made.
class CudaCommunication {
 public:
  CudaCommunication(const PhysicalGraph& graph, Rank rank, GroupId group,
                    const Communication& communication, bool accumulate);
  ~CudaCommunication();
  CudaCommunication(const CudaCommunication&) = delete;
  CudaCommunication& operator=(const CudaCommunication&) = delete;

  // Kernels of the steps, at these addresses. `aside` is what the exchange asked for beside
  // staging.
  void place(const ScriptBuffers& buffers, std::byte* aside);

  const Communication& communication() const { return communication_; }
  const CollectiveScript& script() const { return script_; }
  const ScriptBuffers& buffers() const { return buffers_; }
  std::byte* aside() const { return aside_; }
  std::size_t member() const { return member_; }
  std::size_t num_members() const { return num_members_; }
  void enqueue_before(cudaStream_t stream) { before_.enqueue(stream); }
  void enqueue_after(cudaStream_t stream) { after_.enqueue(stream); }
  cudaEvent_t ready() const { return ready_; }    // recorded before the exchange
  cudaEvent_t pulled() const { return pulled_; }  // recorded behind it

  Rank rank;
  GroupId group;
  std::int64_t index_in_step = 0, per_step = 0;  // among the communications of the group
  std::string name;                              // of the actor

 private:
  Communication communication_;
  std::size_t member_ = 0, num_members_ = 0;
  CollectiveScript script_;
  ScriptBuffers buffers_;
  std::byte* aside_ = nullptr;
  Movement before_, after_;
  cudaEvent_t ready_ = nullptr, pulled_ = nullptr;
};

// What the ranks of a job share to communicate. Calls come from one launch thread per rank.
class CudaExchange {
 public:
  // A communication of a launch, and the stream of its queue.
  struct Part {
    CudaCommunication* communication = nullptr;
    std::int64_t step = 0;
    cudaStream_t stream = nullptr;
  };

  virtual ~CudaExchange() = default;
  // Memory that a member needs beside staging while it communicates.
  virtual Bytes beside_staging(const CollectiveScript& script) const = 0;
  // Enqueues the communications of one launch, which start together and on whose streams nothing
  // behind them starts before peers have what they take from this rank. Waits for peers' launch
  // threads at most, never for device work. Throws Error(kRankFailed): aborted, or a peer did not
  // come in time.
  virtual void enqueue(std::span<const Part> parts) = 0;
  // Whoever waits or comes later gets Error(kRankFailed) with this reason. Any thread; the first
  // counts.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace sextant
