// Lives become stays of whole ticks, one tick per birth; the best packing of them is kept.
#include "compiler/memory/memory_plan.h"

#include "compiler/memory/packing.h"
#include "compiler/memory/sort_woven.h"
#include "core/base/at.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace sextant {

class MemoryPlan::Planner {
 public:
  Planner(const PhysicalGraph& graph, RankProgram& program, const MemoryPlanOptions& options)
      : graph_(graph),
        program_(program),
        lifetimes_(find_lifetimes(graph, program)),
        options_(options) {
    bind_frames();
    place_fixed();
    find_births();
    keep_apart_over_steps();
    find_stays();
    measure_peak();
    best_ = options_.reuse ? pack_quickly(stays_, ends_, lower_bound() - fixed_) : without_reuse();
  }

  Bytes size() const { return fixed_ + best_.packing.size; }
  Bytes lower_bound() const { return program_.arena.lower_bound; }
  void improve(Bytes enough) {
    if (options_.reuse) improve_to_bound(best_, stays_, lower_bound() - fixed_, enough - fixed_);
  }

  PackedProgram finish() {
    program_.arena.size = size();
    set_slots(best_.packing);
    return {program_.name, size(), fixed_, std::move(stays_), best_.rule};
  }

 private:
  struct Kept {
    ContentId content;
    Bytes offset;
  };

  const ContentLife& life(ContentId content) const { return lifetimes_.contents[content]; }
  const ProgramFrame& frame_of(ContentId content) const {
    return lifetimes_.frames[life(content).frame];
  }
  Bytes size_of_content(ContentId content) const { return frame_of(content).frame->size; }
  FrameBinding& binding(const ProgramFrame& frame) {
    return at(program_.instances[frame.instance].frames, frame.index);
  }
  // Bytes that others may use before and after. Those of host actors may not: no guard can name
  // one.
  bool is_shared(ContentId content) const {
    return life(content).is_used() && !frame_of(content).is_host;
  }

  void bind_frames() {
    for (Instance& instance : program_.instances)
      instance.frames.assign(graph_.block_of(instance).frames.size(), FrameBinding());
    for (const ProgramFrame& frame : lifetimes_.frames) {
      binding(frame).num_registers =
          contents_in_flight(lifetimes_, frame, options_.begin, options_.end);
      binding(frame).slot_of_content.assign(at(frame.contents_per_step), 0);
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
    fixed_by_class_[frame.frame->memory] += frame.frame->size;
  }

  // Contents in flight at one time, over the step boundary too, have slots of their own: credits
  // are all that keeps a host actor from overwriting what is still read.
  void place_host_frame(const ProgramFrame& frame) {
    FrameBinding& bound = binding(frame);
    const std::int32_t contents = frame.contents_per_step;
    const std::int32_t near = bound.num_registers - 1;
    std::int32_t num_slots = 0;
    for (std::int32_t content = 0; content < contents; ++content) {
      std::vector<bool> taken(at(num_slots) + 1, false);
      const auto take = [&](std::int32_t from, std::int32_t to) {
        for (std::int32_t other = from; other < to; ++other)
          at(taken, at(bound.slot_of_content, other)) = true;
      };
      take(std::max(0, content - near), content);
      take(0, std::min(content, near - contents + content + 1));  // over the step boundary
      const auto slot =
          static_cast<std::int32_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
      at(bound.slot_of_content, content) = slot;
      num_slots = std::max(num_slots, slot + 1);
    }
    for (std::int32_t slot = 0; slot < num_slots; ++slot) add_fixed_slot(frame);
  }

  // --- walking through the step ------------------------------------------------------------------

  // A tick is a birth; births are in order of modelled time, then of issue. A content's bytes are
  // free from the first birth on that neither it nor a later one begins before the content's last
  // use is over or is issued before it. (The two orders differ: a run of a long cell is issued
  // before a transfer that begins earlier.)
  void find_births() {
    contents_.reserve(lifetimes_.in_order.size());
    for (const ContentId content : lifetimes_.in_order)
      if (is_shared(content)) contents_.push_back(content);
    if (options_.begin.empty()) return;
    std::vector<std::pair<Time, std::int32_t>> births;  // and the place in the order of issue
    births.reserve(contents_.size());
    for (const ContentId content : contents_)
      births.push_back({begin_of(content), size_of(births)});
    if (std::is_sorted(births.begin(), births.end())) return;
    sort_woven(births);
    const std::vector<ContentId> issued = contents_;
    for (std::size_t birth = 0; birth < births.size(); ++birth)
      contents_[birth] = at(issued, births[birth].second);
  }

  // A step begins before the one before it is over: at some time the bytes of the one pass to the
  // other. What begins earlier than that or is used longer has its own bytes below all others.
  void keep_apart_over_steps() {
    if (!options_.period || contents_.empty()) return;
    const Time handover = best_handover();
    const auto is_within = [&](ContentId content) {
      return begin_of(content) >= handover && end_of(content) <= handover + *options_.period;
    };
    const auto kept = std::stable_partition(contents_.begin(), contents_.end(), is_within);
    for (auto content = kept; content != contents_.end(); ++content) {
      kept_.push_back({*content, fixed_});
      const ProgramFrame& frame = frame_of(*content);
      fixed_ += frame.frame->size;
      fixed_by_class_[frame.frame->memory] += frame.frame->size;
    }
    contents_.erase(kept, contents_.end());
  }

  // The begin of a content, so that the fewest bytes have to be kept apart; the first of equals.
  Time best_handover() const {
    std::vector<ContentId> by_end = contents_;
    std::stable_sort(by_end.begin(), by_end.end(),
                     [&](ContentId a, ContentId b) { return end_of(a) < end_of(b); });
    Bytes later;
    for (const ContentId content : contents_) later += size_of_content(content);
    Time best = begin_of(contents_.front());
    Bytes earlier;
    std::optional<Bytes> least;
    auto over = by_end.begin();
    for (const ContentId content : contents_) {
      const Time handover = begin_of(content);
      for (; over != by_end.end() && end_of(*over) <= handover + *options_.period; ++over)
        later -= size_of_content(*over);
      if (!least || earlier + later < *least) {
        least = earlier + later;
        best = handover;
      }
      earlier += size_of_content(content);
    }
    return best;
  }

  void find_stays() {
    const std::size_t births = contents_.size();
    std::vector<Time> begin(births), over(births);
    std::vector<std::int32_t> first(births), last(births);  // issued
    stays_.reserve(births);
    for (std::size_t tick = 0; tick < births; ++tick) {
      const ContentLife& content = life(contents_[tick]);
      const ProgramFrame& frame = lifetimes_.frames[content.frame];
      begin[tick] = at_run(options_.begin, content.first_run);
      over[tick] = at_run(options_.end, content.last_run);
      first[tick] = content.first;
      last[tick] = content.last;
      stays_.push_back({static_cast<std::int32_t>(tick), 0, frame.frame->size, content.frame.value,
                        !frame.has_outer_readers});
    }
    for (std::size_t tick = births; tick-- > 1;)  // of this and all later births
      first[tick - 1] = std::min(first[tick - 1], first[tick]);
    for (std::size_t tick = 0; tick < births; ++tick) {
      const std::size_t by_time = partition_near(
          tick + 1, births, [&](std::size_t birth) { return begin[birth] < over[tick]; });
      const std::size_t end = partition_near(
          by_time, births, [&](std::size_t birth) { return first[birth] <= last[tick]; });
      stays_[tick].end = static_cast<std::int32_t>(end);
    }
  }
  // The first index from `from` on that is not `before`, where all that are come first. Most lives
  // are short, so it is looked for near by.
  template <typename Before>
  static std::size_t partition_near(std::size_t from, std::size_t size, const Before& before) {
    std::size_t step = 1;
    while (from < size && before(std::min(from + step, size) - 1)) {
      from += step;
      step *= 2;
    }
    std::size_t end = std::min(from + step, size);
    while (from < end) {
      const std::size_t middle = from + (end - from) / 2;
      if (before(middle))
        from = middle + 1;
      else
        end = middle;
    }
    return std::min(from, size);
  }
  Time begin_of(ContentId content) const { return at_run(options_.begin, life(content).first_run); }
  Time end_of(ContentId content) const { return at_run(options_.end, life(content).last_run); }
  static Time at_run(std::span<const Time> times, RunId run) {
    return times.empty() ? Time() : times[run.index()];
  }

  // No packing can be below the most bytes that live at one time; their classes are reported.
  void measure_peak() {
    ends_ = by_end(stays_);
    Bytes live, most;
    std::int32_t peak = -1;  // the stay that begins it
    sweep(
        stays_, ends_,
        [&](std::int32_t stay) {
          live += at(stays_, stay).size;
          if (live > most) {
            most = live;
            peak = stay;
          }
        },
        [&](std::int32_t stay) { live -= at(stays_, stay).size; });
    FixedTable<MemoryClass, Bytes, kNumMemoryClasses> by_class = fixed_by_class_;
    for (std::int32_t stay = 0; stay <= peak; ++stay)
      if (at(stays_, stay).end > at(stays_, peak).begin)
        by_class[frame_of(at(contents_, stay)).frame->memory] += at(stays_, stay).size;
    program_.arena.lower_bound = fixed_ + most;
    program_.arena.peak_by_class.assign(by_class.begin(), by_class.end());
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
    Table<ContentId, Bytes> offset_of(lifetimes_.contents.size());
    for (std::size_t stay = 0; stay < contents_.size(); ++stay)
      offset_of[contents_[stay]] = fixed_ + packing.offsets[stay];
    for (const Kept& kept : kept_) offset_of[kept.content] = kept.offset;
    for (const ProgramFrame& frame : lifetimes_.frames) {
      if (frame.frame->initially_full || frame.is_host) continue;
      FrameBinding& bound = binding(frame);
      for (std::int32_t content = 0; content < frame.contents_per_step; ++content) {
        const Bytes offset = offset_of[frame.first_content.plus(content)];
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
  const Lifetimes lifetimes_;
  const MemoryPlanOptions options_;
  std::vector<ContentId> contents_;  // that share the arena, by birth
  std::vector<Stay> stays_;          // of these
  std::vector<std::int32_t> ends_;   // stays by their end
  std::vector<Kept> kept_;           // those that share with nobody
  BestPacking best_;
  Bytes fixed_;  // of state and host frames, at the arena's start
  FixedTable<MemoryClass, Bytes, kNumMemoryClasses> fixed_by_class_;
};

MemoryPlan::MemoryPlan(const PhysicalGraph& graph, RankProgram& program,
                       const MemoryPlanOptions& options)
    : planner_(std::make_unique<Planner>(graph, program, options)) {}
MemoryPlan::~MemoryPlan() = default;
MemoryPlan::MemoryPlan(MemoryPlan&&) noexcept = default;

Bytes MemoryPlan::size() const { return planner_->size(); }
Bytes MemoryPlan::lower_bound() const { return planner_->lower_bound(); }
void MemoryPlan::improve(Bytes enough) { planner_->improve(enough); }
PackedProgram MemoryPlan::finish() { return planner_->finish(); }

}  // namespace sextant
