// What one step costs, in bytes and in time, with what can be said of it at less expense first.
// Internal to sbp/.
#pragma once

#include "core/tensors/mesh_boxes.h"
#include "sbp/boxing.h"
#include "sbp/device_times.h"
#include "sbp/group_costs.h"
#include "sbp/mesh_state.h"
#include "sbp/work_budget.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
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
  DType dtype = DType::kF32, to_dtype = DType::kF32;  // another one for casts only

  // Of what sizes and groups depend on beside the states.
  std::uint64_t key() const {
    return static_cast<std::uint64_t>(primitive) | static_cast<std::uint64_t>(from.side) << 8U |
           std::uint64_t{axes} << 16U | static_cast<std::uint64_t>(dtype) << 56U;
  }
};

// Throws Error(kInfeasible) for more than 2^63 bytes.
std::int64_t product(std::int64_t a, std::int64_t b);

// Prices of steps. A network is taken to get no faster when more is sent, and bytes sent
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
  // In picoseconds. Groups run beside each other, and so do devices: the slowest counts.
  std::int64_t time(const Change& change);
  std::int64_t least_time(const Change& change);
  // Of any steps, of this side and after it, that deliver so many bytes to all devices together.
  std::int64_t least_time_to_deliver(BoxingWhere side, std::int64_t bytes);
  // Of a local step that ends in so many elements.
  std::int64_t least_local_time(BoxingWhere side, std::int64_t elements);

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
  // Elements that the first device holds, which no other exceeds.
  std::int64_t largest_part(StateRef ref);
  // Contents and shares are the same on every device; false unless the sets of devices are equal.
  bool hold_the_same(StateRef source, StateRef target);

 private:
  // Values worked out once, by two numbers.
  class Remembered {
   public:
    template <typename Compute>
    std::int64_t of(std::uint64_t key, std::int64_t number, const Compute& compute) {
      std::size_t slot = slot_of(key, number);
      if (slots_[slot].is_known) return slots_[slot].value;
      const std::int64_t value = compute();
      if (2 * ++size_ > slots_.size()) {
        std::vector<Slot> old(2 * slots_.size());
        old.swap(slots_);
        for (const Slot& one : old)
          if (one.is_known) slots_[slot_of(one.key, one.number)] = one;
      }
      slots_[slot_of(key, number)] = {key, number, value, true};
      return value;
    }

   private:
    struct Slot {
      std::uint64_t key = 0;
      std::int64_t number = 0, value = 0;
      bool is_known = false;
    };
    std::size_t slot_of(std::uint64_t key, std::int64_t number) const {
      const std::uint64_t mixed =
          (key ^ static_cast<std::uint64_t>(number) * 0xBF58476D1CE4E5B9U) * 0x9E3779B97F4A7C15U;
      for (std::size_t slot = mixed >> 32U;; ++slot) {
        slot &= slots_.size() - 1;
        const Slot& at = slots_[slot];
        if (!at.is_known || (at.key == key && at.number == number)) return slot;
      }
    }

    std::vector<Slot> slots_ = std::vector<Slot>(16);  // a power of two
    std::size_t size_ = 0;
  };
  static constexpr std::size_t kNumDTypes = kAllDTypes.size();
  // Times of what devices of a placement do alone: from so many elements to so many.
  struct OneDevice {
    explicit OneDevice(DeviceTimes of) : times(std::move(of)) {}
    DeviceTimes times;
    std::array<std::optional<Remembered>, kNumDTypes> locals;  // by type
    std::optional<Remembered> casts;
  };
  // Time of the fastest step that brings each device nothing, and so many bytes on average.
  struct Delivery {
    std::int64_t of_nothing = 0, of_most = 0, most_bytes = 0;
  };
  static std::int64_t chord(const Delivery& delivery, double bytes);
  // What all devices hold, in the order of the source.
  using Contents = std::vector<std::int64_t>;

  // Stretches of one dim, no two of which overlap.
  class Stretches {
   public:
    void clear() { all_.clear(); }
    void add(const Interval& stretch) {
      if (stretch.extent > 0) all_.push_back(stretch);
    }
    void sort();  // before anything is asked
    std::int64_t shared_with(const Interval& interval) const {
      return below(interval.end()) - below(interval.offset);
    }

   private:
    std::int64_t below(std::int64_t end) const;  // elements in front of `end`

    std::vector<Interval> all_;
    std::vector<std::int64_t> below_;  // by stretch: elements in front of it
  };

  static std::size_t index(BoxingWhere side) { return static_cast<std::size_t>(side); }
  const BoxingMesh& mesh(BoxingWhere side) const { return *meshes_[index(side)]; }
  const MeshState& state(StateRef ref) const { return mesh(ref.side).states[ref.number]; }
  Bytes element_of(const Change& change) const { return size_of(change.dtype); }
  std::int64_t copies(StateRef ref, std::uint32_t without) const;
  std::int64_t parts(StateRef ref) const;
  bool splits_evenly(StateRef ref) const;

  // What is worked out once per state, as far as it is asked for.
  struct Held {
    MeshBoxes boxes;
    Box first, last;             // of the first and the last device
    std::vector<Interval> dims;  // of all devices, one after the other
  };
  Held& held(StateRef ref);
  const MeshBoxes& boxes(StateRef ref) { return held(ref).boxes; }
  std::span<const Interval> dims_of_devices(StateRef ref);
  const AxisGroups& groups(BoxingWhere side, std::uint32_t axes);
  Contents contents(StateRef ref);
  std::uint64_t hash_of_contents(StateRef ref);

  std::int64_t moved_bytes(const Change& change);
  std::int64_t device_time(const Change& change);
  OneDevice& device(BoxingWhere side);
  std::int64_t ring_time(const Change& change);
  std::int64_t duration(const Change& change, std::span<const Rank> members, Bytes global,
                        Bytes largest);
  std::int64_t exchange_time(const Change& change);
  std::int64_t transfer_time(const Change& change);
  std::int64_t least_transfer_time(const Change& change);
  std::int64_t compute_least_transfer_time(const Change& change);
  std::int64_t least_received(const Change& change);
  std::int64_t least_pair_time(std::int64_t bytes);
  std::int64_t least_exchange_time(const Change& change);
  std::int64_t fastest_step(BoxingWhere side, std::int64_t bytes);
  std::int64_t fastest_collective(BoxingWhere side, std::int64_t bytes);
  std::int64_t fastest_pair(std::int64_t bytes);
  std::int64_t fastest_delivery(const Change& change, std::size_t device, std::int64_t bytes);
  const BoxingRequest& request_;
  WorkBudget& work_;
  std::array<const BoxingMesh*, 2> meshes_;
  const std::int64_t elements_;
  std::optional<CommonDevices> common_;    // of two placements
  std::size_t num_common_ = 0;             // devices of both placements
  std::optional<std::size_t> new_device_;  // the first of the target that the source lacks
  std::vector<std::size_t> target_order_;  // of equal sets: the target's numbers, as the source's
  Communication communication_;
  std::array<std::vector<std::int64_t>, 2> largest_parts_;  // by state; negative: not known yet
  std::array<std::optional<OneDevice>, 2> devices_;
  std::array<std::vector<std::unique_ptr<Held>>, 2> held_;
  std::array<std::vector<std::optional<std::uint64_t>>, 2> hashes_;
  std::array<std::vector<std::unique_ptr<AxisGroups>>, 2> groups_;
  std::array<std::optional<Delivery>, 2> deliveries_of_;
  std::optional<Delivery> pair_delivery_;
  Remembered ring_times_, deliveries_, least_transfers_;
  std::vector<Stretches> wanted_;  // by dim, of the group that an exchange is at
};

}  // namespace sextant
