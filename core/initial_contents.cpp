// Parameters draw from a counter-based generator; loss scales start where they are told
// to, moments and step counters at zero.
#include "core/initial_contents.h"

#include "core/check.h"

#include <algorithm>
#include <string>

namespace sextant {
namespace {

std::string stream_of(const Actor& writer) {
  return writer.attributes.contains("parameter") ? writer.attributes.text("parameter")
                                                 : writer.name;
}

}  // namespace

InitialContents::InitialContents(const PhysicalGraph& graph, Rank rank, const Register& reg,
                                 const Actor& writer, std::size_t output, std::uint64_t seed)
    : box_(shard_of(graph, reg.layout, rank)),
      global_(graph.layouts[reg.layout.index()].global.shape),
      random_(seed, stream_of(writer)) {
  const Attributes& attributes = writer.attributes;
  const std::string init =
      output == 0 && attributes.contains("init") ? attributes.text("init") : "zeros";
  if (init == "zeros") constant_ = 0.0;
  if (init == "ones") constant_ = 1.0;
  if (init == "constant") constant_ = attributes.real("init_value");
  if (constant_) return;
  require(init == "normal", ErrorCode::kInternal,
          "parameter '{}': unknown init '{}' (zeros, ones, constant, normal)", writer.name, init);
  deviation_ = attributes.real("init_std");
}

void InitialContents::fill(std::int64_t first, std::span<double> values) const {
  if (constant_) {
    std::fill(values.begin(), values.end(), *constant_);
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = deviation_ * random_.normal(static_cast<std::uint64_t>(global_index(
                                 first + static_cast<std::int64_t>(i), global_, box_)));
}

std::vector<double> initial_contents(const PhysicalGraph& graph, Rank rank, const Register& reg,
                                     const Actor& writer, std::size_t output, std::uint64_t seed) {
  const InitialContents contents(graph, rank, reg, writer, output, seed);
  std::vector<double> values(static_cast<std::size_t>(contents.elements()));
  contents.fill(0, values);
  return values;
}

}  // namespace sextant
