// Which tensors hold tokens of experts, then one program per way of filling them.

#include "simulator/costs/routed_graph.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "core/graphs/kernel_names.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace sextant {

namespace {

constexpr std::string_view kDispatch = "moe_dispatch";

// Layouts of what enters blocks from other instances.
class PortLayouts {
 public:
  explicit PortLayouts(const PhysicalGraph& graph) : graph_(graph) {
    for (const Block& block : graph.blocks) layouts_.emplace_back(block.ports.size());
    for (const RankProgram& program : graph.programs)
      for (const Link& link : program.links) {
        const BlockId from = program.instances[link.from].block;
        const BlockId to = program.instances[link.to].block;
        layouts_[to.index()][at(link.to_port)] =
            graph.blocks[from].registers[at(link.from_register)].layout;
      }
  }
  // Not valid for a port that nothing is linked to.
  LayoutId of(BlockId block, const Operand& operand) const {
    if (operand.source == Operand::Source::kPort) return layouts_[block.index()][at(operand.index)];
    return graph_.blocks[block].registers[at(operand.index)].layout;
  }

 private:
  const PhysicalGraph& graph_;
  std::vector<std::vector<LayoutId>> layouts_;
};

// Its choices are [groups, tokens, top_k].
ExpertSizes sizes_of(const Shape& choices, const Actor& dispatch) {
  return {dispatch.attributes.integer("experts"), choices[2], choices[1],
          dispatch.attributes.integer("capacity")};
}

std::vector<ExpertSizes> sizes_in(const PhysicalGraph& graph, const PortLayouts& ports) {
  std::vector<ExpertSizes> sizes;
  for (const BlockId b : graph.blocks.keys())
    for (const Actor& actor : graph.blocks[b].actors) {
      if (actor.kind != kDispatch) continue;
      const LayoutId choices = ports.of(b, actor.in[1]);
      if (!choices.is_valid()) continue;  // of a block that no program has
      const ExpertSizes one = sizes_of(graph.layouts[choices].global.shape, actor);
      if (std::find(sizes.begin(), sizes.end(), one) == sizes.end()) sizes.push_back(one);
    }
  return sizes;
}

// Registers and ports that hold tokens of experts: what dispatches write and all that is made of
// it, as long as it has the experts' places.
class ExpertTensors {
 public:
  ExpertTensors(const PhysicalGraph& graph, const ExpertSizes& sizes)
      : graph_(graph), sizes_(sizes) {
    for (const Block& block : graph.blocks) {
      registers_.emplace_back(block.registers.size(), false);
      ports_.emplace_back(block.ports.size(), false);
    }
    while (spread_in_blocks() || spread_by_links()) {
    }
  }

  bool holds(BlockId block, const Operand& operand) const {
    const auto& marks = operand.source == Operand::Source::kPort ? ports_[block.index()]
                                                                 : registers_[block.index()];
    return marks[at(operand.index)];
  }
  bool holds(BlockId block, std::int32_t out) const { return registers_[block.index()][at(out)]; }

 private:
  // [E, G, C, ...], or [E, G C, ...].
  bool has_places(LayoutId layout) const {
    const Shape& shape = graph_.layouts[layout].global.shape;
    if (shape.rank() < 2 || shape[0] != sizes_.experts) return false;
    if (shape.rank() >= 3 && shape[2] == sizes_.places) return true;
    return shape[1] % sizes_.places == 0 && shape[1] > 0;
  }

  bool spread_in_blocks() {
    bool is_new = false;
    for (const BlockId b : graph_.blocks.keys())
      for (const Actor& actor : graph_.blocks[b].actors) {
        if (!passes_on(b, actor)) continue;
        for (const std::int32_t out : actor.out) {
          if (registers_[b.index()][at(out)] ||
              !has_places(graph_.blocks[b].registers[at(out)].layout))
            continue;
          registers_[b.index()][at(out)] = is_new = true;
        }
      }
    return is_new;
  }

  bool passes_on(BlockId block, const Actor& actor) const {
    if (actor.kind == kDispatch) return true;
    const bool ends = actor.kind == "moe_combine" || actor.kind == "moe_weight_grad" ||
                      actor.phase == Phase::kOptimizer || makes_weight_gradient(block, actor);
    return !ends && std::any_of(actor.in.begin(), actor.in.end(),
                                [&](const Operand& in) { return holds(block, in); });
  }

  // Both factors of a product hold tokens: they are what it sums over.
  bool makes_weight_gradient(BlockId block, const Actor& actor) const {
    return actor.kind == "batch_matmul" && holds(block, actor.in[0]) && holds(block, actor.in[1]);
  }

  bool spread_by_links() {
    bool is_new = false;
    for (const RankProgram& program : graph_.programs)
      for (const Link& link : program.links) {
        const std::size_t from = program.instances[link.from].block.index();
        const std::size_t to = program.instances[link.to].block.index();
        if (!registers_[from][at(link.from_register)] || ports_[to][at(link.to_port)]) continue;
        ports_[to][at(link.to_port)] = is_new = true;
      }
    return is_new;
  }

  const PhysicalGraph& graph_;
  const ExpertSizes& sizes_;
  std::vector<std::vector<bool>> registers_, ports_;  // by block
};

class Router {
 public:
  Router(const PhysicalGraph& graph, const ExpertRouting& routing)
      : graph_(graph), ports_(graph), load_(load_of(routing)), tensors_(graph, load_.sizes) {}

  RoutedGraph run() {
    RoutedGraph result;
    result.graph = graph_;
    result.load = load_;
    result.first_routed_layout = graph_.layouts.size();
    list_tensors(result.tensors);
    route_communications(result.graph);
    split_programs(result);
    return result;
  }

 private:
  using Filled = std::map<LayoutId, double>;  // of a rank, by layout of its expert tensors

  ExpertLoad load_of(const ExpertRouting& routing) const {
    const std::vector<ExpertSizes> sizes = sizes_in(graph_, ports_);
    require(!sizes.empty(), ErrorCode::kUsage, "routing '{}': the model has no experts",
            routing.text);
    require(sizes.size() == 1, ErrorCode::kUsage,
            "routing '{}': the model has mixtures of experts of different sizes ({} experts with "
            "{} places, {} with {})",
            routing.text, sizes.front().experts, sizes.front().places, sizes.back().experts,
            sizes.back().places);
    return expert_load(routing, sizes.front());
  }

  // By program, the layouts of its expert tensors.
  void list_tensors(std::set<std::string>& names) {
    for (const RankProgram& program : graph_.programs) {
      std::set<LayoutId>& layouts = layouts_.emplace_back();
      for (const Instance& instance : program.instances) {
        const std::vector<Register>& registers = graph_.block_of(instance).registers;
        for (std::size_t r = 0; r < registers.size(); ++r) {
          if (!tensors_.holds(instance.block, static_cast<std::int32_t>(r))) continue;
          layouts.insert(registers[r].layout);
          names.insert(graph_.register_name(instance, static_cast<std::int32_t>(r)));
        }
      }
    }
  }

  // Communications of expert tensors get layouts of their own, by which they are known.
  void route_communications(PhysicalGraph& graph) const {
    std::map<LayoutId, LayoutId> copies;
    const auto copy_of = [&](LayoutId layout) {
      const auto [copy, is_new] = copies.try_emplace(layout, LayoutId(graph.layouts.size()));
      if (is_new) graph.layouts.push_back(Layout(graph.layouts[layout]));
      return copy->second;
    };
    for (const BlockId b : graph.blocks.keys())
      for (Actor& actor : graph.blocks[b].actors) {
        if (!actor.communication || !is_of_experts(b, actor)) continue;
        actor.communication->from = copy_of(actor.communication->from);
        actor.communication->to = copy_of(actor.communication->to);
      }
  }

  bool is_of_experts(BlockId block, const Actor& actor) const {
    return std::any_of(actor.in.begin(), actor.in.end(),
                       [&](const Operand& in) { return tensors_.holds(block, in); }) ||
           std::any_of(actor.out.begin(), actor.out.end(),
                       [&](std::int32_t out) { return tensors_.holds(block, out); });
  }

  Filled filled_by(Rank rank) const {
    Filled filled;
    for (const LayoutId layout : layouts_[graph_.ranks[rank].program.index()]) {
      const Interval experts = shard_of(graph_, layout, rank).dims[0];
      filled[layout] = load_.filled_between(experts.offset, experts.end());
    }
    return filled;
  }

  // The ranks that fill a program's tensors alike keep it or get one of their own.
  void split_programs(RoutedGraph& result) {
    std::map<std::pair<ProgramId, Filled>, ProgramId> variants;
    std::set<ProgramId> taken;
    for (const Rank r : graph_.ranks.keys()) {
      const ProgramId program = graph_.ranks[r].program;
      const Filled filled = filled_by(r);
      result.filled.push_back(filled_of_own(r, filled));
      const auto [variant, is_new] = variants.try_emplace({program, filled}, program);
      if (is_new) {
        if (!taken.insert(program).second) {
          variant->second = ProgramId(result.graph.programs.size());
          result.graph.programs.push_back(RankProgram(graph_.programs[program]));
        }
        scale_blocks(result.graph, result.graph.programs[variant->second], filled);
      }
      result.graph.ranks[r].program = variant->second;
    }
  }

  // Its own experts are those of the tensor of which it holds the fewest; without any, all is well.
  double filled_of_own(Rank rank, const Filled& filled) const {
    double own = 1;
    std::int64_t fewest = load_.sizes.experts + 1;
    for (const auto& [layout, share] : filled) {
      const std::int64_t held = shard_of(graph_, layout, rank).dims[0].extent;
      if (held >= fewest) continue;
      fewest = held;
      own = share;
    }
    return own;
  }

  // Blocks are shared by programs, so this one's get copies.
  void scale_blocks(PhysicalGraph& graph, RankProgram& program, const Filled& filled) const {
    std::map<BlockId, BlockId> copies;
    for (Instance& instance : program.instances) {
      const auto [copy, is_new] = copies.try_emplace(instance.block, instance.block);
      if (is_new && has_work_of_experts(instance.block)) {
        copy->second = BlockId(graph.blocks.size());
        graph.blocks.push_back(Block(graph.blocks[instance.block]));
        for (Actor& actor : graph.blocks.back().actors) scale(instance.block, filled, actor);
      }
      instance.block = copy->second;
    }
  }

  bool has_work_of_experts(BlockId block) const {
    const std::vector<Actor>& actors = graph_.blocks[block].actors;
    return std::any_of(actors.begin(), actors.end(),
                       [&](const Actor& actor) { return is_of_experts(block, actor); });
  }

  // Share of the bytes of operands that is left, and the share of places filled of the last of
  // them that holds tokens of experts.
  struct Scaled {
    double bytes = 0, left = 0;
    std::optional<double> filled;
    double share() const { return bytes > 0 ? left / bytes : 1; }
  };

  void scale(BlockId block, const Filled& filled, Actor& actor) const {
    if (!is_of_experts(block, actor)) return;
    const Block& owner = graph_.blocks[block];
    Scaled in, out;
    for (const Operand& operand : actor.in) {
      const bool is_port = operand.source == Operand::Source::kPort;
      const TensorType& local =
          is_port ? owner.ports[at(operand.index)].local : owner.registers[at(operand.index)].local;
      add(local, tensors_.holds(block, operand), ports_.of(block, operand), filled, in);
    }
    for (const std::int32_t r : actor.out)
      add(owner.registers[at(r)].local, tensors_.holds(block, r), owner.registers[at(r)].layout,
          filled, out);
    Work& work = actor.work;
    work.read = Bytes(std::llround(static_cast<double>(work.read.value) * in.share()));
    work.written = Bytes(std::llround(static_cast<double>(work.written.value) * out.share()));
    const auto extents = matmul_extents(work.kernel);
    if (!out.filled && !extents) return;  // tokens are as many as before
    const double share = out.filled ? *out.filled : *in.filled;
    work.flops *= share;
    if (!extents) return;
    const auto places = [&](double extent) {
      return std::max<std::int64_t>(1, std::llround(extent * share));
    };
    const auto whole = [](double extent) { return std::llround(extent); };
    work.kernel = out.filled ? fmt::format("matmul:{}x{}x{}", places(extents->m), whole(extents->n),
                                           whole(extents->k))
                             : fmt::format("matmul:{}x{}x{}", whole(extents->m), whole(extents->n),
                                           places(extents->k));
  }

  static void add(const TensorType& local, bool is_of_experts, LayoutId layout,
                  const Filled& filled, Scaled& sum) {
    const auto bytes = static_cast<double>(size_of(local).value);
    double share = 1;
    if (is_of_experts) {
      const auto known = filled.find(layout);
      if (known != filled.end()) share = known->second;
      sum.filled = share;
    }
    sum.bytes += bytes;
    sum.left += bytes * share;
  }

  const PhysicalGraph& graph_;
  PortLayouts ports_;
  ExpertLoad load_;
  ExpertTensors tensors_;
  std::vector<std::set<LayoutId>> layouts_;  // by program
};

}  // namespace

std::vector<ExpertSizes> expert_sizes(const PhysicalGraph& graph) {
  return sizes_in(graph, PortLayouts(graph));
}

RoutedGraph routed_graph(const PhysicalGraph& graph, const ExpertRouting& routing) {
  return Router(graph, routing).run();
}

}  // namespace sextant
