// Asks the models once per actor of each block.
#include "compiler/expand/durations.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {

DurationTable::DurationTable(const PhysicalGraph& graph, const BlockForms& forms,
                             const BlockTable& blocks, std::span<const ProgramClass> classes,
                             const GroupTable& groups, const CostModel& cost,
                             const NetworkModel& network, MovedSizes& sizes)
    : by_form_(forms.ids().size()) {
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::vector<GroupId> group_of_role =
        groups.groups_of_member(classes[c].stage, classes[c].members.front());
    for (const FormId form : forms.ids()) {
      if (forms.stage_of(form) != classes[c].stage) continue;
      const Block& block = graph.blocks[blocks.block_of[c][form]];
      std::vector<Duration>& durations = by_form_[form];
      durations.resize(block.actors.size());
      for (std::size_t a = 0; a < block.actors.size(); ++a) {
        const Actor& actor = block.actors[a];
        if (actor.queue == QueueRole::kHost) continue;
        Duration duration;
        if (actor.communication) {
          const DeviceGroup& group = graph.groups[at(group_of_role, actor.communication->group)];
          duration = network.duration(sizes.cost(graph, *actor.communication, group.ranks));
        } else {
          duration = cost.duration(actor.work);
        }
        durations[a] = std::max(durations[a], duration);
      }
    }
  }
}

}  // namespace sextant
