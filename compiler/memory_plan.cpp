// Several packings over the same lives; the smallest arena is kept.
#include "compiler/memory_plan.h"

#include "compiler/at.h"
#include "compiler/free_list.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace sextant {
namespace {

// Offsets of all contents; contents of state frames are addressed by frame.
struct Packing {
  std::vector<Bytes> offsets;
  Bytes size;
};

enum class Policy : std::uint8_t {
  kTogether,  // one area for all
  kApart,     // contents that outlive their instance's act below, all others above
};

struct Expiry {
  Time time;
  std::int64_t position;
  std::int32_t content;
  bool operator>(const Expiry& other) const {
    return std::pair(time, content) > std::pair(other.time, other.content);
  }
};

class MemoryPlanner {
 public:
  MemoryPlanner(const PhysicalGraph& graph, RankProgram& program, const Lifetimes& lifetimes,
                const MemoryPlanOptions& options)
      : graph_(graph), program_(program), lifetimes_(lifetimes), options_(options) {
    for (std::size_t i = 0; i < lifetimes_.contents.size(); ++i)
      if (is_shared(static_cast<std::int32_t>(i)))
        shared_by_last_.push_back(static_cast<std::int32_t>(i));
    std::stable_sort(shared_by_last_.begin(), shared_by_last_.end(),
                     [&](std::int32_t a, std::int32_t b) { return life(a).last < life(b).last; });
    program_.arena.peak_by_class.assign(kNumMemoryClasses, Bytes());
  }

  void plan() {
    bind_frames();
    place_fixed();
    measure_peak();
    Packing best;
    if (options_.reuse) {
      best = pack(Policy::kTogether);
      Packing apart = pack(Policy::kApart);
      if (apart.size < best.size) best = std::move(apart);
      if (shared_by_last_.size() <= kSmall) {
        Packing by_size = pack_largest_first();
        if (by_size.size < best.size) best = std::move(by_size);
      }
    } else {
      best = pack_without_reuse();
    }
    program_.arena.size = fixed_ + best.size;
    set_slots(best);
  }

 private:
  // Above this many contents, packing by size would take longer than all the rest.
  static constexpr std::size_t kSmall = 2000;

  const ContentLife& life(std::int32_t content) const { return at(lifetimes_.contents, content); }
  const ProgramFrame& frame_of(std::int32_t content) const {
    return at(lifetimes_.frames, life(content).frame);
  }
  Bytes size_of_content(std::int32_t content) const { return frame_of(content).frame->size; }
  FrameBinding& binding(const ProgramFrame& frame) {
    return at(at(program_.instances, frame.instance).frames, frame.index);
  }
  // Bytes that others may use before and after. Those of host actors may not: no guard can name
  // one.
  bool is_shared(std::int32_t content) const {
    return life(content).is_used() && !frame_of(content).is_host;
  }

  void bind_frames() {
    for (Instance& instance : program_.instances)
      instance.frames.assign(graph_.block_of(instance).frames.size(), FrameBinding());
    for (const ProgramFrame& frame : lifetimes_.frames) {
      binding(frame).num_registers = contents_in_flight(lifetimes_, frame);
      binding(frame).slot_of_content.assign(static_cast<std::size_t>(frame.contents_per_step), 0);
    }
  }

  // --- what keeps its bytes through the step -----------------------------------------------------

  void place_fixed() {
    for (const ProgramFrame& frame : lifetimes_.frames) {
      if (frame.frame->initially_full)
        add_fixed_slot(frame);
      else if (frame.is_host)
        place_host_frame(frame);
    }
  }

  void add_fixed_slot(const ProgramFrame& frame) {
    binding(frame).slot_offsets.push_back(fixed_);
    fixed_ += frame.frame->size;
    at(fixed_by_class_, static_cast<std::int32_t>(frame.frame->memory)) += frame.frame->size;
  }

  // Contents in flight at one time, over the step boundary too, have slots of their own: credits
  // are all that keeps a host actor from overwriting what is still read.
  void place_host_frame(const ProgramFrame& frame) {
    FrameBinding& bound = binding(frame);
    const std::int32_t contents = frame.contents_per_step;
    const std::int32_t near = bound.num_registers - 1;
    std::int32_t num_slots = 0;
    for (std::int32_t content = 0; content < contents; ++content) {
      std::vector<bool> taken(static_cast<std::size_t>(num_slots) + 1, false);
      for (std::int32_t other = 0; other < content; ++other) {
        const std::int32_t distance = content - other;
        if (distance <= near || contents - distance <= near)
          taken[static_cast<std::size_t>(at(bound.slot_of_content, other))] = true;
      }
      const auto slot =
          static_cast<std::int32_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
      at(bound.slot_of_content, content) = slot;
      num_slots = std::max(num_slots, slot + 1);
    }
    for (std::int32_t slot = 0; slot < num_slots; ++slot) add_fixed_slot(frame);
  }

  // --- walking through the step ------------------------------------------------------------------

  // Visits contents in order of birth, before each those whose bytes are free again.
  template <typename Born, typename Gone>
  void sweep(const Born& born, const Gone& gone) const {
    const bool modelled = !options_.end.empty();
    std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> fading;  // read, not yet done
    std::size_t next_gone = 0;
    for (const std::int32_t content : lifetimes_.in_order) {
      if (!is_shared(content)) continue;
      while (next_gone < shared_by_last_.size() &&
             life(shared_by_last_[next_gone]).last < life(content).first) {
        const std::int32_t over = shared_by_last_[next_gone++];
        if (modelled)
          fading.push({end_of(over), life(over).last, over});
        else
          gone(over);
      }
      while (!fading.empty() && fading.top().time <= at_begin(content)) {
        gone(fading.top().content);
        fading.pop();
      }
      born(content);
    }
  }
  Time at_begin(std::int32_t content) const {
    return at_run(options_.begin, life(content).first_run);
  }
  Time end_of(std::int32_t content) const { return at_run(options_.end, life(content).last_run); }
  static Time at_run(std::span<const Time> times, std::int32_t run) {
    return times.empty() ? Time() : at(times, run);
  }

  // No packing can be below the most bytes that live at one time; their classes are reported.
  void measure_peak() {
    std::vector<Bytes> live = fixed_by_class_;
    Bytes total = fixed_;
    program_.arena.lower_bound = total;
    program_.arena.peak_by_class = live;
    sweep(
        [&](std::int32_t content) {
          at(live, static_cast<std::int32_t>(frame_of(content).frame->memory)) +=
              size_of_content(content);
          total += size_of_content(content);
          if (total <= program_.arena.lower_bound) return;
          program_.arena.lower_bound = total;
          program_.arena.peak_by_class = live;
        },
        [&](std::int32_t content) {
          at(live, static_cast<std::int32_t>(frame_of(content).frame->memory)) -=
              size_of_content(content);
          total -= size_of_content(content);
        });
  }

  Packing pack(Policy policy) const {
    FreeList areas[2];
    const auto area_of = [&](std::int32_t content) {
      return policy == Policy::kApart && !frame_of(content).has_outer_readers ? 1 : 0;
    };
    Packing packing;
    packing.offsets.resize(lifetimes_.contents.size());
    std::vector<std::vector<Bytes>> used(lifetimes_.frames.size());  // by frame
    sweep(
        [&](std::int32_t content) {
          FreeList& area = areas[area_of(content)];
          const Bytes size = size_of_content(content);
          std::vector<Bytes>& own = at(used, life(content).frame);
          const auto again = std::find_if(own.begin(), own.end(),
                                          [&](Bytes offset) { return area.take_at(offset, size); });
          if (again != own.end()) {
            at(packing.offsets, content) = *again;
          } else {
            own.push_back(area.take(size));
            at(packing.offsets, content) = own.back();
          }
        },
        [&](std::int32_t content) {
          areas[area_of(content)].give_back(at(packing.offsets, content), size_of_content(content));
        });
    for (const std::int32_t content : shared_by_last_)
      if (area_of(content) == 1) at(packing.offsets, content) += areas[0].high_water();
    packing.size = areas[0].high_water() + areas[1].high_water();
    return packing;
  }

  // Large contents first, each as low as those it meets allow.
  Packing pack_largest_first() const {
    std::vector<std::int32_t> order = shared_by_last_;
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      const Bytes size_a = size_of_content(a), size_b = size_of_content(b);
      return size_a != size_b ? size_a > size_b : life(a).first < life(b).first;
    });
    Packing packing;
    packing.offsets.resize(lifetimes_.contents.size());
    std::vector<std::int32_t> placed;  // by offset
    for (const std::int32_t content : order) {
      Bytes offset;
      for (const std::int32_t other : placed) {
        if (!meet(content, other)) continue;
        const Bytes begin = at(packing.offsets, other);
        if (begin >= offset + size_of_content(content)) break;
        offset = std::max(offset, begin + size_of_content(other));
      }
      at(packing.offsets, content) = offset;
      packing.size = std::max(packing.size, offset + size_of_content(content));
      const auto place = std::upper_bound(placed.begin(), placed.end(), content,
                                          [&](std::int32_t a, std::int32_t b) {
                                            return at(packing.offsets, a) < at(packing.offsets, b);
                                          });
      placed.insert(place, content);
    }
    return packing;
  }

  bool meet(std::int32_t a, std::int32_t b) const {
    const auto over_before = [&](std::int32_t x, std::int32_t y) {
      return life(x).last < life(y).first && (options_.end.empty() || end_of(x) <= at_begin(y));
    };
    return !over_before(a, b) && !over_before(b, a);
  }

  Packing pack_without_reuse() const {
    Packing packing;
    packing.offsets.resize(lifetimes_.contents.size());
    for (const std::int32_t content : shared_by_last_) {
      at(packing.offsets, content) = packing.size;
      packing.size += size_of_content(content);
    }
    return packing;
  }

  // Contents of a frame at one address share a slot.
  void set_slots(const Packing& packing) {
    for (const ProgramFrame& frame : lifetimes_.frames) {
      if (frame.frame->initially_full || frame.is_host) continue;
      FrameBinding& bound = binding(frame);
      for (std::int32_t content = 0; content < frame.contents_per_step; ++content) {
        const Bytes offset = fixed_ + at(packing.offsets, frame.first_content + content);
        auto slot = std::find(bound.slot_offsets.begin(), bound.slot_offsets.end(), offset);
        if (slot == bound.slot_offsets.end())
          slot = bound.slot_offsets.insert(bound.slot_offsets.end(), offset);
        at(bound.slot_of_content, content) =
            static_cast<std::int32_t>(slot - bound.slot_offsets.begin());
      }
    }
  }

  const PhysicalGraph& graph_;
  RankProgram& program_;
  const Lifetimes& lifetimes_;
  const MemoryPlanOptions& options_;
  std::vector<std::int32_t> shared_by_last_;  // contents that share the arena, by last use
  Bytes fixed_;                               // of state and host frames, at the arena's start
  std::vector<Bytes> fixed_by_class_ = std::vector<Bytes>(kNumMemoryClasses);
};

}  // namespace

void plan_memory(const PhysicalGraph& graph, RankProgram& program, const Lifetimes& lifetimes,
                 const MemoryPlanOptions& options) {
  MemoryPlanner(graph, program, lifetimes, options).plan();
}

}  // namespace sextant
