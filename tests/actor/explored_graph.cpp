// Operands resolved once, as units of the arena that nothing smaller is shared in.
#include "tests/actor/explored_graph.h"

#include "actor/calls/operands.h"
#include "core/base/check.h"

#include <utility>

namespace sextant::testing {
namespace {

class TouchFinder {
 public:
  TouchFinder(const PhysicalGraph& graph, ProgramId program)
      : graph_(graph), program_(graph.programs[program]), resolver_(graph, program) {}

  std::vector<Touch> of_run(RunId id) const {
    const Run& run = program_.order[id];
    std::vector<Touch> touches;
    for (const ActorCall& call : resolver_.calls(id)) add(call, run.act, touches);
    return touches;
  }
  std::vector<Touch> of_act(InstanceId instance, std::int32_t actor, std::int32_t act) const {
    std::vector<Touch> touches;
    add(resolver_.call(instance, actor, act), act, touches);
    return touches;
  }
  // Every register that is there before the first step.
  std::vector<Touch> state() const {
    std::vector<Touch> touches;
    for (const InstanceId i : program_.instances.keys()) {
      const Block& block = graph_.block_of(program_.instances[i]);
      for (std::size_t r = 0; r < block.registers.size(); ++r) {
        const InstanceId instance(i);
        const auto reg = static_cast<std::int32_t>(r);
        if (frame_of(instance, reg).initially_full)
          touches.push_back(touch(resolver_.buffer(instance, reg, 0), 1, true));
      }
    }
    return touches;
  }

 private:
  const Frame& frame_of(InstanceId instance, std::int32_t reg) const {
    const Block& block = graph_.block_of(program_.instances[instance]);
    return block
        .frames[static_cast<std::size_t>(block.registers[static_cast<std::size_t>(reg)].frame)];
  }

  Touch touch(const BufferRef& buffer, std::int32_t parts, bool writes) const {
    constexpr std::int64_t kUnit = kBufferAlignment;
    Touch touch;
    touch.first = static_cast<std::size_t>(buffer.offset.value / kUnit);
    touch.count = static_cast<std::size_t>(aligned(size_of(buffer.info->local).value) / kUnit);
    touch.tag = {buffer.instance.value, buffer.reg, buffer.content, 0, parts};
    touch.writes = writes;
    touch.is_state = frame_of(buffer.instance, buffer.reg).initially_full;
    return touch;
  }

  void add(const ActorCall& call, std::int32_t act, std::vector<Touch>& touches) const {
    for (const BufferRef& in : call.in)
      touches.push_back(touch(in, frame_of(in.instance, in.reg).acts_per_content, false));
    for (const BufferRef& out : call.out) {
      const std::int32_t acts = frame_of(out.instance, out.reg).acts_per_content;
      touches.push_back(touch(out, act % acts + 1, true));
    }
  }

  const PhysicalGraph& graph_;
  const RankProgram& program_;
  OperandResolver resolver_;
};

}  // namespace

std::string to_text(const ContentTag& tag) {
  if (tag.instance == -1) return "nothing";
  if (tag.instance < 0) return fmt::format("what run {} is writing", tag.reg);
  return fmt::format("content {} of register {} of instance {}, version {}, {} acts", tag.content,
                     tag.reg, tag.instance, tag.version, tag.parts);
}

ExploredGraph::ExploredGraph(std::string name, PhysicalGraph graph, PlantedBug bug)
    : name_(std::move(name)), graph_(std::move(graph)), bug_(bug) {
  for (const ProgramId p : graph_.programs.keys()) {
    const ProgramId id(p);
    const TouchFinder finder(graph_, id);
    ProgramTables tables(graph_, id);
    ExploredProgram program;
    for (std::size_t run = 0; run < tables.runs.size(); ++run)
      program.of_run.push_back(finder.of_run(RunId(run)));
    program.of_host_act.resize(tables.sites.size());
    for (const SiteId s : tables.host_sites) {
      const Site& site = tables.sites[s];
      for (std::int32_t act = 0; act < site.acts_per_step; ++act)
        program.of_host_act[s].push_back(finder.of_act(site.instance, site.first_actor, act));
    }
    program.state = finder.state();
    program.units =
        static_cast<std::size_t>(aligned(graph_.programs[p].arena.size.value) / kBufferAlignment);
    for (const NamedBug& known : planted_bugs())
      if (known.bug == bug && known.plant != nullptr) known.plant(tables);
    program.tables = std::make_shared<const ProgramTables>(std::move(tables));
    programs_.push_back(std::move(program));
  }
}

}  // namespace sextant::testing
