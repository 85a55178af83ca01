// What one step costs, in bytes and in time, with what can be said of it at less expense first.
// Internal to sbp/.
#pragma once

#include "core/mesh_boxes.h"
#include "sbp/boxing.h"
#include "sbp/group_costs.h"
#include "sbp/mesh_state.h"
#include "sbp/work_budget.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sextant {

// A state of one side, kSource or kTarget, by its number there.
struct StateRef {
  BoxingWhere side = BoxingWhere::kSource;
  std::uint32_t number = 0;
};

// One placement of the request and the states on it.
struct BoxingMesh {
  explicit BoxingMesh(const Placement& on);

  const Placement* placement;
  std::vector<std::int64_t> extents;
  std::vector<std::size_t> axes;  // those with more than one part
  std::uint32_t all_axes = 0;     // the same as a bit set
  StateTable states;
};

// A step between states, without its price.
struct Change {
  BoxingKind kind = BoxingKind::kLocal;
  Primitive primitive = Primitive::kAllReduce;
  std::uint32_t axes = 0;  // bit set of the group axes
  StateRef from, to;
  DType dtype = DType::kF32;
};

// Prices of communications. A network is taken to get no faster when more is sent, and bytes sent
// in two steps to take no less time than in one (a fixed cost and a rate, whatever they are), so
// that bounds from below are bounds.
class BoxingPrices {
 public:
  // Borrows all.
  BoxingPrices(const BoxingRequest& request, const BoxingMesh& source, const BoxingMesh& target,
               WorkBudget& work);

  std::int64_t bytes(const Change& change);
  // Never more than `bytes`, without looking at devices.
  std::int64_t least_bytes(const Change& change);
  // In picoseconds. The groups run beside each other: the slowest counts.
  std::int64_t time(const Change& change);
  std::int64_t least_time(const Change& change);
  // Of any steps, of this side and after it, that deliver so many bytes to all devices together.
  std::int64_t least_time_to_deliver(BoxingWhere side, std::int64_t bytes);

  // Elements of the tensor times the size of one.
  std::int64_t tensor_bytes(DType dtype) const;
  // Product of the extents of the axes with partial words.
  std::int64_t num_shares(StateRef ref) const;
  // How often the state says every element, the shares of one value counted once.
  std::int64_t copies_of_shares(StateRef ref) const { return copies(ref, 0) / num_shares(ref); }
  // Elements that a crossing has to bring at least.
  std::int64_t least_missing(StateRef from, StateRef to);
  std::int64_t elements_that_stay(StateRef from, StateRef to) const;
  // Elements that all devices hold together.
  std::int64_t held_elements(StateRef ref) const { return elements_ * copies(ref, 0); }
  bool has_equal_sets() const { return !target_order_.empty(); }
  bool is_disjoint() const { return num_common_ == 0; }
  // Contents and shares are the same on every device; false unless the sets of devices are equal.
  bool hold_the_same(StateRef source, StateRef target);

 private:
  struct Known {
    std::uint64_t key = 0;
    std::int64_t bytes = 0, time = 0;
  };
  // Time of the fastest step that brings each device nothing, and so many bytes on average.
  struct Delivery {
    std::int64_t of_nothing = 0, of_most = 0, most_bytes = 0;
  };
  // What all devices hold, in the order of the source.
  using Contents = std::vector<std::int64_t>;

  const BoxingMesh& mesh(BoxingWhere side) const {
    return *meshes_[static_cast<std::size_t>(side)];
  }
  const MeshState& state(StateRef ref) const { return mesh(ref.side).states[ref.number]; }
  Bytes element_of(const Change& change) const { return size_of(change.dtype); }
  std::int64_t copies(StateRef ref, std::uint32_t without) const;
  std::int64_t parts(StateRef ref) const;
  bool splits_evenly(StateRef ref) const;

  const MeshBoxes& boxes(StateRef ref);
  const AxisGroups& groups(BoxingWhere side, std::uint32_t axes);
  Contents contents(StateRef ref);
  std::uint64_t hash_of_contents(StateRef ref);

  std::int64_t moved_bytes(const Change& change);
  std::int64_t ring_time(const Change& change);
  std::int64_t duration(const Change& change, std::span<const Rank> members, Bytes global,
                        Bytes largest);
  std::int64_t slowest(const Change& change, const std::vector<GroupCost>& groups);
  std::int64_t least_transfer_time(const Change& change);
  std::int64_t least_exchange_time(const Change& change);
  std::int64_t fastest_step(BoxingWhere side, std::int64_t bytes);
  std::int64_t fastest_collective(BoxingWhere side, std::int64_t bytes);
  std::int64_t fastest_pair(std::int64_t bytes);
  std::int64_t fastest_delivery(const Change& change, std::size_t device, std::int64_t bytes);
  template <typename Compute>
  static std::int64_t remembered(std::vector<Known>& known, std::uint64_t key, std::int64_t bytes,
                                 const Compute& compute);

  const BoxingRequest& request_;
  WorkBudget& work_;
  std::array<const BoxingMesh*, 2> meshes_;
  const std::int64_t elements_;
  std::size_t num_common_ = 0;             // devices of both placements
  std::optional<std::size_t> new_device_;  // the first of the target that the source lacks
  std::vector<std::size_t> target_order_;  // of equal sets: the target's numbers, as the source's
  Communication communication_;
  std::array<std::vector<std::unique_ptr<MeshBoxes>>, 2> boxes_;
  std::array<std::vector<std::optional<std::uint64_t>>, 2> hashes_;
  std::array<std::vector<std::unique_ptr<AxisGroups>>, 2> groups_;
  std::array<std::optional<Delivery>, 2> deliveries_of_;
  std::vector<Known> ring_times_, deliveries_;
};

}  // namespace sextant
