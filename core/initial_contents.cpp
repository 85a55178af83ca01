// Parameters draw from a counter-based generator; loss scales start where they are told
// to, moments and step counters at zero.
#include "core/initial_contents.h"

#include "core/check.h"
#include "core/counter_rng.h"

namespace sextant {

std::vector<double> initial_contents(const PhysicalGraph& graph, Rank rank, const Register& reg,
                                     const Actor& writer, std::size_t output, std::uint64_t seed) {
  const Shard box = shard_of(graph, reg.layout, rank);
  std::vector<double> values(static_cast<std::size_t>(box.local_shape().elements()), 0.0);
  const Attributes& attributes = writer.attributes;
  const std::string init =
      output == 0 && attributes.contains("init") ? attributes.text("init") : "zeros";
  if (init == "ones") values.assign(values.size(), 1.0);
  if (init == "constant") values.assign(values.size(), attributes.real("init_value"));
  if (init == "ones" || init == "zeros" || init == "constant") return values;
  require(init == "normal", ErrorCode::kInternal,
          "parameter '{}': unknown init '{}' (zeros, ones, constant, normal)", writer.name, init);
  const double deviation = attributes.real("init_std");
  const CounterRng random(
      seed, attributes.contains("parameter") ? attributes.text("parameter") : writer.name);
  const Shape& global = graph.layouts[reg.layout.index()].global.shape;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = deviation * random.normal(static_cast<std::uint64_t>(
                                global_index(static_cast<std::int64_t>(i), global, box)));
  return values;
}

}  // namespace sextant
