// Element by element, by its index in the global batch.
#include "io/synthetic_data.h"

#include "core/base/check.h"
#include "core/base/counter_rng.h"
#include "core/base/parallel.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kElementsOfTask = std::int64_t{1} << 18;

// What one act of one rank fills: a box of the micro-batch, whose elements follow those of the
// micro-batches before it in the step.
struct Wanted {
  const Actor& input;
  DType dtype;
  Shape global;
  Shard box;
  std::int64_t first_element = 0;
  std::int64_t limit = 0;
};

Wanted wanted_by(const HostAct& act) {
  const Actor& input = *act.actor;
  const Block& block = act.graph->block_of(*act.instance);
  const Register& reg = block.registers[static_cast<std::size_t>(input.out.front())];
  const Shape& global = act.graph->layouts[reg.layout].global.shape;
  const std::int64_t limit = input.attributes.integer_or("limit", 2);
  require(limit >= 1, ErrorCode::kBadInput, "input '{}': limit {}, wanted 1 or more", input.name,
          limit);
  return {.input = input,
          .dtype = reg.local.dtype,
          .global = global,
          .box = shard_of(*act.graph, reg.layout, act.rank),
          .first_element = act.act * global.elements(),
          .limit = limit};
}

std::vector<std::int64_t> numbers_of(const Wanted& wanted) {
  std::vector<std::int64_t> numbers = {static_cast<std::int64_t>(wanted.dtype), wanted.limit,
                                       wanted.first_element};
  for (std::size_t dim = 0; dim < wanted.global.rank(); ++dim) {
    const Interval& part = wanted.box.dims[dim];
    numbers.insert(numbers.end(), {wanted.global[dim], part.offset, part.extent});
  }
  return numbers;
}

template <typename Element, typename Draw>
void draw_elements(const Wanted& wanted, const Draw& draw, std::span<std::byte> bytes) {
  const std::int64_t count = wanted.box.elements();
  require(bytes.size() == static_cast<std::size_t>(count) * sizeof(Element), ErrorCode::kInternal,
          "input '{}': a register of {} bytes for {} elements", wanted.input.name, bytes.size(),
          count);
  const std::int64_t tasks = (count + kElementsOfTask - 1) / kElementsOfTask;
  for_each_in_parallel(static_cast<std::size_t>(tasks), [&](std::size_t task) {
    const std::int64_t first = static_cast<std::int64_t>(task) * kElementsOfTask;
    for (std::int64_t i = first; i < std::min(count, first + kElementsOfTask); ++i) {
      const std::int64_t index = wanted.first_element + global_index(i, wanted.global, wanted.box);
      const auto value = static_cast<Element>(draw(static_cast<std::uint64_t>(index)));
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(Element), &value,
                  sizeof(Element));
    }
  });
}

void draw(const Wanted& wanted, std::uint64_t seed, std::span<std::byte> bytes) {
  const CounterRng random(seed, "data of " + wanted.input.name);
  const auto id = [&](std::uint64_t index) {
    return random.bits(index) % static_cast<std::uint64_t>(wanted.limit);
  };
  const auto byte = [&](std::uint64_t index) { return random.bits(index) >> 56; };
  const auto normal = [&](std::uint64_t index) { return random.normal(index); };
  switch (wanted.dtype) {
    case DType::kU8:
      return draw_elements<std::uint8_t>(wanted, byte, bytes);
    case DType::kI32:
      return draw_elements<std::int32_t>(wanted, id, bytes);
    case DType::kI64:
      return draw_elements<std::int64_t>(wanted, id, bytes);
    case DType::kF32:
      return draw_elements<float>(wanted, normal, bytes);
    case DType::kF64:
      return draw_elements<double>(wanted, normal, bytes);
    case DType::kBF16:
    case DType::kF16:
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
      break;
  }
  fail(ErrorCode::kBadInput,
       "input '{}' is {}: data comes as u8, f32, f64, i32 or i64; cast it in the graph",
       wanted.input.name, to_string(wanted.dtype));
}

}  // namespace

void SyntheticData::fill(const HostAct& act) {
  const std::span<std::byte> bytes = act.outputs.front();
  const bool is_there = act.kept_steps > 0 && act.step >= act.kept_steps;
  if (bytes.empty() || is_there) return;
  const Wanted wanted = wanted_by(act);
  Part* const part = part_of({wanted.input.name, numbers_of(wanted)}, Bytes(std::ssize(bytes)));
  if (part == nullptr) return draw(wanted, seed_, bytes);
  std::call_once(part->drawn, [&] {
    part->bytes.resize(bytes.size());
    draw(wanted, seed_, part->bytes);
  });
  std::memcpy(bytes.data(), part->bytes.data(), bytes.size());
}

SyntheticData::Part* SyntheticData::part_of(Key key, Bytes size) {
  const std::lock_guard lock(mutex_);
  if (const auto found = parts_.find(key); found != parts_.end()) return &found->second;
  if (size > room_ - kept_) return nullptr;
  kept_ += size;
  return &parts_[std::move(key)];
}

Bytes SyntheticData::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace sextant
