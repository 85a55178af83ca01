// Fills the box of each rank element by element.
#include "tests/conformance/training/synthetic_host.h"

#include "core/base/elements.h"

namespace sextant {
namespace {

// Index of a local element in the whole input, of all samples there ever are.
std::uint64_t index_in_stream(std::int64_t local, const Shard& box, const Shape& global,
                              std::int64_t first_sample) {
  std::int64_t index = 0, stride = 1;
  for (std::size_t dim = global.rank(); dim-- > 0;) {
    const std::int64_t first = dim == 0 ? first_sample : 0;
    index += (first + box.dims[dim].offset + local % box.dims[dim].extent) * stride;
    local /= box.dims[dim].extent;
    stride *= global[dim];
  }
  return static_cast<std::uint64_t>(index);
}

double value_at(const CounterRng& random, std::uint64_t index, DType dtype,
                const Attributes& attributes) {
  if (is_floating(dtype)) return random.normal(index);
  const std::uint64_t draw = random.bits(index) >> 33;
  if (attributes.contains("ignore_index") && draw % 5 == 0)
    return static_cast<double>(attributes.integer("ignore_index"));
  const std::int64_t limit = attributes.contains("limit") ? attributes.integer("limit") : 2;
  return static_cast<double>(draw / 5 % static_cast<std::uint64_t>(limit));
}

}  // namespace

SyntheticHost::SyntheticHost(std::uint64_t seed)
    : seed_(seed), no_tokens_({}), metrics_(no_tokens_, seed) {}

void SyntheticHost::act(const HostAct& act) {
  if (act.actor->kind == "input")
    fill(act);
  else
    metrics_.act(act);
}

void SyntheticHost::fill(const HostAct& act) const {
  const Block& block = act.graph->block_of(*act.instance);
  const Register& reg = block.registers[static_cast<std::size_t>(act.actor->out.front())];
  const Shape& global = act.graph->layouts[reg.layout].global.shape;
  const Shard box = shard_of(*act.graph, reg.layout, act.rank);
  const std::int64_t first_sample =
      (act.step * act.instance->acts_per_step + act.act) * (global.rank() > 0 ? global[0] : 1);
  const CounterRng random(seed_, act.actor->name);
  std::vector<double> values(static_cast<std::size_t>(box.local_shape().elements()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        value_at(random, index_in_stream(static_cast<std::int64_t>(i), box, global, first_sample),
                 reg.local.dtype, act.actor->attributes);
  store_from_double(reg.local.dtype, values, act.outputs.front().data());
}

}  // namespace sextant
