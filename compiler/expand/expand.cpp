// The passes from staged to physical graph, in order.
#include "compiler/expand/expand.h"

#include "actor/bytes/byte_order.h"
#include "actor/proof/prove.h"
#include "actor/protocol/graph_tables.h"
#include "compiler/expand/block_names.h"
#include "compiler/expand/blocks.h"
#include "compiler/expand/durations.h"
#include "compiler/expand/layouts.h"
#include "compiler/expand/program_classes.h"
#include "compiler/memory/memory_plan.h"
#include "compiler/memory/memory_report.h"
#include "compiler/order/groups.h"
#include "compiler/order/issue_order.h"
#include "compiler/order/join_runs.h"
#include "compiler/order/partition.h"
#include "compiler/order/run_forms.h"
#include "compiler/words/coverage.h"
#include "compiler/words/fusion.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/base/parallel.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sextant {
namespace {

class Expansion {
 public:
  Expansion(const StagedGraph& staged, const OperatorRegistry& registry, const CostModel& cost,
            const NetworkModel& network, const ExpandOptions& options)
      : staged_(staged),
        cost_(cost),
        network_(network),
        options_(options),
        partition_(staged),
        layouts_(staged),
        groups_(staged),
        forms_(partition_, layouts_, groups_,
               {.in_place = options.in_place, .symmetric = options.symmetric}),
        classes_(find_program_classes(staged.placements, layouts_.layouts())) {
    graph_.header = options.header;
    graph_.placements = Table<PlacementId, Placement>(staged.placements);
    graph_.layouts = layouts_.layouts();
    graph_.groups = groups_.groups();
    blocks_ =
        make_blocks(forms_, layouts_, classes_, staged.placements, registry, options.symmetric);
    options_.stop();
    graph_.blocks = std::move(blocks_.blocks);
    number_instances();
    bind_ranks();
    order_ = make_order();
  }

  struct Result {
    std::shared_ptr<PhysicalGraph> graph;
    std::vector<PackedProgram> packed;  // by program
    std::shared_ptr<const GraphTables> tables;
  };
  Result run() {
    graph_.programs.resize(classes_.size());
    std::vector<PackedProgram> packed(classes_.size());
    std::vector<std::optional<MemoryPlan>> plans(classes_.size());
    for_each_in_parallel(classes_.size(), [&](std::size_t c) {
      options_.stop();
      graph_.programs[ProgramId(c)] = make_program(c);
      plans[c].emplace(plan_of(graph_.programs[ProgramId(c)]));
    });
    // What a device needs is decided by the largest arena, which is not below the largest bound:
    // programs within this have nothing to gain. 0.2 % more is not worth the time either.
    Bytes enough;
    for (const auto& plan : plans) enough = std::max(enough, plan->lower_bound());
    enough += Bytes(enough.value / 500);
    for_each_in_parallel(classes_.size(), [&](std::size_t c) {
      options_.stop();
      if (plans[c]->size() > enough) plans[c]->improve(enough);
      packed[c] = plans[c]->finish();
      plans[c].reset();
    });
    order_.clear();  // its bytes serve what follows
    Tables unguarded;
    if (options_.guards) unguarded = add_guards(packed);
    const auto graph = std::make_shared<PhysicalGraph>(std::move(graph_));
    const auto tables = unguarded.of_graph
                            ? std::make_shared<const GraphTables>(
                                  *graph, std::move(*unguarded.of_graph), unguarded.hold)
                            : std::make_shared<const GraphTables>(*graph);
    return {graph, std::move(packed), tables};
  }

 private:
  // The tables of the graph without guards, and for each program whether they hold but for its
  // guards.
  struct Tables {
    std::shared_ptr<GraphTables> of_graph;
    std::vector<bool> hold;
  };

  Tables add_guards(std::vector<PackedProgram>& packed) {
    // All tables are made while guards are sought, before memory that is spent changes a program.
    const auto tables = std::make_shared<GraphTables>(graph_);
    GuardsOfPrograms guards(classes_.size());
    for_each_in_parallel(classes_.size(), [&](std::size_t c) {
      options_.stop();
      guards[c] = missing_guards(graph_, ProgramId(c), *tables);
    });
    std::vector<bool> hold(classes_.size(), true);
    if (options_.room && options_.slot_lifetime == SlotLifetime::kModelled)
      hold = spend_spare_memory(graph_, tables, guards, packed, *options_.room, cost_, network_,
                                options_.stop);
    for (std::size_t c = 0; c < classes_.size(); ++c)
      graph_.programs[ProgramId(c)].guards = std::move(guards[c]);
    return {tables, std::move(hold)};
  }

  void number_instances() {
    number_in_program_.resize(partition_.instances().size());
    for (int stage = 0; stage < num_stages(); ++stage) {
      std::int32_t number = 0;
      for (const StagedInstanceId instance : partition_.of_stage(stage))
        number_in_program_[instance] = InstanceId(number++);
    }
  }
  int num_stages() const { return static_cast<int>(staged_.placements.size()); }

  void bind_ranks() {
    std::size_t num_ranks = 0;
    for (const Placement& placement : staged_.placements) num_ranks += placement.ranks.size();
    graph_.ranks.resize(num_ranks);
    for (std::size_t c = 0; c < classes_.size(); ++c)
      for (const std::int32_t member : classes_[c].members) {
        const int stage = classes_[c].stage;
        const Rank rank = at(at(staged_.placements, stage).ranks, member);
        require(rank.is_valid() && rank.index() < num_ranks, ErrorCode::kInfeasible,
                "stage {} uses rank {}, but its stages have {} devices in all: ranks must be "
                "0 to {}, each in one stage",
                stage, rank.value, num_ranks, num_ranks - 1);
        RankBinding& binding = graph_.ranks[rank];
        require(!binding.program.is_valid(), ErrorCode::kInfeasible,
                "rank {} belongs to stage {} and to another one; a rank has one program",
                rank.value, stage);
        binding = {ProgramId(c), member, groups_.groups_of_member(stage, member)};
      }
  }

  IssueOrder make_order() const {
    MovedSizes sizes;
    const DurationTable durations(graph_, forms_, blocks_, classes_, groups_, cost_, network_,
                                  sizes);
    options_.stop();
    ActorDurations of_instance;
    for (const StagedInstanceId instance : partition_.instances().keys())
      of_instance.push_back(durations.of_form(forms_.form_of(instance)));
    const auto programs = make_stage_programs(partition_, options_.schedule, of_instance);
    options_.stop();
    IssueOrder order = make_issue_order(partition_, programs, of_instance,
                                        {options_.launch_groups, options_.transfer_order});
    options_.stop();
    const RunForms forms(partition_, order);
    fuse_buckets(order, forms, groups_, network_, sizes, options_.buckets, options_.stop);
    if (options_.join_runs) join_runs(order, forms, options_.stop);
    return order;
  }

  std::int32_t acts_per_step(const InstanceSpec& spec) const {
    return spec.rate == Rate::kPerStep ? 1 : static_cast<std::int32_t>(staged_.micro_batches);
  }

  RankProgram make_program(std::size_t program_class) const {
    const int stage = classes_[program_class].stage;
    RankProgram program;
    program.name = fmt::format("stage{}", stage);
    if (program_class > 0 && classes_[program_class - 1].stage == stage)
      program.name += fmt::format(".rank{}", classes_[program_class].members.front());
    program.placement = PlacementId(stage);
    program.num_group_roles = groups_.num_roles(stage);
    for (const StagedInstanceId index : partition_.of_stage(stage)) {
      const InstanceSpec& spec = partition_.instances()[index];
      Instance instance;
      instance.block = blocks_.block_of[program_class][forms_.form_of(index)];
      instance.layer = spec.layer;
      instance.name = instance_name(staged_, spec);
      instance.names = forms_.names(index);
      instance.acts_per_step = acts_per_step(spec);
      program.instances.push_back(std::move(instance));
      add_links(index, program);
    }
    program.order.reserve(at(order_, stage).size());
    for (const OrderedRun& run : at(order_, stage))
      program.order.push_back({number_in_program_[run.instance], run.first_actor, run.num_actors,
                               run.act, run.launch_group});
    return program;
  }

  void add_links(StagedInstanceId index, RankProgram& program) const {
    const InstanceSpec& reader = partition_.instances()[index];
    std::int32_t port = 0;
    for (const StagedTensorId tensor : forms_.ports(index)) {
      const StagedInstanceId producer = partition_.place(staged_.tensors[tensor].producer).instance;
      const bool serves_all = partition_.instances()[producer].rate == Rate::kPerStep &&
                              reader.rate == Rate::kPerMicroBatch;
      program.links.push_back({number_in_program_[producer], forms_.register_of(tensor),
                               number_in_program_[index], port++,
                               serves_all ? static_cast<std::int32_t>(staged_.micro_batches) : 1});
    }
  }

  MemoryPlan plan_of(RankProgram& program) const {
    MemoryPlanOptions options;
    options.reuse = options_.plan_memory;
    std::vector<Time> begin, end;
    if (options_.slot_lifetime == SlotLifetime::kModelled) {
      for (const OrderedRun& run : order_[program.placement.index()]) {
        begin.push_back(run.begin);
        end.push_back(run.end);
      }
      options.begin = begin;
      options.end = end;
    }
    return MemoryPlan(graph_, program, options);
  }

  const StagedGraph& staged_;
  const CostModel& cost_;
  const NetworkModel& network_;
  const ExpandOptions& options_;
  Partition partition_;
  LayoutTable layouts_;
  GroupTable groups_;
  BlockForms forms_;
  std::vector<ProgramClass> classes_;
  BlockTable blocks_;
  PhysicalGraph graph_;
  IssueOrder order_;
  Table<StagedInstanceId, InstanceId> number_in_program_;
};

void require_none(const std::vector<std::string>& broken, const char* what) {
  require(broken.empty(), ErrorCode::kInternal, "{}: {}", what,
          broken.empty() ? "" : broken.front());
}

bool is_fused(const ExpandOptions& options, const CostModel& cost) {
  return options.fusion && fuses_anything(cost);
}

Expansion::Result expanded(const StagedGraph& staged, const OperatorRegistry& registry,
                           const CostModel& cost, const NetworkModel& network,
                           const ExpandOptions& options) {
  options.stop();
  Expansion::Result made = Expansion(staged, registry, cost, network, options).run();
  if (options.memory) require_fits(*made.graph, *options.memory);
  return made;
}

}  // namespace

ExpandedGraph::ExpandedGraph(std::shared_ptr<PhysicalGraph> graph,
                             std::vector<PackedProgram> packed,
                             std::shared_ptr<const GraphTables> tables,
                             std::optional<ProvenGraph> proven)
    : graph_(std::move(graph)),
      packed_(std::move(packed)),
      tables_(std::move(tables)),
      proven_(std::move(proven)) {}

std::vector<Bytes> ExpandedGraph::tight_arenas() const {
  std::vector<Bytes> arenas;
  for (const PackedProgram& program : packed_) arenas.push_back(program.tight);
  return arenas;
}

PhysicalGraph ExpandedGraph::take_graph() && {
  proven_.reset();
  tables_.reset();
  return std::move(*graph_);
}

ExpandedGraph expand_and_report(const StagedGraph& staged, const OperatorRegistry& registry,
                                const CostModel& cost, const NetworkModel& network,
                                const ExpandOptions& options) {
  require_none(validate(staged), "cannot expand this staged graph");
  Expansion::Result made = is_fused(options, cost)
                               ? expanded(fuse_operators(staged, cost, options.schedule), registry,
                                          cost, network, options)
                               : expanded(staged, registry, cost, network, options);
  if (!options.checks)
    return {made.graph, std::move(made.packed), std::move(made.tables), std::nullopt};
  ProvenGraph proven =
      prove(made.graph, made.tables, {.broken = ErrorCode::kInternal, .stop = options.stop});
  require_none(check_layers(staged, *made.graph), "the compiler lost an operator or did one twice");
  return {made.graph, std::move(made.packed), std::move(made.tables), std::move(proven)};
}

ExpandedGraph expand_and_report(StagedGraph&& staged, const OperatorRegistry& registry,
                                const CostModel& cost, const NetworkModel& network,
                                const ExpandOptions& options) {
  const StagedGraph& graph = staged;
  if (options.checks || !is_fused(options, cost))
    return expand_and_report(graph, registry, cost, network, options);
  require_none(validate(graph), "cannot expand this staged graph");
  Expansion::Result made = expanded(fuse_operators(std::move(staged), cost, options.schedule),
                                    registry, cost, network, options);
  return {made.graph, std::move(made.packed), std::move(made.tables), std::nullopt};
}

PhysicalGraph expand(const StagedGraph& staged, const OperatorRegistry& registry,
                     const CostModel& cost, const NetworkModel& network,
                     const ExpandOptions& options) {
  return expand_and_report(staged, registry, cost, network, options).take_graph();
}

PhysicalGraph expand(const StagedGraph& staged, const CostModel& cost, const NetworkModel& network,
                     const ExpandOptions& options) {
  return expand(staged, builtin_operators(), cost, network, options);
}

}  // namespace sextant
