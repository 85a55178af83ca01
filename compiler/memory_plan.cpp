// Lives become stays of whole ticks, one tick per birth; the best packing of them is kept.
#include "compiler/memory_plan.h"

#include "compiler/at.h"
#include "compiler/packing.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace sextant {
namespace {

struct Expiry {
  Time time;
  std::int32_t stay;
  bool operator>(const Expiry& other) const {
    return std::pair(time, stay) > std::pair(other.time, other.stay);
  }
};

class MemoryPlanner {
 public:
  MemoryPlanner(const PhysicalGraph& graph, RankProgram& program, const Lifetimes& lifetimes,
                const MemoryPlanOptions& options)
      : graph_(graph), program_(program), lifetimes_(lifetimes), options_(options) {}

  PackedProgram plan() {
    bind_frames();
    place_fixed();
    find_stays();
    measure_peak();
    const BestPacking best = options_.reuse ? pack_best(stays_) : without_reuse();
    program_.arena.size = fixed_ + best.packing.size;
    set_slots(best.packing);
    return {program_.name, fixed_, std::move(stays_), best.rule};
  }

 private:
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

  // A tick is a birth. A content's bytes are free for those born after its last use was issued and,
  // in modelled time, had ended.
  void find_stays() {
    std::vector<std::int32_t> by_last;  // stays
    for (const std::int32_t content : lifetimes_.in_order) {
      if (!is_shared(content)) continue;
      by_last.push_back(static_cast<std::int32_t>(contents_.size()));
      contents_.push_back(content);
    }
    std::stable_sort(by_last.begin(), by_last.end(), [&](std::int32_t a, std::int32_t b) {
      return life(at(contents_, a)).last < life(at(contents_, b)).last;
    });
    std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> fading;  // read, not yet done
    std::size_t next = 0;
    const auto num_ticks = static_cast<std::int32_t>(contents_.size());
    for (std::int32_t tick = 0; tick < num_ticks; ++tick) {
      const ContentLife& born = life(at(contents_, tick));
      for (; next < by_last.size() && life(at(contents_, by_last[next])).last < born.first; ++next)
        fading.push(
            {at_run(options_.end, life(at(contents_, by_last[next])).last_run), by_last[next]});
      const Time now = at_run(options_.begin, born.first_run);
      for (; !fading.empty() && fading.top().time <= now; fading.pop())
        at(stays_, fading.top().stay).end = tick;
      stays_.push_back({tick, num_ticks, size_of_content(at(contents_, tick)), born.frame,
                        !frame_of(at(contents_, tick)).has_outer_readers});
    }
  }
  static Time at_run(std::span<const Time> times, std::int32_t run) {
    return times.empty() ? Time() : at(times, run);
  }

  // No packing can be below the most bytes that live at one time; their classes are reported.
  void measure_peak() {
    ArenaPlan& arena = program_.arena;
    std::vector<Bytes> live = fixed_by_class_;
    arena.lower_bound = fixed_;
    arena.peak_by_class = live;
    const auto add = [&](std::int32_t stay, std::int64_t sign) {
      at(live, static_cast<std::int32_t>(frame_of(at(contents_, stay)).frame->memory)) +=
          sign * at(stays_, stay).size;
    };
    Bytes total = fixed_;
    sweep(
        stays_,
        [&](std::int32_t stay) {
          add(stay, 1);
          total += at(stays_, stay).size;
          if (total <= arena.lower_bound) return;
          arena.lower_bound = total;
          arena.peak_by_class = live;
        },
        [&](std::int32_t stay) {
          add(stay, -1);
          total -= at(stays_, stay).size;
        });
  }

  BestPacking without_reuse() const {
    BestPacking all;
    for (const Stay& stay : stays_) {
      all.packing.offsets.push_back(all.packing.size);
      all.packing.size += stay.size;
    }
    return all;
  }

  // Contents of a frame at one address share a slot.
  void set_slots(const Packing& packing) {
    std::vector<Bytes> offset_of(lifetimes_.contents.size());
    for (std::size_t stay = 0; stay < contents_.size(); ++stay)
      at(offset_of, contents_[stay]) = fixed_ + packing.offsets[stay];
    for (const ProgramFrame& frame : lifetimes_.frames) {
      if (frame.frame->initially_full || frame.is_host) continue;
      FrameBinding& bound = binding(frame);
      for (std::int32_t content = 0; content < frame.contents_per_step; ++content) {
        const Bytes offset = at(offset_of, frame.first_content + content);
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
  std::vector<std::int32_t> contents_;  // that share the arena, by birth
  std::vector<Stay> stays_;             // of these
  Bytes fixed_;                         // of state and host frames, at the arena's start
  std::vector<Bytes> fixed_by_class_ = std::vector<Bytes>(kNumMemoryClasses);
};

}  // namespace

PackedProgram plan_memory(const PhysicalGraph& graph, RankProgram& program,
                          const Lifetimes& lifetimes, const MemoryPlanOptions& options) {
  return MemoryPlanner(graph, program, lifetimes, options).plan();
}

}  // namespace sextant
