// Rules M: slots of frames and the arena. Whether uses of the same bytes are ordered is not decided
// here (actor/bytes/byte_order.h).
#include "core/validator/findings.h"

#include <algorithm>

namespace sextant::validator {
namespace {

void check_slots(const RankProgram& program, const Instance& instance, const Frame& frame,
                 const FrameBinding& binding, Findings& findings) {
  const std::int32_t contents = contents_per_step(instance, frame);
  findings.expect(binding.slot_of_content.size() == static_cast<std::size_t>(contents), "M1",
                  "program '{}', instance '{}': {} contents per step, but slots for {}",
                  program.name, instance.name, contents, binding.slot_of_content.size());
  const auto slots = static_cast<std::int32_t>(binding.slot_offsets.size());
  for (const std::int32_t slot : binding.slot_of_content)
    findings.expect(slot >= 0 && slot < slots, "M2",
                    "program '{}', instance '{}': a content lives in slot {} of {}", program.name,
                    instance.name, slot, slots);
  for (const Bytes offset : binding.slot_offsets) {
    findings.expect(offset.value % kBufferAlignment == 0, "M3",
                    "program '{}', instance '{}': a slot at byte {}, not at a multiple of {}",
                    program.name, instance.name, offset.value, kBufferAlignment);
    findings.expect(offset + frame.size <= program.arena.size, "M4",
                    "program '{}', instance '{}': a slot of {} bytes at byte {} of an arena of {}",
                    program.name, instance.name, frame.size.value, offset.value,
                    program.arena.size.value);
  }
  if (frame.initially_full)
    findings.expect(binding.num_registers == 1 && slots == 1, "M5",
                    "program '{}', instance '{}': state with {} registers in {} slots, wanted one",
                    program.name, instance.name, binding.num_registers, slots);
}

void check_arena(const RankProgram& program, Findings& findings) {
  const ArenaPlan& arena = program.arena;
  findings.expect(arena.lower_bound <= arena.size, "M6",
                  "program '{}': an arena of {} bytes cannot hold {} live bytes", program.name,
                  arena.size.value, arena.lower_bound.value);
  findings.expect(arena.peak_by_class.size() == kNumMemoryClasses, "M7",
                  "program '{}': {} memory peaks for {} classes", program.name,
                  arena.peak_by_class.size(), kNumMemoryClasses);
}

}  // namespace

void check_memory(const PhysicalGraph& graph, Findings& findings) {
  for (const RankProgram& program : graph.programs) {
    for (const Instance& instance : program.instances) {
      const Block& block = graph.block_of(instance);
      for (std::size_t frame = 0; frame < block.frames.size(); ++frame)
        check_slots(program, instance, block.frames[frame], instance.frames[frame], findings);
    }
    check_arena(program, findings);
  }
}

}  // namespace sextant::validator
