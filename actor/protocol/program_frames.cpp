// Frames of all instances, and the one writer of every register.
#include "actor/protocol/program_parts.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

void add_frame(const ProgramSource& source, InstanceId id, std::size_t f, ProgramTables& tables) {
  const Instance& instance = source.program.instances[id];
  const Frame& frame = source.graph.block_of(instance).frames[f];
  const FrameBinding& binding = instance.frames[f];
  const auto slots = static_cast<std::int32_t>(binding.slot_offsets.size());
  const std::int32_t acts = instance.acts_per_step;
  require(frame.acts_per_content >= 1 && acts % frame.acts_per_content == 0, kBadProgram,
          "instance '{}' frame {}: {} acts per step do not fill contents of {} acts", instance.name,
          f, acts, frame.acts_per_content);
  FrameQuota quota;
  quota.instance = id;
  quota.frame = static_cast<std::int32_t>(f);
  quota.num_registers = binding.num_registers;
  quota.acts_per_content = frame.acts_per_content;
  quota.contents_per_step = acts / frame.acts_per_content;
  quota.initially_full = frame.initially_full;
  require(quota.num_registers >= 1, kBadProgram,
          "instance '{}' frame {}: {} registers, wanted 1 or more", instance.name, f,
          quota.num_registers);
  require(binding.slot_of_content.size() == at(quota.contents_per_step), kBadProgram,
          "instance '{}' frame {}: slots for {} contents, it has {} per step", instance.name, f,
          binding.slot_of_content.size(), quota.contents_per_step);
  for (const std::int32_t slot : binding.slot_of_content) {
    require(slot >= 0 && slot < slots, kBadProgram, "instance '{}' frame {}: slot {} of {}",
            instance.name, f, slot, slots);
  }
  quota.ring = tables.num_frame_counters;
  tables.num_frame_counters += quota.num_registers;
  tables.frames.push_back(quota);
}

void find_writers(const ProgramSource& source, const ActorNumbers& numbers, InstanceId id,
                  Writers& writers) {
  const Block& block = source.block(id);
  const std::size_t first = writers.of_register.size();
  writers.first_register.push_back(static_cast<std::int32_t>(first));
  writers.of_register.resize(first + block.registers.size(), -1);
  for (std::size_t a = 0; a < block.actors.size(); ++a) {
    for (const std::int32_t reg : block.actors[a].out) {
      require(holds(block.registers, reg), kBadProgram, "block '{}': actor '{}' writes register {}",
              block.name, block.actors[a].name, reg);
      std::int32_t& writer = writers.of_register[first + at(reg)];
      require(writer < 0, kBadProgram, "block '{}': register '{}' has two writers", block.name,
              block.registers[at(reg)].name);
      writer = static_cast<std::int32_t>(a);
      require(holds(block.frames, block.registers[at(reg)].frame), kBadProgram,
              "block '{}': register '{}' has no frame", block.name, block.registers[at(reg)].name);
      writers.written.push_back({numbers.site_of_actor[at(numbers.first_actor[id]) + a],
                                 numbers.first_frame[id] + block.registers[at(reg)].frame});
    }
  }
  for (std::size_t r = 0; r < block.registers.size(); ++r) {
    require(writers.of_register[first + r] >= 0, kBadProgram,
            "block '{}': register '{}' has no writer", block.name, block.registers[r].name);
  }
}

}  // namespace

Writers add_frames(const ProgramSource& source, const ActorNumbers& numbers,
                   ProgramTables& tables) {
  Writers writers;
  for (const InstanceId i : source.program.instances.keys()) {
    const InstanceId id(i);
    for (std::size_t f = 0; f < source.block(id).frames.size(); ++f)
      add_frame(source, id, f, tables);
    find_writers(source, numbers, id, writers);
  }
  std::sort(writers.written.begin(), writers.written.end());
  writers.written.erase(std::unique(writers.written.begin(), writers.written.end()),
                        writers.written.end());
  return writers;
}

}  // namespace sextant
