// Communications on GPUs: the script of one member made ready at its addresses, and who moves bytes
// between members.
#pragma once

#include "actor/hosts/host_group.h"
#include "backends/cuda/kernels/movement/moves.h"
#include "core/base/ids.h"
#include "core/collective_script/collective_script.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Where a member's buffers are on its card; null: it has none.
struct ScriptBuffers {
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::byte* staging = nullptr;
  // The address of a place; its buffer is there.
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
  // The local steps of its script, before and after the exchange.
  void enqueue_before(cudaStream_t stream) { before_.enqueue(stream); }
  void enqueue_after(cudaStream_t stream) { after_.enqueue(stream); }
  cudaEvent_t ready() const { return ready_; }    // recorded before the exchange
  cudaEvent_t pulled() const { return pulled_; }  // recorded behind it

  Rank rank;
  GroupId group;
  std::int64_t index_in_step = 0, per_step = 0;  // among the communications of the group
  std::string name;                              // of the actor
  std::size_t communicator = 0;                  // of this rank's, where the exchange has some
  bool goes_slowly = false;                      // in company, and there is time

  // Its number among all of the group, over all steps.
  std::int64_t occurrence(std::int64_t step) const { return step * per_step + index_in_step; }

 private:
  Communication communication_;
  std::size_t member_ = 0, num_members_ = 0;
  CollectiveScript script_;
  ScriptBuffers buffers_;
  std::byte* aside_ = nullptr;
  Movement before_, after_;
  cudaEvent_t ready_ = nullptr, pulled_ = nullptr;
};

// What the ranks of a job share to communicate. Calls of a rank come from one thread at a time.
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
  // Memory of a rank's card that the exchange takes for all its communications.
  virtual Bytes communicator_bytes(std::span<const CudaCommunication* const> own) const = 0;
  // Multiprocessors that a communication takes which goes slowly; 0: it takes what it finds.
  virtual int processors_of_slow() const = 0;
  // Once per rank, on a thread of its own whose card is current, when all ranks are prepared: makes
  // what the ranks share. `own` are the rank's communications in the order of issue, placed.
  virtual void connect(std::span<CudaCommunication* const> own, HostAgreement& group) = 0;
  // Enqueues the communications of one launch, which start together and on whose streams nothing
  // behind them starts before peers have what they take from this rank. Waits for peers' launch
  // threads at most, never for device work. Throws Error(kRankFailed): aborted, or a peer did not
  // come in time.
  virtual void enqueue(std::span<const Part> parts) = 0;
  // Whether `enqueue` waits for no other rank once all are connected, so that a step can be
  // captured.
  virtual bool is_alone() const = 0;
  // A step that was captured is enqueued: all its communications are.
  virtual void note_replay(Rank rank, std::int64_t step) = 0;
  // What a library says went wrong on this rank.
  virtual std::optional<std::string> fault(Rank rank) = 0;
  // Which members have enqueued this communication of this step, for an error.
  virtual std::string arrivals(const CudaCommunication& communication, std::int64_t step) const = 0;
  // Of a rank of this process, by group: how many communications it has enqueued. Any thread.
  virtual std::vector<std::int64_t> enqueued(Rank /*rank*/) const { return {}; }
  // Whether all members have enqueued it, where a step can be captured.
  virtual bool have_all_arrived(const CudaCommunication& /*communication*/,
                                std::int64_t /*step*/) const {
    return true;
  }
  // Whoever waits or comes later, on any rank, gets Error(kRankFailed) with this reason; what is on
  // the streams of `rank` ends without its peers. Any thread; the first reason counts.
  virtual void abort(const std::string& reason, Rank rank) = 0;
  // An abort with this reason is on its way, and may take seconds: who watches over it knows.
  virtual void announce_abort(const std::string& /*reason*/) {}
  virtual std::optional<std::string> abort_reason() const = 0;
  // A rank communicates no more, and nothing is under way: gives back what `connect` made. Likewise
  // called for all ranks, each on a thread.
  virtual void close(Rank rank) = 0;
  // What the ranks of this process sent in the exchanges of all launches so far.
  virtual Traffic traffic() const = 0;
};

}  // namespace sextant
