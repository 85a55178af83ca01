// All outputs at once, input by input.
#include "simulator/modes/recurring/max_plus.h"

namespace sextant {
namespace {

// Outputs stay in registers while the inputs pass.
template <std::ptrdiff_t kVectors>
void apply_to(const std::int64_t* delays, const std::int64_t* in, std::int32_t num_inputs,
              std::int64_t* out) {
  Lanes value[kVectors];
  for (std::ptrdiff_t v = 0; v < kVectors; ++v) value[v] = lanes_at(delays + v * kLanes) + in[0];
  for (std::int32_t i = 1; i < num_inputs; ++i) {
    delays += kVectors * kLanes;
    for (std::ptrdiff_t v = 0; v < kVectors; ++v) {
      const Lanes other = lanes_at(delays + v * kLanes) + in[i];
      value[v] = value[v] > other ? value[v] : other;
    }
  }
  for (std::ptrdiff_t v = 0; v < kVectors; ++v) lanes_at(out + v * kLanes) = value[v];
}

SEXTANT_FOR_EACH_VECTOR_WIDTH
void apply_map(const std::int64_t* delays, const std::int64_t* in, std::int32_t num_inputs,
               std::ptrdiff_t num_outputs, std::int64_t* out) {
  const std::ptrdiff_t stride = padded_to_lanes(num_outputs);
  switch (stride / kLanes) {
    case 1:
      return apply_to<1>(delays, in, num_inputs, out);
    case 2:
      return apply_to<2>(delays, in, num_inputs, out);
    case 3:
      return apply_to<3>(delays, in, num_inputs, out);
    default:
      for (std::ptrdiff_t r = 0; r < stride; r += kLanes) {
        Lanes value = lanes_at(delays + r) + in[0];
        for (std::int32_t i = 1; i < num_inputs; ++i) {
          const Lanes other = lanes_at(delays + i * stride + r) + in[i];
          value = value > other ? value : other;
        }
        lanes_at(out + r) = value;
      }
  }
}

}  // namespace

MaxPlusMaps::Map MaxPlusMaps::add(std::span<const std::int64_t> rows, std::int32_t num_inputs,
                                  std::int32_t num_outputs) {
  const Map map{delays_.size(), num_inputs, num_outputs};
  const auto inputs = static_cast<std::size_t>(num_inputs);
  const auto outputs = static_cast<std::size_t>(num_outputs);
  const auto stride = static_cast<std::size_t>(padded_to_lanes(num_outputs));
  delays_.resize(delays_.size() + inputs * stride, kNever);
  for (std::size_t r = 0; r < outputs; ++r)
    for (std::size_t i = 0; i < inputs; ++i)
      delays_[map.first_delay + i * stride + r] = rows[r * inputs + i];
  return map;
}

void MaxPlusMaps::apply(const Map& map, const std::int64_t* in, std::int64_t* out) const {
  apply_map(delays_.data() + map.first_delay, in, map.num_inputs, map.num_outputs, out);
}

}  // namespace sextant
