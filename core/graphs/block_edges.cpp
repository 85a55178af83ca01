// Who reads what inside a block.
#include "core/graphs/block_edges.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {

void add_edges_of_operands(Block& block) {
  for (std::size_t a = 0; a < block.actors.size(); ++a) {
    const auto actor = static_cast<std::int32_t>(a);
    const std::vector<Operand>& in = block.actors[a].in;
    for (auto read = in.begin(); read != in.end(); ++read) {
      if (read->index < 0 || std::find(in.begin(), read, *read) != read) continue;
      const std::size_t index = at(read->index);
      if (read->source == Operand::Source::kPort) {
        if (index < block.ports.size()) block.ports[index].readers.push_back(actor);
      } else if (index < block.registers.size()) {
        block.edges.push_back({.from_register = read->index, .to_actor = actor});
      }
    }
  }
}

}  // namespace sextant
