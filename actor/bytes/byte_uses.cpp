// Uses from operands, segments from the boundaries of all uses in all slots.
#include "actor/bytes/byte_uses.h"

#include "actor/calls/operands.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/base/radix_sort.h"
#include "core/graphs/views.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace sextant {

ByteUses::ByteUses(const PhysicalGraph& graph, ProgramId program, const ProgramTables& tables,
                   Grain grain)
    : graph_(graph), program_(graph.programs[program]), tables_(tables) {
  for (const FrameQuota& frame : tables.frames) {
    const FrameBinding& binding = program_.instances[frame.instance].frames[at(frame.frame)];
    slot_of_content_.push_back(&binding.slot_of_content);
    slot_offsets_.push_back(&binding.slot_offsets);
  }
  for (const Block& block : graph.blocks) roots_.push_back(view_roots(block));
  const OperandResolver resolver(graph, program);
  std::vector<std::int32_t> first_frame(program_.instances.size(), 0);
  for (std::size_t f = tables.frames.size(); f-- > 0;) {
    first_frame[tables.frames[f].instance.index()] = static_cast<std::int32_t>(f);
  }
  for (const Site& site : tables.sites) {
    const std::size_t first = uses_.size();
    first_use_.push_back(first);
    for (std::int32_t a = site.first_actor; a < site.first_actor + site.num_actors; ++a) {
      resolver.for_each_operand(
          site.instance, a,
          [&](InstanceId owner, std::int32_t reg, std::int32_t rate, bool writes) {
            const Instance& instance = program_.instances[owner];
            const Register& info = graph_.block_of(instance).registers[at(reg)];
            const std::int64_t size = size_of(info.local).value;
            const bool is_seen_anew = writes && written_register(owner, reg) != reg;
            if (size == 0 || is_seen_anew) return;
            uses_.push_back({first_frame[owner.index()] + info.frame, written_register(owner, reg),
                             rate, info.offset.value, size, writes, 0, 0, 0, a});
          });
    }
    if (grain == Grain::kMerged) merge(first);
  }
  first_use_.push_back(uses_.size());
  cut_segments();
  if (grain == Grain::kMerged) find_shared();
}

// One use per way of using a stretch of a frame; alignment gaps between registers are bridged.
void ByteUses::merge(std::size_t first) {
  const auto begin = uses_.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, uses_.end(), [](const SiteUse& a, const SiteUse& b) {
    return std::tie(a.frame, a.rate, a.writes, a.offset, a.size) <
           std::tie(b.frame, b.rate, b.writes, b.offset, b.size);
  });
  std::size_t last = first;
  for (std::size_t i = first + 1; i < uses_.size(); ++i) {
    SiteUse& into = uses_[last];
    const SiteUse& use = uses_[i];
    const std::int64_t end = into.offset + into.size;
    const bool same = into.frame == use.frame && into.rate == use.rate && into.writes == use.writes;
    if (same && use.offset <= aligned(end)) {
      into.size = std::max(end, use.offset + use.size) - into.offset;
    } else {
      uses_[++last] = use;
    }
  }
  if (first < uses_.size()) uses_.resize(last + 1);
}

// Uses of a frame begin and end at few places, in every one of its slots.
void ByteUses::cut_segments() {
  const std::size_t frames = tables_.frames.size();
  std::vector<std::vector<std::int64_t>> places(frames);
  for (const SiteUse& use : uses_)
    places[at(use.frame)].insert(places[at(use.frame)].end(), {use.offset, use.offset + use.size});
  struct Cut {
    std::int64_t address = 0;
    std::int32_t number = 0;  // slot by slot
  };
  std::vector<Cut> all;
  for (std::size_t f = 0; f < frames; ++f) {
    std::sort(places[f].begin(), places[f].end());
    places[f].erase(std::unique(places[f].begin(), places[f].end()), places[f].end());
    for (const Bytes slot : *slot_offsets_[f])
      for (const std::int64_t place : places[f]) all.push_back({slot.value + place, size_of(all)});
  }
  radix_sort(all, [](const Cut& cut) { return cut.address; });
  segment_of_cut_.resize(all.size());
  num_segments_ = all.empty() ? 0 : 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i].address != all[i - 1].address) ++num_segments_;
    segment_of_cut_[at(all[i].number)] = num_segments_ - 1;
  }
  std::int32_t first = 0;
  std::vector<std::int32_t> first_content;
  for (std::size_t f = 0; f < frames; ++f) {
    const auto number = static_cast<std::int32_t>(places[f].size());
    cuts_.push_back({number, first});
    first_content.push_back(size_of(cut_of_content_));
    for (const std::int32_t slot : *slot_of_content_[f])
      cut_of_content_.push_back(first + slot * number);
    first += number * size_of(*slot_offsets_[f]);
  }
  for (SiteUse& use : uses_) {
    const std::vector<std::int64_t>& own = places[at(use.frame)];
    const auto cut_at = [&](std::int64_t offset) {
      return static_cast<std::int32_t>(std::lower_bound(own.begin(), own.end(), offset) -
                                       own.begin());
    };
    use.begin = cut_at(use.offset);
    use.end = cut_at(use.offset + use.size);
    use.first_content = first_content[at(use.frame)];
  }
}

// Slots in order of address: each that begins before another one ends shares with it. A frame
// takes one credit for all its writers, so those on other queues than the one that took it are not
// ordered by it.
void ByteUses::find_shared() {
  std::vector<std::optional<QueueRole>> writing(tables_.frames.size());
  std::vector<bool> has_several(tables_.frames.size(), false);
  for (const Site& site : tables_.sites)
    for (std::int32_t w = site.first_write; w < site.first_write + site.num_writes; ++w) {
      const std::int32_t frame = tables_.writes[at(w)].frame;
      std::optional<QueueRole>& queue = writing[at(frame)];
      if (queue && *queue != site.queue) has_several[at(frame)] = true;
      queue = site.queue;
    }
  struct Stretch {
    std::int64_t begin = 0, end = 0;
    std::size_t slot = 0;
  };
  std::vector<Stretch> stretches;
  std::vector<char> is_shared;  // by frame and slot
  std::vector<std::vector<bool>> overlapping(graph_.blocks.size());
  for (std::size_t f = 0; f < tables_.frames.size(); ++f) {
    const FrameQuota& quota = tables_.frames[f];
    const std::size_t first = is_shared.size();
    const BlockId block_id = program_.instances[quota.instance].block;
    const Block& block = graph_.blocks[block_id];
    std::vector<bool>& of_block = overlapping[block_id.index()];
    if (of_block.empty()) of_block = overlapping_frames(block_id);
    const bool is_unordered = has_several[f] || of_block[at(quota.frame)];
    is_shared.resize(first + slot_offsets_[f]->size(), is_unordered ? 1 : 0);
    std::vector<std::int32_t> contents(slot_offsets_[f]->size());
    for (const std::int32_t slot : *slot_of_content_[f]) ++contents[at(slot)];
    const std::int64_t size = block.frames[at(quota.frame)].size.value;
    for (std::size_t slot = 0; slot < contents.size(); ++slot) {
      if (contents[slot] > 1) is_shared[first + slot] = 1;
      const std::int64_t begin = (*slot_offsets_[f])[slot].value;
      if (size > 0) stretches.push_back({begin, begin + size, first + slot});
    }
  }
  std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) {
    return std::tie(a.begin, a.slot) < std::tie(b.begin, b.slot);
  });
  for (std::size_t i = 1, furthest = 0; i < stretches.size(); ++i) {
    if (stretches[i].begin < stretches[furthest].end)
      is_shared[stretches[i].slot] = is_shared[stretches[furthest].slot] = 1;
    if (stretches[i].end > stretches[furthest].end) furthest = i;
  }
  std::size_t first = 0;
  for (std::size_t f = 0; f < tables_.frames.size(); first += slot_offsets_[f++]->size())
    for (const std::int32_t slot : *slot_of_content_[f])
      is_shared_.push_back(is_shared[first + at(slot)]);
}

// By frame: whether two of its registers have bytes in common, neither a view of the other; then
// one works in place.
std::vector<bool> ByteUses::overlapping_frames(BlockId id) const {
  struct Part {
    std::int32_t frame = 0;
    std::int64_t begin = 0, end = 0;
  };
  const Block& block = graph_.blocks[id];
  std::vector<Part> parts;
  for (std::size_t reg = 0; reg < block.registers.size(); ++reg) {
    if (roots_[id.index()][reg] != static_cast<std::int32_t>(reg)) continue;
    const Register& info = block.registers[reg];
    const std::int64_t size = size_of(info.local).value;
    if (size > 0) parts.push_back({info.frame, info.offset.value, info.offset.value + size});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::tie(a.frame, a.begin, a.end) < std::tie(b.frame, b.begin, b.end);
  });
  std::vector<bool> overlapping(block.frames.size(), false);
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i].frame == parts[i - 1].frame && parts[i].begin < parts[i - 1].end)
      overlapping[at(parts[i].frame)] = true;
  return overlapping;
}

std::vector<std::string> ByteUses::host_conflicts() const {
  std::vector<std::string> conflicts;
  if (tables_.host_sites.empty()) return conflicts;
  std::vector<bool> host_frame(tables_.frames.size(), false);
  for (const SiteId site : tables_.host_sites) {
    for (const SiteUse& use : of_site(site)) host_frame[at(use.frame)] = true;
  }
  const auto name = [&](std::int32_t frame) {
    const FrameQuota& quota = tables_.frames[at(frame)];
    return fmt::format("frame {} of '{}'", quota.frame, program_.instances[quota.instance].name);
  };
  // The host frame that has a segment to itself; all of these lie between two segments.
  std::vector<std::int32_t> owner(at(num_segments_), -1);
  SegmentRange owned{num_segments_, 0};
  for (const bool mark : {true, false}) {
    for (const SiteUse& use : uses_) {
      if (mark && !host_frame[at(use.frame)]) continue;
      const std::size_t slots = slot_offsets_[at(use.frame)]->size();
      for (std::size_t slot = 0; slot < slots; ++slot) {
        SegmentRange range = range_in_slot(use, slot);
        if (mark)
          owned = {std::min(owned.begin, range.begin), std::max(owned.end, range.end)};
        else
          range = {std::max(owned.begin, range.begin), std::min(owned.end, range.end)};
        for (std::int32_t s = range.begin; s < range.end; ++s) {
          if (owner[at(s)] >= 0 && owner[at(s)] != use.frame) {
            conflicts.push_back(fmt::format("bytes of {}, which a host actor touches, are also {}",
                                            name(owner[at(s)]), name(use.frame)));
            s = range.end;
          } else if (mark) {
            owner[at(s)] = use.frame;
          }
        }
      }
    }
  }
  for (std::size_t f = 0; f < tables_.frames.size(); ++f) {
    const std::vector<std::int32_t>& slots = *slot_of_content_[f];
    const auto in_flight = at(tables_.frames[f].num_registers);
    for (std::size_t k = 0; host_frame[f] && k < slots.size(); ++k) {
      for (std::size_t ahead = 1; ahead < std::min(in_flight, slots.size()); ++ahead) {
        const std::size_t other = (k + ahead) % slots.size();
        if (slots[k] != slots[other]) continue;
        conflicts.push_back(
            fmt::format("{}, which a host actor touches, keeps contents {} and {} in slot {} with "
                        "{} registers",
                        name(static_cast<std::int32_t>(f)), k, other, slots[k], in_flight));
      }
    }
  }
  std::sort(conflicts.begin(), conflicts.end());
  conflicts.erase(std::unique(conflicts.begin(), conflicts.end()), conflicts.end());
  return conflicts;
}

}  // namespace sextant
