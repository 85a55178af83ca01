// Reads the text that physical_graph_json.cpp writes. Every index is checked, so that a graph that
// was read can be walked without checks; whether its numbers make sense is the validator's.
#include "core/base/check.h"
#include "core/graphs/physical_graph.h"
#include "core/graphs/primitives.h"
#include "core/text/json_reader.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

constexpr std::array kQueueRoles = {QueueRole::kCompute,
                                    QueueRole::kCollective,
                                    QueueRole::kTransferOutForward,
                                    QueueRole::kTransferOutBackward,
                                    QueueRole::kTransferInForward,
                                    QueueRole::kTransferInBackward,
                                    QueueRole::kCopyIn,
                                    QueueRole::kCopyOut,
                                    QueueRole::kHost};
constexpr std::array kMemoryClasses = {MemoryClass::kParameters, MemoryClass::kGradients,
                                       MemoryClass::kOptimizer,  MemoryClass::kActivations,
                                       MemoryClass::kWorkspace,  MemoryClass::kCommunication};
constexpr std::array kRegions = {Region::kPrivate, Region::kSymmetric, Region::kPinnedHost};
constexpr std::array kSides = {Side::kBoth, Side::kSend, Side::kReceive};
constexpr std::array kReduceOps = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin};
static_assert(kQueueRoles.size() == kNumQueueRoles);
static_assert(kMemoryClasses.size() == kNumMemoryClasses);

template <typename Function>
auto read_list(const JsonCursor& cursor, Function function) {
  std::vector<decltype(function(cursor))> values;
  for (const JsonCursor& element : cursor.elements()) values.push_back(function(element));
  return values;
}

// An index into a table of `count` entries.
std::int32_t read_index(const JsonCursor& cursor, std::size_t count, std::string_view table) {
  const std::int64_t index = cursor.integer();
  if (index < 0 || index >= static_cast<std::int64_t>(count))
    cursor.refuse(fmt::format("{} is no {}: there are {}", index, table, count));
  return static_cast<std::int32_t>(index);
}

std::int32_t read_count(const JsonCursor& cursor, std::int64_t least = 0) {
  return static_cast<std::int32_t>(cursor.integer_between(least, kMaxInt32));
}

Bytes read_bytes(const JsonCursor& cursor) { return Bytes(cursor.integer_between(0, kMaxInt64)); }

template <typename Enum, std::size_t kCount>
Enum read_enum(const JsonCursor& cursor, const std::array<Enum, kCount>& all) {
  std::string wanted;
  for (const Enum value : all) {
    if (cursor.text() == to_string(value)) return value;
    wanted += (wanted.empty() ? "" : ", ") + std::string(to_string(value));
  }
  cursor.refuse(fmt::format("found \"{}\", wanted one of {}", cursor.text(), wanted));
}

// Runs a parser of core on a text and puts the place before what it says.
template <typename Parser>
auto read_parsed(const JsonCursor& cursor, Parser parser) {
  try {
    return parser(cursor.text());
  } catch (const Error& error) {
    cursor.refuse(error.what());
  }
}

TensorType read_type(const JsonCursor& cursor) {
  return {.shape = read_parsed(cursor.at("shape"), parse_shape),
          .dtype = read_parsed(cursor.at("dtype"), parse_dtype)};
}

double read_real(const JsonCursor& cursor) {
  if (!cursor.is_object()) return cursor.real();
  cursor.allow_only({"real"});
  const std::string& text = cursor.at("real").text();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  cursor.at("real").refuse("wanted inf, -inf or nan");
}

AttributeValue read_attribute(const JsonCursor& cursor) {
  if (cursor.is_boolean()) return cursor.boolean();
  if (cursor.is_integer()) return cursor.integer();
  if (cursor.is_number() || cursor.is_object()) return read_real(cursor);
  if (cursor.is_text()) return cursor.text();
  return read_list(cursor, [](const JsonCursor& element) { return element.integer(); });
}

Attributes read_attributes(const JsonCursor& cursor) {
  Attributes attributes;
  for (const std::string& name : cursor.keys())
    attributes.set(name, read_attribute(cursor.at(name)));
  return attributes;
}

MeshAxis read_axis(const JsonCursor& cursor) {
  const std::vector<JsonCursor> parts = cursor.elements();
  if (parts.size() != 2) cursor.refuse("wanted [name, extent]");
  return {.name = parts[0].text(), .extent = parts[1].integer_between(1, kMaxInt32)};
}

// The numbers of a row of a long table.
template <std::size_t kWidth>
std::array<JsonCursor, kWidth> read_row(const JsonCursor& cursor, std::string_view wanted) {
  const std::vector<JsonCursor> row = cursor.elements();
  if (row.size() != kWidth)
    cursor.refuse(fmt::format("found {} numbers, wanted [{}]", row.size(), wanted));
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<JsonCursor, kWidth>{row[kIndex]...};
  }
  (std::make_index_sequence<kWidth>());
}

// Reads the sections in the order of what refers to what.
class PhysicalGraphReader {
 public:
  PhysicalGraph read(const JsonCursor& root) {
    root.allow_only({"header", "placements", "layouts", "blocks", "programs", "groups", "ranks"});
    graph_.header = read_header(root.at("header"));
    num_ranks_ = root.at("ranks").elements().size();
    graph_.placements = read_all(root.at("placements"), &PhysicalGraphReader::read_placement);
    graph_.layouts = read_all(root.at("layouts"), &PhysicalGraphReader::read_layout);
    graph_.blocks = read_all(root.at("blocks"), &PhysicalGraphReader::read_block);
    graph_.programs = read_all(root.at("programs"), &PhysicalGraphReader::read_program);
    graph_.groups = read_all(root.at("groups"), &PhysicalGraphReader::read_group);
    graph_.ranks = read_all(root.at("ranks"), &PhysicalGraphReader::read_rank);
    return std::move(graph_);
  }

 private:
  template <typename Value>
  std::vector<Value> read_all(const JsonCursor& cursor,
                              Value (PhysicalGraphReader::*read_one)(const JsonCursor&)
                                  const) const {
    return read_list(cursor, [&](const JsonCursor& element) { return (this->*read_one)(element); });
  }

  static GraphHeader read_header(const JsonCursor& cursor) {
    cursor.allow_only({"version", "model_hash", "cluster_hash", "plan_hash"});
    const std::int64_t version = cursor.at("version").integer();
    if (version != GraphHeader().version)
      cursor.at("version").refuse(fmt::format(
          "a graph of version {}; this program reads version {}", version, GraphHeader().version));
    return {.version = static_cast<std::int32_t>(version),
            .model_hash = cursor.at("model_hash").text(),
            .cluster_hash = cursor.at("cluster_hash").text(),
            .plan_hash = cursor.at("plan_hash").text()};
  }

  std::vector<Rank> read_ranks(const JsonCursor& cursor) const {
    return read_list(cursor, [&](const JsonCursor& element) {
      return Rank(read_index(element, num_ranks_, "rank"));
    });
  }

  Placement read_placement(const JsonCursor& cursor) const {
    cursor.allow_only({"axes", "ranks"});
    return {.axes = read_list(cursor.at("axes"), read_axis),
            .ranks = read_ranks(cursor.at("ranks"))};
  }

  Layout read_layout(const JsonCursor& cursor) const {
    cursor.allow_only({"shape", "dtype", "words", "placement"});
    return {.global = read_type(cursor),
            .words = read_parsed(cursor.at("words"), parse_nd_sbp),
            .placement = PlacementId(
                read_index(cursor.at("placement"), graph_.placements.size(), "placement"))};
  }

  LayoutId read_layout_id(const JsonCursor& cursor) const {
    return LayoutId(read_index(cursor, graph_.layouts.size(), "layout"));
  }

  static Frame read_frame(const JsonCursor& cursor) {
    cursor.allow_only({"size", "memory", "region", "acts_per_content", "initially_full"});
    return {.size = read_bytes(cursor.at("size")),
            .memory = read_enum(cursor.at("memory"), kMemoryClasses),
            .region = read_enum(cursor.at("region"), kRegions),
            .acts_per_content = read_count(cursor.at("acts_per_content"), 1),
            .initially_full = cursor.at("initially_full").boolean()};
  }

  Register read_register(const JsonCursor& cursor, std::size_t num_frames) const {
    cursor.allow_only({"name", "layout", "shape", "dtype", "frame", "offset"});
    return {.name = cursor.at("name").text(),
            .layout = read_layout_id(cursor.at("layout")),
            .local = read_type(cursor),
            .frame = read_index(cursor.at("frame"), num_frames, "frame of the block"),
            .offset = read_bytes(cursor.at("offset"))};
  }

  static Port read_port(const JsonCursor& cursor, std::size_t num_actors) {
    cursor.allow_only({"name", "shape", "dtype", "readers"});
    const auto reader = [&](const JsonCursor& element) {
      return read_index(element, num_actors, "actor of the block");
    };
    return {.name = cursor.at("name").text(),
            .local = read_type(cursor),
            .readers = read_list(cursor.at("readers"), reader)};
  }

  static Operand read_operand(const JsonCursor& cursor, const Block& block) {
    const std::string& text = cursor.text();
    std::int32_t index = -1;
    const char* const end = text.data() + text.size();
    const bool is_port = text.starts_with('p');
    if (is_port || text.starts_with('r')) {
      const auto [after, failure] = std::from_chars(text.data() + 1, end, index);
      if (failure != std::errc() || after != end) index = -1;
    }
    const std::size_t count = is_port ? block.ports.size() : block.registers.size();
    if (index < 0 || static_cast<std::size_t>(index) >= count)
      cursor.refuse(
          fmt::format("\"{}\" is no operand: wanted r0 ... of {} registers or p0 ... of {} "
                      "ports",
                      text, block.registers.size(), block.ports.size()));
    return {.source = is_port ? Operand::Source::kPort : Operand::Source::kRegister,
            .index = index};
  }

  Communication read_communication(const JsonCursor& cursor) const {
    cursor.allow_only({"primitive", "side", "group", "reduce", "dtype", "from", "to"});
    return {.primitive = read_enum(cursor.at("primitive"), kPrimitives),
            .side = read_enum(cursor.at("side"), kSides),
            .group = read_count(cursor.at("group")),
            .reduce = read_enum(cursor.at("reduce"), kReduceOps),
            .dtype = read_parsed(cursor.at("dtype"), parse_dtype),
            .from = read_layout_id(cursor.at("from")),
            .to = read_layout_id(cursor.at("to"))};
  }

  static Work read_work(const JsonCursor& cursor) {
    cursor.allow_only({"flops", "read", "written", "kernel"});
    return {.flops = read_real(cursor.at("flops")),
            .read = read_bytes(cursor.at("read")),
            .written = read_bytes(cursor.at("written")),
            .kernel = cursor.at("kernel").text()};
  }

  static Actor::InPlace read_in_place(const JsonCursor& cursor, const Actor& actor) {
    const auto row = read_row<2>(cursor, "in, out");
    return {.in = read_index(row[0], actor.in.size(), "input of the actor"),
            .out = read_index(row[1], actor.out.size(), "output of the actor")};
  }

  static ActorMember::Operand read_member_operand(const JsonCursor& cursor, const Actor& actor) {
    using Source = ActorMember::Operand::Source;
    const std::string& text = cursor.text();
    const char letter = text.empty() ? '?' : text.front();
    const Source source = letter == 'i'   ? Source::kInput
                          : letter == 'o' ? Source::kOutput
                                          : Source::kInner;
    const std::size_t count = letter == 'i'   ? actor.in.size()
                              : letter == 'o' ? actor.out.size()
                              : letter == 't' ? actor.inner.size()
                                              : 0;
    std::int32_t index = -1;
    const char* const end = text.data() + text.size();
    const bool is_number =
        text.size() > 1 && std::from_chars(text.data() + 1, end, index).ptr == end;
    if (!is_number || index < 0 || static_cast<std::size_t>(index) >= count)
      cursor.refuse(
          fmt::format("\"{}\" is no operand of a member: wanted i0 ... of {} inputs, o0 "
                      "... of {} outputs or t0 ... of {} inner tensors",
                      text, actor.in.size(), actor.out.size(), actor.inner.size()));
    return {.source = source, .index = index};
  }

  static ActorMember read_member(const JsonCursor& cursor, const Actor& actor) {
    cursor.allow_only({"kind", "name", "in", "out", "attributes"});
    const auto operand = [&](const JsonCursor& element) {
      return read_member_operand(element, actor);
    };
    return {.kind = cursor.at("kind").text(),
            .name = cursor.at("name").text(),
            .attributes = read_attributes(cursor.at("attributes")),
            .in = read_list(cursor.at("in"), operand),
            .out = read_list(cursor.at("out"), operand)};
  }

  InnerTensor read_inner(const JsonCursor& cursor) const {
    cursor.allow_only({"name", "layout", "shape", "dtype"});
    return {.name = cursor.at("name").text(),
            .layout = read_layout_id(cursor.at("layout")),
            .local = read_type(cursor)};
  }

  Actor read_actor(const JsonCursor& cursor, const Block& block) const {
    cursor.allow_only({"kind", "name", "phase", "queue", "in", "out", "attributes", "work",
                       "communication", "in_place", "members", "inner"});
    const auto operand = [&](const JsonCursor& element) { return read_operand(element, block); };
    const auto output = [&](const JsonCursor& element) {
      return read_index(element, block.registers.size(), "register of the block");
    };
    Actor actor{.kind = cursor.at("kind").text(),
                .name = cursor.at("name").text(),
                .attributes = read_attributes(cursor.at("attributes")),
                .phase = read_parsed(cursor.at("phase"), parse_phase),
                .queue = read_enum(cursor.at("queue"), kQueueRoles),
                .in = read_list(cursor.at("in"), operand),
                .out = read_list(cursor.at("out"), output),
                .work = read_work(cursor.at("work")),
                .communication = {},
                .in_place = {}};
    if (const auto found = cursor.find("communication"))
      actor.communication = read_communication(*found);
    if (const auto found = cursor.find("in_place")) actor.in_place = read_in_place(*found, actor);
    if (const auto found = cursor.find("inner"))
      actor.inner =
          read_list(*found, [&](const JsonCursor& element) { return read_inner(element); });
    if (const auto found = cursor.find("members"))
      actor.members =
          read_list(*found, [&](const JsonCursor& element) { return read_member(element, actor); });
    return actor;
  }

  static Edge read_edge(const JsonCursor& cursor, const Block& block) {
    const auto row = read_row<4>(cursor, "from_register, to_actor, consume_for, control");
    return {.from_register = read_index(row[0], block.registers.size(), "register of the block"),
            .to_actor = read_index(row[1], block.actors.size(), "actor of the block"),
            .consume_for = read_count(row[2], 1),
            .control = row[3].integer_between(0, 1) == 1};
  }

  Block read_block(const JsonCursor& cursor) const {
    cursor.allow_only({"name", "phase", "frames", "registers", "ports", "actors", "edges"});
    const std::size_t num_actors = cursor.at("actors").elements().size();
    Block block;
    block.name = cursor.at("name").text();
    block.phase = read_parsed(cursor.at("phase"), parse_phase);
    block.frames = read_list(cursor.at("frames"), read_frame);
    block.registers = read_list(cursor.at("registers"), [&](const JsonCursor& element) {
      return read_register(element, block.frames.size());
    });
    block.ports = read_list(cursor.at("ports"), [&](const JsonCursor& element) {
      return read_port(element, num_actors);
    });
    block.actors = read_list(cursor.at("actors"),
                             [&](const JsonCursor& element) { return read_actor(element, block); });
    block.edges = read_list(cursor.at("edges"),
                            [&](const JsonCursor& element) { return read_edge(element, block); });
    return block;
  }

  static FrameBinding read_frame_binding(const JsonCursor& cursor) {
    cursor.allow_only({"num_registers", "slot_of_content", "slot_offsets"});
    const std::vector<Bytes> offsets = read_list(cursor.at("slot_offsets"), read_bytes);
    const auto slot = [&](const JsonCursor& element) {
      return read_index(element, offsets.size(), "slot of the frame");
    };
    return {.num_registers = read_count(cursor.at("num_registers"), 1),
            .slot_of_content = read_list(cursor.at("slot_of_content"), slot),
            .slot_offsets = offsets};
  }

  static std::vector<std::string> read_names_of(const JsonCursor& cursor, std::int64_t count,
                                                std::string_view what) {
    auto names = read_list(cursor, [](const JsonCursor& element) { return element.text(); });
    if (std::ssize(names) != count)
      cursor.refuse(fmt::format("{} names for the {} {} of the block", names.size(), count, what));
    return names;
  }

  static InstanceNames read_names(const JsonCursor& cursor, const Block& block) {
    cursor.allow_only({"actors", "registers", "members"});
    return {.actors = read_names_of(cursor.at("actors"), std::ssize(block.actors), "actors"),
            .registers =
                read_names_of(cursor.at("registers"), std::ssize(block.registers), "registers"),
            .members = read_names_of(cursor.at("members"), num_members(block), "members")};
  }

  Instance read_instance(const JsonCursor& cursor) const {
    cursor.allow_only({"name", "block", "layer", "acts_per_step", "frames", "names"});
    Instance instance{
        .block = BlockId(read_index(cursor.at("block"), graph_.blocks.size(), "block")),
        .layer = read_count(cursor.at("layer")),
        .name = cursor.at("name").text(),
        .acts_per_step = read_count(cursor.at("acts_per_step"), 1),
        .frames = read_list(cursor.at("frames"), read_frame_binding)};
    if (const auto found = cursor.find("names"))
      instance.names = read_names(*found, graph_.block_of(instance));
    return instance;
  }

  const Block& block_of(const RankProgram& program, InstanceId instance) const {
    return graph_.block_of(program.instances[instance.index()]);
  }

  static InstanceId read_instance_id(const JsonCursor& cursor, const RankProgram& program) {
    return InstanceId(read_index(cursor, program.instances.size(), "instance of the program"));
  }

  Link read_link(const JsonCursor& cursor, const RankProgram& program) const {
    const auto row = read_row<5>(cursor, "from, from_register, to, to_port, consume_for");
    const InstanceId from = read_instance_id(row[0], program);
    const InstanceId to = read_instance_id(row[2], program);
    return {
        .from = from,
        .from_register = read_index(row[1], block_of(program, from).registers.size(),
                                    "register of the instance"),
        .to = to,
        .to_port = read_index(row[3], block_of(program, to).ports.size(), "port of the instance"),
        .consume_for = read_count(row[4], 1)};
  }

  Run read_run(const JsonCursor& cursor, const RankProgram& program) const {
    const auto row = read_row<5>(cursor, "instance, first_actor, num_actors, act, launch_group");
    const InstanceId instance = read_instance_id(row[0], program);
    const std::size_t num_actors = block_of(program, instance).actors.size();
    const std::int32_t first = read_index(row[1], num_actors, "actor of the instance");
    return {.instance = instance,
            .first_actor = first,
            .num_actors = static_cast<std::int32_t>(
                row[2].integer_between(1, static_cast<std::int64_t>(num_actors) - first)),
            .act = read_index(
                row[3], static_cast<std::size_t>(program.instances[instance.index()].acts_per_step),
                "act of the instance"),
            .launch_group = read_count(row[4], -1)};
  }

  static Guard read_guard(const JsonCursor& cursor, const RankProgram& program) {
    const auto row = read_row<3>(cursor, "later, earlier, lag");
    const auto run = [&](const JsonCursor& element) {
      return RunId(read_index(element, program.order.size(), "run of the program"));
    };
    return {.later = run(row[0]),
            .earlier = run(row[1]),
            .lag = static_cast<std::int32_t>(row[2].integer_between(0, 1))};
  }

  static ArenaPlan read_arena(const JsonCursor& cursor) {
    cursor.allow_only({"size", "lower_bound", "peak_by_class"});
    return {.size = read_bytes(cursor.at("size")),
            .lower_bound = read_bytes(cursor.at("lower_bound")),
            .peak_by_class = read_list(cursor.at("peak_by_class"), read_bytes)};
  }

  RankProgram read_program(const JsonCursor& cursor) const {
    cursor.allow_only(
        {"name", "placement", "num_group_roles", "arena", "instances", "links", "order", "guards"});
    RankProgram program;
    program.name = cursor.at("name").text();
    program.placement =
        PlacementId(read_index(cursor.at("placement"), graph_.placements.size(), "placement"));
    program.num_group_roles = read_count(cursor.at("num_group_roles"));
    program.arena = read_arena(cursor.at("arena"));
    program.instances = read_all(cursor.at("instances"), &PhysicalGraphReader::read_instance);
    program.links = read_list(
        cursor.at("links"), [&](const JsonCursor& element) { return read_link(element, program); });
    program.order = read_list(
        cursor.at("order"), [&](const JsonCursor& element) { return read_run(element, program); });
    program.guards = read_list(cursor.at("guards"), [&](const JsonCursor& element) {
      return read_guard(element, program);
    });
    return program;
  }

  DeviceGroup read_group(const JsonCursor& cursor) const {
    cursor.allow_only({"name", "ranks"});
    return {.name = cursor.at("name").text(), .ranks = read_ranks(cursor.at("ranks"))};
  }

  RankBinding read_rank(const JsonCursor& cursor) const {
    cursor.allow_only({"program", "index_in_placement", "groups"});
    const ProgramId program(read_index(cursor.at("program"), graph_.programs.size(), "program"));
    const PlacementId placement = graph_.programs[program.index()].placement;
    const std::size_t devices = graph_.placements[placement.index()].ranks.size();
    const auto group = [&](const JsonCursor& element) {
      return GroupId(read_index(element, graph_.groups.size(), "group"));
    };
    return {.program = program,
            .index_in_placement = read_index(cursor.at("index_in_placement"), devices,
                                             "position in the placement of the program"),
            .groups = read_list(cursor.at("groups"), group)};
  }

  PhysicalGraph graph_;
  std::size_t num_ranks_ = 0;
};

}  // namespace

PhysicalGraph physical_graph_from_json(std::string_view text) {
  const JsonDocument document(text, "physical graph");
  return PhysicalGraphReader().read(document.root());
}

}  // namespace sextant
