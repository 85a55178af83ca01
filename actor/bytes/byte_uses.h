// Which bytes each run reads and writes, as ranges of a program's elementary segments: the arena
// cut wherever some use begins or ends. What an actor touches is the same in every act up to the
// slots.
#pragma once

#include "actor/protocol/program_tables.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sextant {

struct SegmentRange {
  std::int32_t begin = 0, end = 0;
};

// Bytes of one frame that a site uses in one way. Registers that lie side by side are one use.
struct SiteUse {
  std::int32_t frame = 0;  // in ProgramTables::frames
  // Register of the block of the frame's instance, of registers that are views of each other the
  // one that is written; the first, if merged.
  std::int32_t reg = 0;
  std::int32_t rate = 1;  // content of the step = act / rate; 0: always content 0 (state)
  std::int64_t offset = 0, size = 0;  // in the frame
  bool writes = false;
  std::int32_t begin = 0, end = 0;  // among the cuts of the frame
  std::int32_t first_content = 0;   // of the frame, in the tables of ByteUses
  std::int32_t actor = 0;           // of the block of the site's instance; the first, if merged
};

class ByteUses {
 public:
  enum class Grain { kPerRegister, kMerged };
  ByteUses(const PhysicalGraph& graph, ProgramId program, const ProgramTables& tables, Grain grain);

  std::int32_t num_segments() const { return num_segments_; }
  std::span<const SiteUse> of_site(SiteId site) const {
    const std::size_t s = site.index();
    return std::span(uses_).subspan(first_use_[s], first_use_[s + 1] - first_use_[s]);
  }
  std::int32_t content(const SiteUse& use, std::int32_t act) const {
    if (use.rate == 1) return act;  // most are, and a division takes as long as the rest
    return use.rate == 0 ? 0 : act / use.rate;
  }
  SegmentRange range(const SiteUse& use, std::int32_t act) const {
    return range_from(use, cut_of_content_[place(use, act)]);
  }

  // Whether other frames, or other contents of its frame, may lie in the bytes that the use touches
  // in this act. What nobody shares is ordered by Req and Ack alone. Of merged uses only.
  bool is_shared(const SiteUse& use, std::int32_t act) const {
    return is_shared_[place(use, act)] != 0;
  }

  // The register whose value `reg` of an instance holds: itself, or the one it is a view of.
  std::int32_t written_register(InstanceId instance, std::int32_t reg) const {
    const BlockId block = program_.instances[instance].block;
    return roots_[block.index()][static_cast<std::size_t>(reg)];
  }

  // Invariant 7, bytes of host actors: one message per frame that a host actor touches whose bytes
  // belong to another frame too, or whose contents in flight share a slot.
  std::vector<std::string> host_conflicts() const;

 private:
  std::size_t place(const SiteUse& use, std::int32_t act) const {
    return static_cast<std::size_t>(use.first_content + content(use, act));
  }
  SegmentRange range_from(const SiteUse& use, std::int32_t cut) const {
    return {segment_of_cut_[static_cast<std::size_t>(cut + use.begin)],
            segment_of_cut_[static_cast<std::size_t>(cut + use.end)]};
  }
  SegmentRange range_in_slot(const SiteUse& use, std::size_t slot) const {
    const FrameCuts& cuts = cuts_[static_cast<std::size_t>(use.frame)];
    return range_from(use, cuts.first + static_cast<std::int32_t>(slot) * cuts.number);
  }
  void merge(std::size_t first);
  void cut_segments();
  void find_shared();
  std::vector<bool> overlapping_frames(BlockId block) const;

  const PhysicalGraph& graph_;
  const RankProgram& program_;
  const ProgramTables& tables_;
  std::vector<std::vector<std::int32_t>> roots_;  // by block, by register
  std::vector<SiteUse> uses_;
  std::vector<std::size_t> first_use_;  // by site
  // Where some use of a frame begins or ends: as many places in each of its slots.
  struct FrameCuts {
    std::int32_t number = 0;
    std::int32_t first = 0;  // in segment_of_cut_, slot by slot
  };
  std::vector<FrameCuts> cuts_;               // by frame
  std::vector<std::int32_t> segment_of_cut_;  // that begins there
  // By frame and content: the first cut of its slot, and whether others may lie there.
  std::vector<std::int32_t> cut_of_content_;
  std::vector<char> is_shared_;
  std::vector<const std::vector<std::int32_t>*> slot_of_content_;  // by frame
  std::vector<const std::vector<Bytes>*> slot_offsets_;            // by frame
  std::int32_t num_segments_ = 0;
};

}  // namespace sextant
