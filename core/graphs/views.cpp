// The kinds that keep bytes.
#include "core/graphs/views.h"

#include "core/base/at.h"

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
    const Operand& in = at(actor.in, actor.in_place->in);
    if (in.source != Operand::Source::kRegister) continue;
    const std::int32_t out = at(actor.out, actor.in_place->out);
    at(roots, out) = at(roots, in.index);
  }
  return roots;
}

}  // namespace sextant
