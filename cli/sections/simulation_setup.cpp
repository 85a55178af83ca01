// Arguments to options.
#include "cli/sections/simulation_setup.h"

#include "cli/sections/variation_section.h"
#include "core/base/check.h"
#include "io/gzip.h"
#include "simulator/costs/overlap.h"
#include "simulator/links/flow_model.h"

#include <set>
#include <string>
#include <utility>

namespace sextant {
namespace {

template <typename Item, typename Key>
void require_each_once(const std::vector<Item>& items, const char* option, Key key,
                       const std::string& instead) {
  std::set<std::string> seen;
  for (const Item& item : items)
    require(seen.insert(key(item)).second, ErrorCode::kUsage, "{} is given twice for {}{}", option,
            key(item), instead);
}

void require_sense(const SimulateArguments& arguments) {
  require_different_files({{"the plan", arguments.job.plan_or_model},
                           {"--cluster", arguments.job.cluster},
                           {"--trace", arguments.trace},
                           {"--timeline", arguments.timeline},
                           {"--plot", arguments.plot}});
  require(arguments.plot.empty() || !arguments.sweep.empty(), ErrorCode::kUsage,
          "--plot {} has nothing to draw without --sweep", arguments.plot);
  require(!arguments.trace.ends_with(".gz") || can_gzip(), ErrorCode::kUsage,
          "--trace {}: this sextant was built without zlib", arguments.trace);
  require(arguments.samples >= 0 && arguments.samples <= 100'000, ErrorCode::kUsage,
          "{} samples: 1 to 100000", arguments.samples);
  require(arguments.samples == 0 || arguments.jitter > 0, ErrorCode::kUsage,
          "--samples {}: steps are all alike without --jitter", arguments.samples);
  require(arguments.mode != "block" || arguments.jitter == 0, ErrorCode::kUsage,
          "--jitter {}: in block mode all launches of one kind last equally long; use --mode tape",
          arguments.jitter);
  require(!arguments.critical_path || arguments.mode != "timed", ErrorCode::kUsage,
          "--critical-path: in timed mode a launch may delay another without a wait between them; "
          "use --mode tape");
}

// A slow device that the plan leaves idle would change nothing.
void require_used(const std::vector<Straggler>& stragglers, std::int64_t ranks) {
  for (const Straggler& straggler : stragglers)
    require(straggler.rank.value < ranks, ErrorCode::kUsage,
            "straggler {}: the plan has ranks 0 to {}", straggler.rank.value, ranks - 1);
}

SimulationMode mode_of(const std::string& name) {
  if (name == "timed") return SimulationMode::kTimed;
  if (name == "block") return SimulationMode::kBlock;
  return name == "step" ? SimulationMode::kStep : SimulationMode::kTape;
}

// Each change alone, and all changes together.
void require_possible(const SimulationSetup& setup, const Cluster& cluster) {
  for (const WhatIf& change : setup.sweep) changed(cluster, change);
  for (const WhatIf& change : setup.changes) changed(cluster, change);
  Cluster all = cluster;
  for (const WhatIf& change : setup.changes) all = changed(all, change);
}

}  // namespace

SimulationSetup simulation_setup(const SimulateArguments& arguments, const CommonOptions& common,
                                 const Cluster& cluster, std::int64_t ranks) {
  require_sense(arguments);
  SimulationSetup setup;
  SimulateOptions& options = setup.options;
  options.mode = mode_of(arguments.mode);
  setup.links = arguments.links;
  if (!arguments.routing.empty()) setup.routing = parse_expert_routing(arguments.routing);
  options.folded = !arguments.unfolded && arguments.jitter == 0;
  options.keep_slices = !arguments.trace.empty();
  options.jitter = arguments.jitter;
  options.seed = common.seed;
  if (arguments.samples > 0) options.steps = arguments.samples + kWarmUpSteps;
  for (const std::string& text : arguments.stragglers)
    setup.stragglers.push_back(parse_straggler(text));
  require_used(setup.stragglers, ranks);
  for (const std::string& text : arguments.what_if) setup.changes.push_back(parse_what_if(text));
  if (!arguments.sweep.empty()) setup.sweep = parse_sweep(arguments.sweep);
  require_each_once(
      setup.stragglers, "--straggler",
      [](const Straggler& it) { return fmt::format("rank {}", it.rank.value); }, "");
  require_each_once(
      setup.changes, "--what-if", [](const WhatIf& change) { return change.key; },
      ": together they would multiply; --sweep KEY=2x,4x compares several values");
  require_possible(setup, cluster);
  if (!arguments.failures.empty()) setup.reliability = parse_reliability(arguments.failures, ranks);
  options = options_for(setup, cluster);
  return setup;
}

TimingModels models_for(const SimulationSetup& setup, const Cluster& cluster, DType dtype) {
  TimingModels models = make_timing_models(cluster, dtype);
  if (!setup.stragglers.empty()) models.cost = make_ranked_costs(cluster, dtype, setup.stragglers);
  if (setup.options.mode == SimulationMode::kTimed || setup.links)
    models.network = make_flow_network(cluster, std::move(models.network));
  if (setup.routed != nullptr)
    models.network = make_routed_network(*setup.routed, std::move(models.network));
  return models;
}

SimulateOptions options_for(const SimulationSetup& setup, const Cluster& cluster) {
  SimulateOptions options = setup.options;
  if (options.mode == SimulationMode::kTimed) options.overlap = overlap_shares(cluster);
  return options;
}

}  // namespace sextant
