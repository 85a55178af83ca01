// One block for the chain and one for the input that reads from it; a program of one more instance.
#include "compiler/expand/data_actors.h"

#include "core/base/check.h"

#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace sextant {
namespace {

class DataActors {
 public:
  DataActors(PhysicalGraph& graph, std::string_view input, std::span<const std::string> kinds,
             std::int32_t num_registers)
      : graph_(graph), input_(input), kinds_(kinds), num_registers_(num_registers) {}

  // Whether any program has the input.
  bool add() {
    bool found = false;
    for (RankProgram& program : graph_.programs)
      if (const auto instance = input_of(program)) {
        add_to(program, *instance);
        found = true;
      }
    return found;
  }

 private:
  std::optional<InstanceId> input_of(const RankProgram& program) const {
    for (const InstanceId i : program.instances.keys()) {
      const Instance& instance = program.instances[i];
      const Block& block = graph_.block_of(instance);
      if (block.actors.size() == 1 && block.actors.front().kind == "input" &&
          graph_.actor_name(instance, 0) == input_)
        return i;
    }
    return std::nullopt;
  }

  void add_to(RankProgram& program, InstanceId input) {
    Instance& reader = program.instances[input];
    const TensorType nothing{Shape{0}, DType::kI32};
    const LayoutId layout = layout_of_nothing(program.placement);
    reader.block = reading_block(reader.block, nothing);
    Instance chain;
    chain.block = chain_block(layout, nothing);
    chain.layer = reader.layer;
    chain.name = input_ + ".data";
    chain.acts_per_step = reader.acts_per_step;
    chain.frames.assign(kinds_.size(), binding(reader.acts_per_step));
    program.instances.push_back(std::move(chain));
    program.links.push_back({.from = InstanceId(program.instances.size() - 1),
                             .from_register = static_cast<std::int32_t>(kinds_.size()) - 1,
                             .to = input,
                             .to_port = 0,
                             .consume_for = 1});
  }

  // Contents have slots of no bytes: where they are is the host's business.
  FrameBinding binding(std::int32_t contents) const {
    FrameBinding binding{
        .num_registers = num_registers_, .slot_of_content = {}, .slot_offsets = {}};
    binding.slot_of_content.resize(static_cast<std::size_t>(contents));
    std::iota(binding.slot_of_content.begin(), binding.slot_of_content.end(), 0);
    binding.slot_offsets.assign(static_cast<std::size_t>(contents), Bytes(0));
    return binding;
  }

  LayoutId layout_of_nothing(PlacementId placement) {
    const auto [found, is_new] =
        layouts_.try_emplace(placement.value, LayoutId(graph_.layouts.size()));
    if (is_new)
      graph_.layouts.push_back(
          {.global = {Shape{0}, DType::kI32},
           .words = NdSbp(graph_.placements[placement].axes.size(), Sbp::broadcast()),
           .placement = placement});
    return found->second;
  }

  BlockId reading_block(BlockId input, const TensorType& nothing) {
    const auto [found, is_new] = readers_.try_emplace(input.value, BlockId(graph_.blocks.size()));
    if (is_new) {
      Block block = graph_.blocks[input];
      block.actors.front().in = {{.source = Operand::Source::kPort, .index = 0}};
      block.ports = {{.name = "samples", .local = nothing, .readers = {0}}};
      graph_.blocks.push_back(std::move(block));
    }
    return found->second;
  }

  BlockId chain_block(LayoutId layout, const TensorType& nothing) {
    const auto [found, is_new] = chains_.try_emplace(layout.value, BlockId(graph_.blocks.size()));
    if (!is_new) return found->second;
    Block block;
    block.name = input_ + ".data";
    block.phase = Phase::kData;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      Actor actor;
      actor.kind = kinds_[i];
      actor.name = input_ + "." + kinds_[i];
      actor.phase = Phase::kData;
      actor.queue = QueueRole::kHost;
      if (i > 0) {
        actor.in = {{.source = Operand::Source::kRegister, .index = index - 1}};
        block.edges.push_back({.from_register = index - 1, .to_actor = index});
      }
      actor.out = {index};
      block.registers.push_back({.name = actor.name,
                                 .layout = layout,
                                 .local = nothing,
                                 .frame = index,
                                 .offset = Bytes(0)});
      block.actors.push_back(std::move(actor));
      block.frames.emplace_back();
    }
    graph_.blocks.push_back(std::move(block));
    return found->second;
  }

  PhysicalGraph& graph_;
  const std::string input_;
  std::span<const std::string> kinds_;
  std::int32_t num_registers_;
  std::map<std::int32_t, LayoutId> layouts_;          // by placement
  std::map<std::int32_t, BlockId> readers_, chains_;  // by block of the input, by layout
};

}  // namespace

void add_data_actors(PhysicalGraph& graph, std::string_view input,
                     std::span<const std::string> kinds, std::int32_t num_registers) {
  require(num_registers >= 1 && num_registers <= kMostDataRegisters, ErrorCode::kUsage,
          "{} registers of data actors, wanted 1 to {}", num_registers, kMostDataRegisters);
  if (kinds.empty()) return;
  require(DataActors(graph, input, kinds, num_registers).add(), ErrorCode::kUsage,
          "no rank has an input '{}'", input);
}

}  // namespace sextant
