// One walk over the stretch, counting launches by queue.
#include "simulator/modes/recurring/block_cut.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {
namespace {

// Of the window. Less would cost more blocks, more would make launches wait for near ones.
constexpr double kShareOfWindow = 0.375;
constexpr std::int64_t kFewest = 24;

class Cutting {
 public:
  Cutting(const FlatTape& flat, const PhysicalGraph& graph, std::int64_t window)
      : flat_(flat),
        graph_(graph),
        most_(std::max(kFewest,
                       static_cast<std::int64_t>(static_cast<double>(window) * kShareOfWindow))),
        launches_(flat.place_of_queue.size()) {}

  void run(const BlockOrder& order, const BlockOrder::Item& stretch,
           std::vector<BlockPiece>& pieces) {
    const std::int32_t leader = flat_.tape->entries[at(order.entries[at(stretch.first)])].place;
    BlockPiece piece{stretch.first, 0};
    InstanceId layer;
    for (std::int32_t i = stretch.first; i < stretch.first + stretch.count; ++i) {
      const std::int32_t e = order.entries[at(i)];
      const TapeEntry& entry = flat_.tape->entries[at(e)];
      if (entry.place == leader && !entry.meeting.is_valid()) {
        const InstanceId now = instance_of(entry);
        if (piece.count > 0 && now != layer && longest_ >= most_) {
          pieces.push_back(piece);
          piece = {i, 0};
          forget();
        }
        layer = now;
      }
      ++piece.count;
      count(flat_.queue_of[at(e)]);
    }
    pieces.push_back(piece);
    forget();
  }

 private:
  InstanceId instance_of(const TapeEntry& entry) const {
    return graph_.program_of(entry.rank).order[entry.run].instance;
  }

  void count(std::int32_t queue) {
    if (launches_[at(queue)]++ == 0) counted_.push_back(queue);
    longest_ = std::max(longest_, launches_[at(queue)]);
  }

  void forget() {
    for (const std::int32_t queue : counted_) launches_[at(queue)] = 0;
    counted_.clear();
    longest_ = 0;
  }

  const FlatTape& flat_;
  const PhysicalGraph& graph_;
  std::int64_t most_;
  std::vector<std::int64_t> launches_;  // of the piece, by queue
  std::vector<std::int32_t> counted_;   // queues
  std::int64_t longest_ = 0;
};

}  // namespace

void cut_stretch(const FlatTape& flat, const PhysicalGraph& graph, const BlockOrder& order,
                 const BlockOrder::Item& stretch, std::int64_t window,
                 std::vector<BlockPiece>& pieces) {
  Cutting(flat, graph, window).run(order, stretch, pieces);
}

}  // namespace sextant
