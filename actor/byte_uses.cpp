// Uses from operands, segments from the boundaries of all uses in all slots.
#include "actor/byte_uses.h"

#include "actor/operands.h"
#include "core/at.h"
#include "core/check.h"
#include "core/views.h"

#include <algorithm>
#include <tuple>

namespace sextant {
namespace {}  // namespace

ByteUses::ByteUses(const PhysicalGraph& graph, ProgramId program, const ProgramTables& tables,
                   Grain grain)
    : graph_(graph), program_(graph.programs[program.index()]), tables_(tables) {
  for (const FrameQuota& frame : tables.frames) {
    const FrameBinding& binding =
        program_.instances[frame.instance.index()].frames[at(frame.frame)];
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
            const Instance& instance = program_.instances[owner.index()];
            const Register& info = graph_.block_of(instance).registers[at(reg)];
            const std::int64_t size = size_of(info.local).value;
            const bool is_seen_anew = writes && written_register(owner, reg) != reg;
            if (size == 0 || is_seen_anew) return;
            uses_.push_back({first_frame[owner.index()] + info.frame, written_register(owner, reg),
                             rate, info.offset.value, size, writes, 0, a});
          });
    }
    if (grain == Grain::kMerged) merge(first);
  }
  first_use_.push_back(uses_.size());
  cut_segments();
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

void ByteUses::cut_segments() {
  std::vector<std::int64_t> cuts;
  for (SiteUse& use : uses_) {
    use.first_range = static_cast<std::int32_t>(ranges_.size());
    for (const Bytes slot : *slot_offsets_[at(use.frame)]) {
      cuts.push_back(slot.value + use.offset);
      cuts.push_back(slot.value + use.offset + use.size);
      ranges_.emplace_back();
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  num_segments_ = static_cast<std::int32_t>(cuts.size());
  const auto segment_at = [&](std::int64_t address) {
    return static_cast<std::int32_t>(std::lower_bound(cuts.begin(), cuts.end(), address) -
                                     cuts.begin());
  };
  for (const SiteUse& use : uses_) {
    const std::vector<Bytes>& slots = *slot_offsets_[at(use.frame)];
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      const std::int64_t begin = slots[slot].value + use.offset;
      ranges_[at(use.first_range) + slot] = {segment_at(begin), segment_at(begin + use.size)};
    }
  }
}

std::vector<std::string> ByteUses::host_conflicts() const {
  std::vector<std::string> conflicts;
  std::vector<bool> host_frame(tables_.frames.size(), false);
  for (const std::int32_t site : tables_.host_sites) {
    for (const SiteUse& use : of_site(site)) host_frame[at(use.frame)] = true;
  }
  const auto name = [&](std::int32_t frame) {
    const FrameQuota& quota = tables_.frames[at(frame)];
    return fmt::format("frame {} of '{}'", quota.frame,
                       program_.instances[quota.instance.index()].name);
  };
  // The host frame that has a segment to itself.
  std::vector<std::int32_t> owner(at(num_segments_), -1);
  for (const bool mark : {true, false}) {
    for (const SiteUse& use : uses_) {
      if (mark && !host_frame[at(use.frame)]) continue;
      const std::size_t slots = slot_offsets_[at(use.frame)]->size();
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const SegmentRange range = ranges_[at(use.first_range) + slot];
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
