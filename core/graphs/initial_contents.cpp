// Parameters draw from a counter-based generator; loss scales start where they are told
// to, moments and step counters at zero.
#include "core/graphs/initial_contents.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sextant {
namespace {

const Actor& actor_of(const PhysicalGraph& graph, const StateWriter& writer) {
  return graph.block_of(writer.instance).actors[at(writer.actor)];
}

LayoutId layout_of(const PhysicalGraph& graph, const StateWriter& writer, std::size_t output) {
  const std::int32_t reg = actor_of(graph, writer).out[output];
  return graph.block_of(writer.instance).registers[at(reg)].layout;
}

std::string stream_of(const PhysicalGraph& graph, const StateWriter& writer) {
  const Attributes& attributes = actor_of(graph, writer).attributes;
  return attributes.contains("parameter") ? attributes.text("parameter")
                                          : graph.actor_name(writer.instance, writer.actor);
}

}  // namespace

InitialContents::InitialContents(const PhysicalGraph& graph, Rank rank, const StateWriter& writer,
                                 std::size_t output, std::uint64_t seed)
    : InitialContents(shard_of(graph, layout_of(graph, writer, output), rank),
                      graph.layouts[layout_of(graph, writer, output)].global.shape,
                      actor_of(graph, writer).attributes, stream_of(graph, writer), output, seed) {}

InitialContents::InitialContents(const LogicalOp& parameter, const Shape& shape, std::uint64_t seed)
    : InitialContents(shard_of(shape, {}, {}, {}), shape, parameter.attributes, parameter.name, 0,
                      seed) {}

InitialContents::InitialContents(Shard box, Shape global, const Attributes& attributes,
                                 const std::string& stream, std::size_t output, std::uint64_t seed)
    : box_(std::move(box)), global_(std::move(global)), random_(seed, stream) {
  const std::string init =
      output == 0 && attributes.contains("init") ? attributes.text("init") : "zeros";
  if (init == "zeros") constant_ = 0.0;
  if (init == "ones") constant_ = 1.0;
  if (init == "constant") constant_ = attributes.real("init_value");
  if (constant_) return;
  require(init == "normal", ErrorCode::kInternal,
          "parameter '{}': unknown init '{}' (zeros, ones, constant, normal)", stream, init);
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

std::vector<double> initial_contents(const PhysicalGraph& graph, Rank rank,
                                     const StateWriter& writer, std::size_t output,
                                     std::uint64_t seed) {
  const InitialContents contents(graph, rank, writer, output, seed);
  std::vector<double> values(at(contents.elements()));
  contents.fill(0, values);
  return values;
}

}  // namespace sextant
