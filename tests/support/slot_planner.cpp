// Lifetimes by walking the order once with plain counters.
#include "tests/support/slot_planner.h"

#include "actor/bytes/byte_order.h"
#include "actor/protocol/program_tables.h"

#include <algorithm>
#include <map>

namespace sextant::testing {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct Lifetime {
  std::int32_t first = -1, last = -1;  // runs
  void include(std::int32_t run) {
    if (first < 0) first = run;
    last = std::max(last, run);
  }
};

// Graph with as many registers as contents, so that its tables accept any counts.
void loosen(PhysicalGraph& graph, RankProgram& program) {
  for (Instance& instance : program.instances) {
    const Block& block = graph.block_of(instance);
    for (std::size_t f = 0; f < block.frames.size(); ++f) {
      FrameBinding& binding = instance.frames[f];
      const std::int32_t contents = instance.acts_per_step / block.frames[f].acts_per_content;
      binding.num_registers = block.frames[f].initially_full ? 1 : contents;
      binding.slot_of_content.clear();
      for (std::int32_t k = 0; k < contents; ++k) {
        binding.slot_of_content.push_back(block.frames[f].initially_full ? 0 : k);
      }
    }
  }
}

// From the first run that writes or needs a content to the last one that reads it.
std::vector<std::vector<Lifetime>> lifetimes(const ProgramTables& tables) {
  std::vector<std::vector<Lifetime>> of_frame;
  for (const FrameQuota& frame : tables.frames) {
    of_frame.emplace_back(at(frame.contents_per_step));
  }
  Table<SiteId, std::int32_t> acts(tables.sites.size(), 0);
  const auto include = [&](std::int32_t frame, std::int32_t content, std::int32_t run) {
    if (tables.frames[at(frame)].initially_full) content = 0;
    of_frame[at(frame)][at(content)].include(run);
  };
  std::int32_t group_begin = 0;
  for (std::size_t r = 0; r < tables.runs.size(); ++r) {
    const auto run = static_cast<std::int32_t>(r);
    const RunEntry& entry = tables.runs[r];
    if (entry.group_size > 0) group_begin = run;
    for (const SiteId s : entry.sites()) {
      const Site& site = tables.sites[s];
      const std::int32_t act = acts[s]++;
      for (std::int32_t i = site.first_input; i < site.first_input + site.num_inputs; ++i) {
        const Channel& channel = tables.channels[at(tables.inputs[at(i)])];
        include(channel.frame, act / channel.consume_for, run);
      }
      for (std::int32_t w = site.first_write; w < site.first_write + site.num_writes; ++w) {
        const FrameQuota& frame = tables.frames[at(tables.writes[at(w)].frame)];
        // A launch group is one point: what it writes lives from its beginning.
        include(tables.writes[at(w)].frame, act / frame.acts_per_content, group_begin);
        include(tables.writes[at(w)].frame, act / frame.acts_per_content, run);
      }
    }
  }
  // What a group reads lives until its end.
  for (auto& contents : of_frame) {
    for (Lifetime& life : contents) {
      while (life.last >= 0 && at(life.last) + 1 < tables.runs.size() &&
             tables.runs[at(life.last) + 1].group_size == 0) {
        ++life.last;
      }
    }
  }
  return of_frame;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

std::int32_t most_in_flight(const std::vector<Lifetime>& contents) {
  std::int32_t most = 1;
  for (const Lifetime& one : contents) {
    std::int32_t count = 0;
    for (const Lifetime& other : contents) {
      count += other.first <= one.first && one.first <= other.last ? 1 : 0;
    }
    most = std::max(most, count);
  }
  return most;
}

std::vector<bool> host_frames(const ProgramTables& tables) {
  std::vector<bool> host(tables.frames.size(), false);
  for (const Channel& channel : tables.channels) {
    if (channel.from_host || channel.to_host) host[at(channel.frame)] = true;
  }
  return host;
}

struct Block1D {
  std::int64_t begin = 0, end = 0;
  Lifetime life;
};

class Packer {
 public:
  std::int64_t place(std::int64_t size, const Lifetime& life) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Block1D& block : blocks_) {
      if (overlap(block.life, life)) taken.push_back({block.begin, block.end});
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t begin = 0;
    for (const auto& [from, to] : taken) {
      if (begin + size <= from) break;
      begin = std::max(begin, to);
    }
    blocks_.push_back({begin, begin + size, life});
    end_ = std::max(end_, begin + size);
    return begin;
  }
  std::int64_t end() const { return end_; }

 private:
  std::vector<Block1D> blocks_;
  std::int64_t end_ = 0;
};

void set_slots(FrameBinding& binding, const std::vector<std::int64_t>& offset_of_content) {
  binding.slot_offsets.clear();
  binding.slot_of_content.clear();
  std::map<std::int64_t, std::int32_t> slot_at;
  for (const std::int64_t offset : offset_of_content) {
    const auto [found, is_new] =
        slot_at.emplace(offset, static_cast<std::int32_t>(binding.slot_offsets.size()));
    if (is_new) binding.slot_offsets.emplace_back(offset);
    binding.slot_of_content.push_back(found->second);
  }
}

void finish_arena(const PhysicalGraph& graph, RankProgram& program) {
  std::int64_t size = 0;
  for (const Instance& instance : program.instances) {
    const Block& block = graph.block_of(instance);
    for (std::size_t f = 0; f < block.frames.size(); ++f) {
      for (const Bytes offset : instance.frames[f].slot_offsets) {
        size = std::max(size, offset.value + block.frames[f].size.value);
      }
    }
  }
  program.arena.size = Bytes(size);
  program.arena.lower_bound = Bytes(size);
  program.arena.peak_by_class.assign(kNumMemoryClasses, Bytes(0));
  program.arena.peak_by_class[static_cast<std::size_t>(MemoryClass::kActivations)] = Bytes(size);
}

}  // namespace

void fit_registers(PhysicalGraph& graph) {
  for (const ProgramId p : graph.programs.keys()) {
    RankProgram& program = graph.programs[p];
    loosen(graph, program);
    for (Instance& instance : program.instances) {
      for (FrameBinding& binding : instance.frames) {
        binding.slot_offsets.assign(binding.slot_of_content.size(), Bytes(0));
      }
    }
    const ProgramTables tables(graph, p);
    const auto lives = lifetimes(tables);
    std::int64_t next = 0;
    for (std::size_t f = 0; f < tables.frames.size(); ++f) {
      const FrameQuota& quota = tables.frames[f];
      Instance& instance = program.instances[quota.instance];
      FrameBinding& binding = instance.frames[at(quota.frame)];
      if (!quota.initially_full) binding.num_registers = most_in_flight(lives[f]);
      const std::int64_t size = graph.block_of(instance).frames[at(quota.frame)].size.value;
      std::vector<std::int64_t> offsets;
      for (std::int32_t k = 0; k < quota.contents_per_step; ++k) {
        if (k == 0 || !quota.initially_full) next += size;
        offsets.push_back(next - size);
      }
      set_slots(binding, offsets);
    }
    finish_arena(graph, program);
  }
}

void share_slots(PhysicalGraph& graph) {
  for (const ProgramId p : graph.programs.keys()) {
    RankProgram& program = graph.programs[p];
    const ProgramTables tables(graph, p);
    const auto lives = lifetimes(tables);
    const std::vector<bool> host = host_frames(tables);
    Packer packer;
    std::vector<std::vector<std::int64_t>> offsets(tables.frames.size());
    const auto size_of_frame = [&](std::size_t f) {
      const FrameQuota& quota = tables.frames[f];
      const Instance& instance = program.instances[quota.instance];
      return graph.block_of(instance).frames[at(quota.frame)].size.value;
    };
    for (std::size_t f = 0; f < tables.frames.size(); ++f) {
      if (host[f] || tables.frames[f].initially_full) continue;
      for (const Lifetime& life : lives[f]) {
        offsets[f].push_back(packer.place(size_of_frame(f), life));
      }
    }
    std::int64_t next = packer.end();
    for (std::size_t f = 0; f < tables.frames.size(); ++f) {
      const FrameQuota& quota = tables.frames[f];
      if (offsets[f].empty()) {
        for (std::int32_t k = 0; k < quota.contents_per_step; ++k) {
          if (k == 0 || !quota.initially_full) next += size_of_frame(f);
          offsets[f].push_back(next - size_of_frame(f));
        }
      }
      set_slots(program.instances[quota.instance].frames[at(quota.frame)], offsets[f]);
    }
    finish_arena(graph, program);
  }
}

void add_guards(PhysicalGraph& graph) {
  for (const ProgramId p : graph.programs.keys()) {
    const std::vector<Guard> guards = missing_guards(graph, p);
    std::vector<Guard>& all = graph.programs[p].guards;
    all.insert(all.end(), guards.begin(), guards.end());
  }
}

}  // namespace sextant::testing
