// Blocks where they are proven, the tape where they are not.
#include "simulator/modes/prepared_blocks.h"

#include "core/base/check.h"
#include "simulator/modes/recurring/block_evaluation.h"
#include "simulator/modes/tape_mode.h"

#include <map>

namespace sextant {
namespace {

void require_blocks(const SimulateOptions& options) {
  require(options.jitter == 0, ErrorCode::kUsage,
          "jitter {}: in block mode all launches of one kind last equally long; use tape mode",
          options.jitter);
}

SimulateOptions by_tape(SimulateOptions options) {
  validate(options);
  require_blocks(options);
  options.mode = SimulationMode::kTape;
  return options;
}

std::vector<std::int32_t> colours_of_places(const Tape& tape, const CostModel& cost) {
  std::vector<std::int32_t> colours;
  for (const Rank rank : tape.ranks) colours.push_back(cost.colour_of(rank));
  return colours;
}

}  // namespace

PreparedBlocks::PreparedBlocks(const ProvenGraph& proven, const CostModel& cost,
                               const NetworkModel& network, const SimulateOptions& options)
    : proven_(proven),
      prepared_(proven, cost, network, by_tape(options)),
      colours_(colours_of_places(prepared_.tape(), cost)),
      blocks_(std::make_unique<const BlockTape>(prepared_.flat(), proven.graph(), colours_,
                                                options.window)) {}

PreparedBlocks::PreparedBlocks(const PhysicalGraph& graph, const CostModel& cost,
                               const NetworkModel& network, const SimulateOptions& options)
    : PreparedBlocks(ProvenGraph(graph), cost, network, options) {}

// Ranks of a class have one colour, and so have classes that had one: they share blocks.
void PreparedBlocks::require_same_colours(const CostModel& cost) const {
  const RankClasses& classes = prepared_.classes();
  const std::vector<std::int32_t> now = colours_of_places(prepared_.tape(), cost);
  std::map<std::int32_t, std::int32_t> became;
  bool is_same = true;
  for (std::size_t place = 0; place < now.size(); ++place)
    is_same = is_same && became.emplace(colours_[place], now[place]).first->second == now[place];
  for (std::size_t rank = 0; rank < classes.class_of.size(); ++rank)
    is_same = is_same &&
              cost.colour_of(Rank(rank)) == now[static_cast<std::size_t>(classes.class_of[rank])];
  require(is_same, ErrorCode::kUsage,
          "this cost model tells other ranks apart than the one that the blocks were cut with");
}

PreparedBlocks::StepEnds PreparedBlocks::step_ends(const CostModel& cost,
                                                   const NetworkModel& network,
                                                   std::int64_t steps) const {
  require(network.completes_together(), ErrorCode::kUsage,
          "block mode wants a network whose members complete together; use tape mode");
  require_same_colours(cost);
  const std::vector<Duration> durations = block_durations(*blocks_, proven_.graph(), cost, network);
  std::optional<std::vector<Time>> ends =
      evaluate_blocks(*blocks_, durations, cost.launch_cost(), steps);
  if (ends) return {std::move(*ends), false};
  TapeOptions options;
  options.steps = steps;
  options.window = blocks_->window;
  return {evaluate(prepared_.flat(), entry_durations(prepared_.tape(), proven_.graph(), cost), cost,
                   network, options)
              .step_end,
          true};
}

Timeline PreparedBlocks::timeline(const CostModel& cost, const NetworkModel& network,
                                  const SimulateOptions& options) const {
  require(options.window == blocks_->window, ErrorCode::kUsage,
          "a window of {} launches: the blocks were cut for {}", options.window, blocks_->window);
  Timeline timeline = prepared_.timeline(cost, network, by_tape(options));
  StepEnds ends = step_ends(cost, network, options.steps);
  if (ends.step_end != timeline.step_end)
    fail(ErrorCode::kInternal, "blocks and tape disagree on when steps end");
  timeline.blocks = use(ends.fell_back);
  return timeline;
}

BlockUse PreparedBlocks::use(bool fell_back) const {
  BlockUse use;
  use.kinds = blocks_->num_kinds();
  use.instances = static_cast<std::int64_t>(blocks_->instances.size());
  use.launches_outside = static_cast<std::int64_t>(blocks_->loose.size());
  use.fell_back = fell_back;
  return use;
}

}  // namespace sextant
