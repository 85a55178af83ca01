// One block per operator; reads become ports and links.

#include "tests/simulator/toy_graph.h"

#include <algorithm>
#include <stdexcept>

namespace sextant {

namespace {

constexpr std::int64_t kSlotSize = 256;

template <typename T>
std::int32_t index_by_name(const std::vector<T>& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const T& value) { return value.name == name; });
  if (found == values.end()) throw std::runtime_error("no " + name);
  return static_cast<std::int32_t>(found - values.begin());
}

class ToyBuilder {
 public:
  ToyBuilder(const std::vector<ToyProgram>& programs, const std::vector<ToyRank>& ranks,
             const std::vector<ToyGroup>& groups)
      : programs_(programs), ranks_(ranks), groups_(groups) {}

  PhysicalGraph build() {
    Placement everywhere;
    everywhere.axes = {{"all", static_cast<std::int64_t>(ranks_.size())}};
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) everywhere.ranks.emplace_back(rank);
    graph_.placements = {everywhere};
    for (const ToyGroup& group : groups_) {
      DeviceGroup device_group{group.name, {}};
      for (const int rank : group.ranks) device_group.ranks.emplace_back(rank);
      graph_.groups.push_back(device_group);
    }
    for (std::size_t program = 0; program < programs_.size(); ++program) add_program(program);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) add_rank(rank);
    return graph_;
  }

 private:
  // A tensor of `bytes` bytes that every rank holds whole.
  LayoutId layout_of(std::int64_t bytes) {
    const Layout layout{{Shape{bytes}, DType::kBool}, {Sbp::broadcast()}, PlacementId(0)};
    const auto known = std::find(graph_.layouts.begin(), graph_.layouts.end(), layout);
    const auto index = known - graph_.layouts.begin();
    if (known == graph_.layouts.end()) graph_.layouts.push_back(layout);
    return LayoutId(static_cast<std::size_t>(index));
  }

  // Roles of a program are numbered as its first rank lists them.
  GroupRole role_of(std::size_t program, const std::string& role) const {
    for (const ToyRank& rank : ranks_) {
      if (rank.program != static_cast<std::int32_t>(program)) continue;
      for (std::size_t i = 0; i < rank.groups.size(); ++i)
        if (rank.groups[i].first == role) return static_cast<GroupRole>(i);
    }
    throw std::runtime_error("no role " + role);
  }

  void add_block(std::size_t program, const ToyOp& op) {
    Actor actor;
    actor.kind = op.communication ? std::string(to_string(op.communication->primitive)) : "toy";
    actor.name = op.name;
    actor.phase = op.phase;
    actor.queue = op.queue;
    actor.work.flops = static_cast<double>(op.picoseconds);
    Block block;
    block.name = op.name;
    block.phase = op.phase;
    for (std::size_t read = 0; read < op.reads.size(); ++read) {
      actor.in.push_back({Operand::Source::kPort, static_cast<std::int32_t>(read)});
      block.ports.push_back({op.reads[read].op, {Shape{1}, DType::kBool}, {0}});
    }
    if (op.communication) {
      const LayoutId layout = layout_of(op.communication->bytes);
      actor.communication = Communication{op.communication->primitive,
                                          op.communication->side,
                                          role_of(program, op.communication->group),
                                          ReduceOp::kSum,
                                          DType::kBool,
                                          layout,
                                          layout};
    }
    if (op.writes) {
      actor.out = {0};
      block.registers.push_back({op.name, layout_of(1), {Shape{1}, DType::kBool}, 0, Bytes(0)});
      Frame frame;
      frame.size = Bytes(kSlotSize);
      frame.acts_per_content = op.acts_per_content;
      frame.initially_full = op.state;
      block.frames.push_back(frame);
    }
    block.actors.push_back(std::move(actor));
    graph_.blocks.push_back(std::move(block));
  }

  Instance make_instance(const ToyOp& op, std::int64_t& arena) {
    Instance instance;
    instance.block = BlockId(graph_.blocks.size() - 1);
    instance.name = op.name;
    instance.acts_per_step = op.acts;
    if (!op.writes) return instance;
    FrameBinding binding;
    const std::int32_t contents = op.acts / op.acts_per_content;
    binding.num_registers = op.registers == 0 ? contents : op.registers;
    for (std::int32_t content = 0; content < contents; ++content)
      binding.slot_of_content.push_back(content % binding.num_registers);
    for (std::int32_t slot = 0; slot < binding.num_registers; ++slot) {
      binding.slot_offsets.emplace_back(arena);
      arena += kSlotSize;
    }
    instance.frames = {binding};
    return instance;
  }

  void add_program(std::size_t index) {
    const ToyProgram& toy = programs_[index];
    RankProgram program;
    program.name = toy.name;
    program.placement = PlacementId(0);
    std::int64_t arena = 0;
    for (std::size_t op = 0; op < toy.ops.size(); ++op) {
      add_block(index, toy.ops[op]);
      program.instances.push_back(make_instance(toy.ops[op], arena));
      for (std::size_t read = 0; read < toy.ops[op].reads.size(); ++read)
        program.links.push_back({InstanceId(index_by_name(toy.ops, toy.ops[op].reads[read].op)), 0,
                                 InstanceId(op), static_cast<std::int32_t>(read),
                                 toy.ops[op].reads[read].consume_for});
    }
    for (const ToyRun& run : toy.order)
      program.order.push_back(
          {InstanceId(index_by_name(toy.ops, run.op)), 0, 1, run.act, run.launch_group});
    program.arena.size = Bytes(arena);
    program.arena.lower_bound = Bytes(arena);
    program.arena.peak_by_class.assign(kNumMemoryClasses, Bytes(0));
    program.arena.peak_by_class[static_cast<std::size_t>(MemoryClass::kActivations)] = Bytes(arena);
    graph_.programs.push_back(std::move(program));
  }

  void add_rank(std::size_t index) {
    RankBinding binding;
    binding.program = ProgramId(ranks_[index].program);
    binding.index_in_placement = static_cast<std::int32_t>(index);
    for (const auto& [role, group] : ranks_[index].groups)
      binding.groups.emplace_back(index_by_name(groups_, group));
    RankProgram& program = graph_.programs[binding.program];
    program.num_group_roles = static_cast<std::int32_t>(binding.groups.size());
    graph_.ranks.push_back(std::move(binding));
  }

  const std::vector<ToyProgram>& programs_;
  const std::vector<ToyRank>& ranks_;
  const std::vector<ToyGroup>& groups_;
  PhysicalGraph graph_;
};

}  // namespace

PhysicalGraph make_toy_graph(const std::vector<ToyProgram>& programs,
                             const std::vector<ToyRank>& ranks,
                             const std::vector<ToyGroup>& groups) {
  return ToyBuilder(programs, ranks, groups).build();
}

Duration ToyNetwork::duration(const CollectiveCost& cost) const {
  if (cost.communication->primitive == Primitive::kTransfer) return Duration(transfer_);
  return Duration(cost.global_bytes.value);
}

void ToyNetwork::complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                          std::span<Time> done) const {
  const Time end = *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost);
  std::fill(done.begin(), done.end(), end);
}

}  // namespace sextant
