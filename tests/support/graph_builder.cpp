// The builder of test graphs and graphs made with it.
#include "tests/support/graph_builder.h"

#include "tests/support/graph_files.h"

#include <algorithm>
#include <utility>

namespace sextant::testing {
namespace {

TensorType local_type(const PhysicalGraph& graph, LayoutId id) {
  const Layout& layout = graph.layouts[id];
  const Placement& placement = graph.placements[layout.placement];
  const Shard shard = shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                               placement.coordinates_of(0));
  return {.shape = shard.local_shape(), .dtype = layout.global.dtype};
}

bool may_join(const Actor& previous, const Actor& next) {
  return previous.queue == next.queue && !previous.communication && !next.communication;
}

}  // namespace

BlockBuilder::BlockBuilder(GraphBuilder& graph, std::string name, Phase phase) : graph_(&graph) {
  block_.name = std::move(name);
  block_.phase = phase;
}

std::int32_t BlockBuilder::frame(const FrameOptions& options) {
  block_.frames.push_back({.size = Bytes(0),
                           .memory = options.memory,
                           .region = Region::kPrivate,
                           .acts_per_content = options.acts_per_content,
                           .initially_full = options.initially_full});
  return static_cast<std::int32_t>(block_.frames.size()) - 1;
}

std::int32_t BlockBuilder::reg(std::string name, LayoutId layout, std::int32_t frame) {
  Frame& home = block_.frames[static_cast<std::size_t>(frame)];
  const TensorType local = local_type(graph_->graph(), layout);
  block_.registers.push_back({.name = std::move(name),
                              .layout = layout,
                              .local = local,
                              .frame = frame,
                              .offset = home.size});
  home.size += Bytes(aligned(size_of(local).value));
  return static_cast<std::int32_t>(block_.registers.size()) - 1;
}

std::int32_t BlockBuilder::reg_over(std::string name, std::int32_t other) {
  Register copy = block_.registers[static_cast<std::size_t>(other)];
  copy.name = std::move(name);
  block_.registers.push_back(std::move(copy));
  return static_cast<std::int32_t>(block_.registers.size()) - 1;
}

std::int32_t BlockBuilder::port(std::string name, LayoutId layout) {
  block_.ports.push_back(
      {.name = std::move(name), .local = local_type(graph_->graph(), layout), .readers = {}});
  return static_cast<std::int32_t>(block_.ports.size()) - 1;
}

Operand BlockBuilder::of_register(std::int32_t index) {
  return {.source = Operand::Source::kRegister, .index = index};
}

Operand BlockBuilder::of_port(std::int32_t index) {
  return {.source = Operand::Source::kPort, .index = index};
}

Actor& BlockBuilder::actor(std::string name, QueueRole queue, std::vector<Operand> in,
                           std::vector<std::int32_t> out) {
  const auto index = static_cast<std::int32_t>(block_.actors.size());
  for (const Operand& operand : in) {
    if (operand.source == Operand::Source::kPort) {
      block_.ports[static_cast<std::size_t>(operand.index)].readers.push_back(index);
      continue;
    }
    const Register& source = block_.registers[static_cast<std::size_t>(operand.index)];
    const Frame& frame = block_.frames[static_cast<std::size_t>(source.frame)];
    block_.edges.push_back({.from_register = operand.index,
                            .to_actor = index,
                            .consume_for = frame.acts_per_content,
                            .control = false});
  }
  Actor actor;
  actor.kind = "test";
  actor.name = std::move(name);
  actor.phase = block_.phase;
  actor.queue = queue;
  actor.in = std::move(in);
  actor.out = std::move(out);
  actor.work.kernel = "elementwise";
  block_.actors.push_back(std::move(actor));
  return block_.actors.back();
}

Actor& BlockBuilder::communication(std::string name, QueueRole queue,
                                   const Communication& communication, std::vector<Operand> in,
                                   std::vector<std::int32_t> out) {
  Actor& made = actor(std::move(name), queue, std::move(in), std::move(out));
  made.kind = to_string(communication.primitive);
  made.communication = communication;
  return made;
}

BlockId BlockBuilder::finish() {
  graph_->graph().blocks.push_back(block_);
  return BlockId(graph_->graph().blocks.size() - 1);
}

PlacementId GraphBuilder::placement(std::vector<MeshAxis> axes, Rank first) {
  graph_.placements.push_back(consecutive_placement(std::move(axes), first));
  return PlacementId(graph_.placements.size() - 1);
}

LayoutId GraphBuilder::layout(const Shape& global, std::string_view words, PlacementId placement,
                              DType dtype) {
  graph_.layouts.push_back({.global = {.shape = global, .dtype = dtype},
                            .words = parse_nd_sbp(words),
                            .placement = placement});
  return LayoutId(graph_.layouts.size() - 1);
}

GroupId GraphBuilder::group(std::string name, std::vector<Rank> ranks) {
  graph_.groups.push_back({.name = std::move(name), .ranks = std::move(ranks)});
  return GroupId(graph_.groups.size() - 1);
}

ProgramId GraphBuilder::program(std::string name, PlacementId placement,
                                std::int32_t num_group_roles) {
  RankProgram program;
  program.name = std::move(name);
  program.placement = placement;
  program.num_group_roles = num_group_roles;
  program.arena.peak_by_class.resize(kNumMemoryClasses);
  graph_.programs.push_back(std::move(program));
  return ProgramId(graph_.programs.size() - 1);
}

InstanceId GraphBuilder::instance(ProgramId program_id, BlockId block_id, std::string name,
                                  std::int32_t acts_per_step,
                                  const std::vector<std::int32_t>& num_registers) {
  RankProgram& program = graph_.programs[program_id];
  const Block& block = graph_.blocks[block_id];
  Instance instance{.block = block_id,
                    .layer = 0,
                    .name = std::move(name),
                    .acts_per_step = acts_per_step,
                    .frames = {}};
  for (std::size_t i = 0; i < block.frames.size(); ++i) {
    const Frame& frame = block.frames[i];
    FrameBinding binding;
    binding.num_registers = num_registers[i];
    for (std::int32_t slot = 0; slot < num_registers[i]; ++slot) {
      binding.slot_offsets.push_back(program.arena.size);
      program.arena.size += frame.size;
    }
    for (std::int32_t content = 0; content < acts_per_step / frame.acts_per_content; ++content)
      binding.slot_of_content.push_back(content % num_registers[i]);
    program.arena.peak_by_class[static_cast<std::size_t>(frame.memory)] +=
        frame.size * num_registers[i];
    instance.frames.push_back(std::move(binding));
  }
  program.arena.lower_bound = program.arena.size;
  program.instances.push_back(std::move(instance));
  return InstanceId(program.instances.size() - 1);
}

void GraphBuilder::link(ProgramId program, InstanceId from, std::int32_t from_register,
                        InstanceId to, std::int32_t to_port, std::int32_t consume_for) {
  graph_.programs[program].links.push_back({.from = from,
                                            .from_register = from_register,
                                            .to = to,
                                            .to_port = to_port,
                                            .consume_for = consume_for});
}

RunId GraphBuilder::run(ProgramId program, const Run& run) {
  return graph_.programs[program].order.add(run);
}

void GraphBuilder::act(ProgramId program, InstanceId instance, std::int32_t act) {
  const RankProgram& rank_program = graph_.programs[program];
  const std::vector<Actor>& actors = graph_.block_of(rank_program.instances[instance]).actors;
  for (std::size_t first = 0; first < actors.size();) {
    std::size_t end = first + 1;
    while (end < actors.size() && may_join(actors[end - 1], actors[end])) ++end;
    if (actors[first].queue != QueueRole::kHost)
      run(program, {.instance = instance,
                    .first_actor = static_cast<std::int32_t>(first),
                    .num_actors = static_cast<std::int32_t>(end - first),
                    .act = act,
                    .launch_group = {}});
    first = end;
  }
}

void GraphBuilder::bind(ProgramId program, std::vector<GroupId> groups) {
  const Rank rank(graph_.ranks.size());
  const std::vector<Rank>& devices = graph_.placements[graph_.programs[program].placement].ranks;
  const auto at = std::find(devices.begin(), devices.end(), rank);
  graph_.ranks.push_back({.program = program,
                          .index_in_placement = static_cast<std::int32_t>(at - devices.begin()),
                          .groups = std::move(groups)});
}

PhysicalGraph chain_graph(const std::vector<std::int32_t>& num_registers,
                          std::int32_t acts_per_step) {
  GraphBuilder builder;
  const PlacementId here = builder.placement({{"x", 1}}, Rank(0));
  const LayoutId layout = builder.layout(Shape{16}, "B", here);
  const ProgramId program = builder.program("chain", here);
  std::vector<InstanceId> instances;
  for (std::size_t i = 0; i < num_registers.size(); ++i) {
    const std::string name = "a" + std::to_string(i + 1);
    BlockBuilder block(builder, name, Phase::kForward);
    std::vector<Operand> in;
    if (i > 0) in.push_back(BlockBuilder::of_port(block.port("in", layout)));
    const std::int32_t out = block.reg("out", layout, block.frame());
    block.actor(name, QueueRole::kCompute, in, {out});
    instances.push_back(
        builder.instance(program, block.finish(), name, acts_per_step, {num_registers[i]}));
    if (i > 0) builder.link(program, instances[i - 1], 0, instances[i], 0);
  }
  for (std::int32_t act = 0; act < acts_per_step; ++act)
    for (const InstanceId instance : instances) builder.act(program, instance, act);
  builder.bind(program);
  return builder.graph();
}

PhysicalGraph training_graph() { return graph_file("training"); }

PhysicalGraph exchange_graph(bool rank0_sends_first, bool rank1_sends_first, bool grouped,
                             bool equal_ranks_two_groups) {
  GraphBuilder builder;
  std::vector<PlacementId> places;
  std::vector<LayoutId> layouts;
  for (int r = 0; r < 2; ++r) {
    places.push_back(builder.placement({{"x", 1}}, Rank(r)));
    layouts.push_back(builder.layout(Shape{4}, "B", places.back()));
  }
  const GroupId there = builder.group("there", {Rank(0), Rank(1)});
  const GroupId back = equal_ranks_two_groups ? builder.group("back", {Rank(1), Rank(0)}) : there;
  for (int r = 0; r < 2; ++r) {
    const ProgramId program =
        builder.program("r" + std::to_string(r), places[static_cast<std::size_t>(r)], 2);
    const auto here = static_cast<std::size_t>(r);
    BlockBuilder block(builder, "exchange" + std::to_string(r), Phase::kCommunication);
    const std::int32_t mine = block.reg("mine", layouts[here], block.frame());
    const std::int32_t theirs = block.reg("theirs", layouts[here], block.frame());
    block.actor("make", QueueRole::kCompute, {}, {mine});
    Communication send;
    send.primitive = Primitive::kTransfer;
    send.side = Side::kSend;
    send.group = r;  // role 0: from rank 0 to rank 1; role 1: back
    send.from = layouts[here];
    send.to = layouts[1 - here];
    Communication receive = send;
    receive.side = Side::kReceive;
    receive.group = 1 - r;
    std::swap(receive.from, receive.to);
    block.communication("send", QueueRole::kTransferOutForward, send,
                        {BlockBuilder::of_register(mine)}, {});
    block.communication("receive", QueueRole::kTransferInForward, receive, {}, {theirs});
    const InstanceId instance = builder.instance(program, block.finish(), "exchange", 1, {1, 1});
    builder.run(program, {instance, 0, 1, 0, {}});
    const bool sends_first = r == 0 ? rank0_sends_first : rank1_sends_first;
    const LaunchGroupId group = grouped ? LaunchGroupId(0) : LaunchGroupId::none;
    builder.run(program, {instance, sends_first ? 1 : 2, 1, 0, group});
    builder.run(program, {instance, sends_first ? 2 : 1, 1, 0, group});
    builder.bind(program, {there, back});
  }
  return builder.graph();
}

}  // namespace sextant::testing
