// Order, cut, catalogue; then numbers for what crosses the borders of blocks.
#include "simulator/modes/recurring/block_tape.h"

#include "core/base/at.h"
#include "simulator/modes/recurring/block_catalogue.h"
#include "simulator/modes/recurring/block_cut.h"
#include "simulator/modes/recurring/block_order.h"

#include <algorithm>

namespace sextant {
namespace {

// A matrix costs about as much as its launches in a few steps, and mostly one does for all blocks
// of a structure.
constexpr std::int32_t kFewestInstances = 2;

using Item = BlockOrder::Item;
using RecurringOp = BlockTape::Op;

class Building {
 public:
  Building(const FlatTape& flat, const PhysicalGraph& graph,
           std::span<const std::int32_t> colour_of_place, BlockTape& into)
      : flat_(flat),
        tape_(*flat.tape),
        into_(into),
        order_(block_order(flat)),
        durations_(tape_, colour_of_place, into) {
    for (const Item& item : order_.items) {
      if (item.kind == Item::Kind::kStretch)
        cut_stretch(flat, graph, order_, item, into.window, pieces_);
    }
    piece_of_.assign(tape_.entries.size(), -1);
    for (std::int32_t p = 0; p < size_of(pieces_); ++p)
      for (std::int32_t i = 0; i < pieces_[at(p)].count; ++i)
        piece_of_[at(order_.entries[at(pieces_[at(p)].first + i)])] = p;
  }

  void run() {
    catalogue();
    number_slots();
    for (const Item& item : order_.items) add(item);
    bind_fences();
    number_saved();
  }

 private:
  template <typename Use>  // (entry, wait of the flat tape)
  void for_each_wait(Use use) const {
    for (std::int32_t e = 0; e < size_of(tape_.entries); ++e)
      for (std::int32_t w = first_wait(e); w < flat_.waits_end[at(e)]; ++w)
        use(e, flat_.waits[at(w)]);
  }
  std::int32_t first_wait(std::int32_t e) const { return e == 0 ? 0 : flat_.waits_end[at(e - 1)]; }
  bool is_entry(std::int32_t whose) const { return whose < size_of(tape_.entries); }

  void catalogue() {
    std::vector<bool> is_seen(tape_.entries.size());
    for (const std::int32_t e : flat_.saved) is_seen[at(e)] = true;
    for_each_wait([&](std::int32_t e, std::int32_t whose) {
      if (!is_entry(whose)) return;
      if (whose >= e || piece_of_[at(e)] < 0 || piece_of_[at(e)] != piece_of_[at(whose)])
        is_seen[at(whose)] = true;
    });
    BlockCatalogue catalogue(flat_, order_, is_seen, durations_, into_);
    for (const BlockPiece& piece : pieces_) instances_.push_back(catalogue.instance_of(piece));
    catalogue.add_exports();
    uses_.resize(into_.structures.size());
    for (const BlockInstance& instance : instances_) ++uses_[at(structure_of(instance))];
  }

  std::int32_t structure_of(const BlockInstance& instance) const {
    return into_.templates[at(instance.block)].structure;
  }

  bool is_block(std::int32_t piece) const {
    return piece >= 0 && uses_[at(structure_of(instances_[at(piece)]))] >= kFewestInstances;
  }

  // Ends that are waited for from outside a block.
  void number_slots() {
    slot_of_.assign(tape_.entries.size(), 0);
    for (const std::int32_t e : flat_.saved) number_slot(e);
    for_each_wait([&](std::int32_t e, std::int32_t whose) {
      if (!is_entry(whose)) return;
      const bool inside =
          whose < e && is_block(piece_of_[at(e)]) && piece_of_[at(e)] == piece_of_[at(whose)];
      if (!inside) number_slot(whose);
    });
  }

  void number_slot(std::int32_t e) {
    if (slot_of_[at(e)] == 0) slot_of_[at(e)] = into_.num_slots++;
  }

  // Saved ends follow those of entries.
  std::int32_t slot_of_wait(std::int32_t whose) const {
    return is_entry(whose) ? slot_of_[at(whose)] : into_.num_slots + whose - size_of(tape_.entries);
  }

  void number_saved() {
    for (std::int32_t i = 0; i < size_of(flat_.saved); ++i)
      into_.saved.push_back({slot_of_[at(flat_.saved[at(i)])], into_.num_slots + i});
    for (const std::int32_t e : flat_.seen_later) into_.seen_later.push_back(slot_of_[at(e)]);
    into_.num_slots += size_of(flat_.saved);
  }

  // ---------------------------------------------------------------- ops

  void add(const Item& item) {
    switch (item.kind) {
      case Item::Kind::kStretch:
        for (const std::int32_t end = item.first + item.count;
             next_piece_ < size_of(pieces_) && pieces_[at(next_piece_)].first < end; ++next_piece_)
          add_piece(next_piece_);
        return;
      case Item::Kind::kTogether:
        add_together(tape_entries(item), item.meeting);
        return;
      case Item::Kind::kLaunch:
        add_launch(item);
        return;
      case Item::Kind::kComplete:
        add_complete(item);
        return;
    }
  }

  static std::vector<std::int32_t> tape_entries(const Item& item) {
    std::vector<std::int32_t> entries;
    for (std::int32_t e = item.first; e < item.first + item.count; ++e) entries.push_back(e);
    return entries;
  }

  void add_piece(std::int32_t p) {
    if (is_block(p)) return add_block(p);
    const BlockPiece& piece = pieces_[at(p)];
    for (std::int32_t i = piece.first; i < piece.first + piece.count;) {
      const std::int32_t e = order_.entries[at(i)];
      const MeetingId m = tape_.entries[at(e)].meeting;
      if (!m.is_valid()) {
        add_compute(e);
        ++i;
        continue;
      }
      const std::int32_t members = tape_.meetings[m].num_entries;
      const auto first = order_.entries.begin() + i;
      add_together({first, first + members}, m);
      i += members;
    }
  }

  void add_block(std::int32_t p) {
    BlockInstance instance = instances_[at(p)];
    instance.first_export = size_of(into_.export_slots);
    const BlockStructure& s = into_.structures[at(structure_of(instance))];
    for (std::int32_t x = s.first_export; x < s.first_export + s.num_exports; ++x) {
      const std::int32_t i = pieces_[at(p)].first + into_.exports[at(x)];
      into_.export_slots.push_back(slot_of_[at(order_.entries[at(i)])]);
    }
    into_.ops.push_back({RecurringOp::Kind::kBlock, size_of(into_.instances), 1});
    into_.instances.push_back(instance);
  }

  void add_compute(std::int32_t e) {
    if (into_.ops.empty() || into_.ops.back().kind != RecurringOp::Kind::kCompute)
      into_.ops.push_back({RecurringOp::Kind::kCompute, size_of(into_.loose), 0});
    ++into_.ops.back().count;
    add_loose(e).timed = durations_.of(tape_.entries[at(e)]);
  }

  void add_together(const std::vector<std::int32_t>& entries, MeetingId meeting) {
    into_.ops.push_back({RecurringOp::Kind::kTogether, size_of(into_.loose), size_of(entries),
                         durations_.of_meeting(meeting)});
    for (const std::int32_t e : entries) add_loose(e);
  }

  void add_launch(const Item& item) {
    into_.ops.push_back({RecurringOp::Kind::kLaunch, size_of(into_.loose), item.count});
    for (std::int32_t e = item.first; e < item.first + item.count; ++e) add_loose(e);
    into_.loose[at(size_of(into_.loose) - item.count)].group = item.count;
  }

  void add_complete(const Item& item) {
    const TapeMeeting& meeting = tape_.meetings[item.meeting];
    into_.ops.push_back({RecurringOp::Kind::kComplete, size_of(into_.over), item.count,
                         durations_.of_meeting(item.meeting), size_of(into_.arriving),
                         meeting.num_entries});
    for (std::int32_t i = item.first; i < item.first + item.count; ++i)
      into_.over.push_back(loose_of_[at(flat_.over[at(i)])]);
    for (std::int32_t i = meeting.first_entry; i < meeting.first_entry + meeting.num_entries; ++i)
      into_.arriving.push_back(loose_of_[at(tape_.meeting_entries[at(i)])]);
  }

  LooseLaunch& add_loose(std::int32_t e) {
    const TapeEntry& entry = tape_.entries[at(e)];
    LooseLaunch launch;
    launch.mark = entry.opens_launch ? 0 : -1;
    launch.place = entry.place;
    launch.queue = flat_.queue_of[at(e)];
    launch.waits_begin = size_of(into_.loose_waits);
    for (std::int32_t w = first_wait(e); w < flat_.waits_end[at(e)]; ++w)
      into_.loose_waits.push_back(slot_of_wait(flat_.waits[at(w)]));
    launch.waits_end = size_of(into_.loose_waits);
    launch.slot = slot_of_[at(e)];
    loose_of_.resize(tape_.entries.size(), -1);
    loose_of_[at(e)] = size_of(into_.loose);
    into_.loose.push_back(launch);
    return into_.loose.back();
  }

  void bind_fences() {
    for (const BlockInstance& instance : into_.instances) {
      const BlockStructure& s = into_.structures[at(into_.templates[at(instance.block)].structure)];
      std::int32_t* fences =
          into_.bindings.data() + instance.first_binding + s.num_places + s.num_queues;
      for (std::int32_t f = 0; f < s.num_fences; ++f) fences[f] = slot_of_wait(fences[f]);
    }
  }

  const FlatTape& flat_;
  const Tape& tape_;
  BlockTape& into_;
  BlockOrder order_;
  BlockDurations durations_;
  std::vector<BlockPiece> pieces_;
  std::vector<std::int32_t> piece_of_;    // by entry; -1: on a border
  std::vector<BlockInstance> instances_;  // by piece
  std::vector<std::int32_t> uses_;        // by structure
  std::vector<std::int32_t> slot_of_;     // by entry
  std::vector<std::int32_t> loose_of_;    // by entry
  std::int32_t next_piece_ = 0;
};

// ---------------------------------------------------------------- the window

// Numbers the launches of each queue within the step, puts marks after ops, and finds for each
// launch, or for the last one of a block on a queue that looks outside, the mark at or after the
// launch that the host waits for.
class WindowMarks {
 public:
  explicit WindowMarks(BlockTape& into)
      : into_(into), ends_(into.flat->place_of_queue.size()), next_(ends_.size()) {}

  void run() {
    std::int32_t num_ends = 0;
    for_each_use([&](const Use& use) {
      std::vector<std::int32_t>& ends = ends_[at(use.queue)];
      ends.insert(ends.end(), at(use.launches), num_ends++);
    });
    mark_of_.assign(at(num_ends), 0);
    for_each_use([&](const Use& use) {
      *use.window = reference(use);
      next_[at(use.queue)] += use.launches;
    });
    for (std::int32_t queue = 0; queue < size_of(ends_); ++queue) add_waited_for(queue);
    std::int32_t end = 0;
    for_each_use([&](const Use& use) { *use.mark = mark_of_[at(end++)]; });
    std::sort(into_.marks_seen_later.begin(), into_.marks_seen_later.end());
    const auto last = std::unique(into_.marks_seen_later.begin(), into_.marks_seen_later.end());
    into_.marks_seen_later.erase(last, into_.marks_seen_later.end());
  }

 private:
  // Of a queue by an op.
  struct Use {
    std::int32_t queue, launches;
    std::int32_t *mark, *window;
  };

  template <typename Visit>
  void for_each_use(Visit visit) {
    for (const RecurringOp& op : into_.ops) {
      if (op.kind == RecurringOp::Kind::kComplete) continue;
      if (op.kind == RecurringOp::Kind::kBlock) {
        visit_block(into_.instances[at(op.first)], visit);
        continue;
      }
      for (std::int32_t l = op.first; l < op.first + op.count; ++l) {
        LooseLaunch& launch = into_.loose[at(l)];
        if (launch.mark >= 0) visit(Use{launch.queue, 1, &launch.mark, &launch.window});
      }
    }
  }

  template <typename Visit>
  void visit_block(const BlockInstance& instance, Visit visit) {
    const BlockStructure& s = into_.structures[at(into_.templates[at(instance.block)].structure)];
    launches_.assign(at(s.num_queues), 0);
    for (std::int32_t i = 0; i < s.num_launches; ++i)
      ++launches_[at(into_.launches[at(s.first_launch + i)].queue)];
    std::int32_t* queues = into_.bindings.data() + instance.first_binding + s.num_places;
    std::int32_t* windows = queues + s.num_queues + s.num_fences;
    for (std::int32_t q = 0; q < s.num_queues; ++q)
      visit(Use{queues[q], launches_[at(q)], windows + s.num_queues + q, windows + q});
  }

  std::int32_t reference(const Use& use) {
    const std::vector<std::int32_t>& ends = ends_[at(use.queue)];
    const std::int64_t inside = std::min(std::int64_t{use.launches}, into_.window);
    std::int64_t launch = next_[at(use.queue)] + inside - 1 - into_.window;
    std::int32_t lag = 0;
    for (; launch < 0; launch += size_of(ends))
      if (++lag >= TapeOptions{}.run_ahead_steps) return -1;
    const auto l = static_cast<std::size_t>(launch);
    const bool is_last = l + 1 == ends.size() || ends[l + 1] != ends[l];
    const std::int32_t mark = mark_at(ends[l]);
    if (lag > 0) into_.marks_seen_later.push_back(mark);
    return mark * 4 + lag * 2 + (is_last && lag == 0 ? 1 : 0);
  }

  std::int32_t mark_at(std::int32_t end) {
    std::int32_t& mark = mark_of_[at(end)];
    if (mark == 0) mark = into_.num_marks++;
    return mark;
  }

  // The last launch of a step waits for one that is in an op, so for all ops before that.
  void add_waited_for(std::int32_t queue) {
    const std::vector<std::int32_t>& ends = ends_[at(queue)];
    std::int64_t launch = size_of(ends) - 1 - into_.window;
    while (launch >= 0 &&
           ends[static_cast<std::size_t>(launch)] == ends[static_cast<std::size_t>(launch) + 1])
      --launch;
    if (launch < 0) return;
    into_.waited_for.push_back(
        {into_.flat->place_of_queue[at(queue)], mark_at(ends[static_cast<std::size_t>(launch)])});
  }

  BlockTape& into_;
  // By queue and launch of the step: the end of the op that it is in, numbered over all queues.
  std::vector<std::vector<std::int32_t>> ends_;
  std::vector<std::int32_t> mark_of_;  // by such an end; 0: not referred to
  std::vector<std::int64_t> next_;     // by queue: launches before the op at hand
  std::vector<std::int32_t> launches_;
};

}  // namespace

BlockTape::BlockTape(const FlatTape& from, const PhysicalGraph& graph,
                     std::span<const std::int32_t> colour_of_place, std::int64_t width)
    : flat(&from), window(width) {
  Building(from, graph, colour_of_place, *this).run();
  WindowMarks(*this).run();
}

std::int64_t BlockTape::num_kinds() const {
  std::vector<bool> is_used(templates.size());
  for (const BlockInstance& instance : instances) is_used[at(instance.block)] = true;
  return std::count(is_used.begin(), is_used.end(), true);
}

}  // namespace sextant
