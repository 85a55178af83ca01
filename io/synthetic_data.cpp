// Element by element, by its index in the whole stream of samples.
#include "io/synthetic_data.h"

#include "core/check.h"
#include "core/counter_rng.h"

#include <cstring>
#include <vector>

namespace sextant {
namespace {

// The box of one rank and where it begins among all samples of the training.
struct Part {
  Shape global;
  Shard box;
  std::int64_t first_element = 0;  // of the micro-batch
};

Part part_of(const HostAct& act, const Register& reg) {
  const Shape& global = act.graph->layouts[reg.layout.index()].global.shape;
  const std::int64_t acts_before = act.step * act.instance->acts_per_step + act.act;
  return {.global = global,
          .box = shard_of(*act.graph, reg.layout, act.rank),
          .first_element = acts_before * global.elements()};
}

template <typename Element, typename Draw>
void fill(const Part& part, std::span<std::byte> bytes, const Draw& draw) {
  std::vector<Element> values(static_cast<std::size_t>(part.box.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t index = global_index(static_cast<std::int64_t>(i), part.global, part.box);
    values[i] = static_cast<Element>(draw(static_cast<std::uint64_t>(part.first_element + index)));
  }
  require(bytes.size() == values.size() * sizeof(Element), ErrorCode::kInternal,
          "{} bytes for {} elements of {}", bytes.size(), values.size(), sizeof(Element));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
}

}  // namespace

void fill_with_synthetic_data(const HostAct& act, std::uint64_t seed) {
  const Actor& input = *act.actor;
  const std::span<std::byte> bytes = act.outputs.front();
  if (bytes.empty()) return;
  const Block& block = act.graph->block_of(*act.instance);
  const Register& reg = block.registers[static_cast<std::size_t>(input.out.front())];
  const Part part = part_of(act, reg);
  const CounterRng random(seed, "data of " + input.name);
  const std::int64_t limit = input.attributes.integer_or("limit", 2);
  require(limit >= 1, ErrorCode::kBadInput, "input '{}': limit {}, wanted 1 or more", input.name,
          limit);
  const auto id = [&](std::uint64_t index) {
    return random.bits(index) % static_cast<std::uint64_t>(limit);
  };
  const auto normal = [&](std::uint64_t index) { return random.normal(index); };
  switch (reg.local.dtype) {
    case DType::kI32:
      return fill<std::int32_t>(part, bytes, id);
    case DType::kI64:
      return fill<std::int64_t>(part, bytes, id);
    case DType::kF32:
      return fill<float>(part, bytes, normal);
    case DType::kF64:
      return fill<double>(part, bytes, normal);
    case DType::kBF16:
    case DType::kF16:
    case DType::kBool:
      fail(ErrorCode::kBadInput,
           "input '{}' is {}: data comes as f32, f64, i32 or i64; cast it in the graph", input.name,
           to_string(reg.local.dtype));
  }
}

}  // namespace sextant
