// The kinds that keep bytes.
#include "core/graphs/views.h"

#include <cstddef>
#include <numeric>

namespace sextant {

bool is_view_kind(std::string_view kind) { return kind == "reshape"; }

bool is_view(const Actor& actor) { return actor.in_place && is_view_kind(actor.kind); }

std::vector<std::int32_t> view_roots(const Block& block) {
  std::vector<std::int32_t> roots(block.registers.size());
  std::iota(roots.begin(), roots.end(), 0);
  for (const Actor& actor : block.actors) {
    if (!is_view(actor)) continue;
    const Operand& in = actor.in[static_cast<std::size_t>(actor.in_place->in)];
    if (in.source != Operand::Source::kRegister) continue;
    const std::int32_t out = actor.out[static_cast<std::size_t>(actor.in_place->out)];
    roots[static_cast<std::size_t>(out)] = roots[static_cast<std::size_t>(in.index)];
  }
  return roots;
}

}  // namespace sextant
