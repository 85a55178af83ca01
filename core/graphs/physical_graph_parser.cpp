// Reads the text form of physical graphs (physical_graph_text.md): statements by their first word,
// each by a function of the same name.
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/graphs/block_edges.h"
#include "core/graphs/graph_names.h"
#include "core/graphs/physical_graph_text.h"
#include "core/graphs/primitives.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLeastInt = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeastBytes = std::numeric_limits<std::int64_t>::min();

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
constexpr std::array kSharedRegions = {Region::kSymmetric, Region::kPinnedHost};
constexpr std::array kSides = {Side::kBoth, Side::kSend, Side::kReceive};
constexpr std::array kReduceOps = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin};
static_assert(kQueueRoles.size() == kNumQueueRoles);
static_assert(kMemoryClasses.size() == kNumMemoryClasses);

std::int32_t read_int(TextScanner& in) {
  return static_cast<std::int32_t>(in.integer(kLeastInt, kMostInt));
}
// Of what the validator does not look at.
std::int32_t read_count(TextScanner& in) {
  return static_cast<std::int32_t>(in.integer(0, kMostInt));
}
Bytes read_bytes(TextScanner& in) { return Bytes(in.integer(kLeastBytes, kMostBytes)); }
Bytes read_size(TextScanner& in) { return Bytes(in.integer(0, kMostBytes)); }

// "#N" of a definition, which is the next of its table.
void expect_position(TextScanner& in, std::size_t position, std::string_view what) {
  const TextToken token = in.peek();
  const std::int32_t found = read_position(in);
  if (found != static_cast<std::int64_t>(position))
    in.refuse_at(token, fmt::format("found #{}, but this is {} #{}", found, what, position));
}

// The enumerator whose name comes next; nothing, and nothing taken, where it is none of `all`.
template <typename Enum, std::size_t kCount>
std::optional<Enum> take_enum(TextScanner& in, const std::array<Enum, kCount>& all) {
  for (const Enum value : all)
    if (in.take_word(to_string(value))) return value;
  return std::nullopt;
}

template <typename Enum, std::size_t kCount>
Enum read_enum(TextScanner& in, const std::array<Enum, kCount>& all) {
  if (const std::optional<Enum> value = take_enum(in, all)) return *value;
  std::string wanted;
  for (const Enum value : all)
    wanted += (wanted.empty() ? "one of " : ", ") + std::string(to_string(value));
  in.refuse_next(wanted);
}

// What a parser of core makes of the next token.
template <typename Parser>
auto read_parsed(TextScanner& in, Parser parser) {
  const TextToken token = in.peek();
  if (token.kind != TextToken::Kind::kWord && token.kind != TextToken::Kind::kNumber)
    in.refuse_next("a word or a number");
  try {
    auto value = parser(token.text);
    in.take();
    return value;
  } catch (const Error& error) {
    in.refuse_at(token, error.message());
  }
}

// "{a, b}" with `read_one` per element, or between other signs.
template <typename Function>
auto read_list(TextScanner& in, Function read_one, std::string_view open = "{",
               std::string_view close = "}") {
  std::vector<decltype(read_one(in))> values;
  in.expect_sign(open);
  if (in.take_sign(close)) return values;
  do values.push_back(read_one(in));
  while (in.take_sign(","));
  in.expect_sign(close);
  return values;
}

std::string read_name(TextScanner& in) { return in.name(); }

// The ranks of one entry of "{0, 2, 4 to 7}".
void read_rank_range(TextScanner& in, std::vector<Rank>& ranks) {
  const TextToken token = in.peek();
  const std::int32_t first = read_int(in);
  const std::int32_t last = in.take_word("to") ? read_int(in) : first;
  if (last < first)
    in.refuse_at(token,
                 fmt::format("{} to {} is no range: its end is before its begin", first, last));
  if (std::int64_t{last} - first >= kMostDevices - std::ssize(ranks))
    in.refuse_at(token, "more than 2^20 devices in one list");
  for (std::int32_t rank = first; rank < last; ++rank) ranks.emplace_back(rank);
  ranks.emplace_back(last);
}

std::vector<Rank> read_ranks(TextScanner& in) {
  std::vector<Rank> ranks;
  in.expect_sign("{");
  if (in.take_sign("}")) return ranks;
  do read_rank_range(in, ranks);
  while (in.take_sign(","));
  in.expect_sign("}");
  return ranks;
}

TensorType read_type(TextScanner& in) {
  TensorType type;
  if (in.take_sign("("))
    in.expect_sign(")");
  else
    type.shape = read_parsed(in, parse_shape);
  type.dtype = read_parsed(in, parse_dtype);
  return type;
}

Sbp read_word(TextScanner& in) {
  constexpr std::int64_t kMostDim = std::numeric_limits<std::uint8_t>::max();
  Sbp word;
  if (in.take_word("B")) return word;
  if (in.take_word("P")) {
    in.expect_sign("(");
    word = Sbp::partial(read_enum(in, kReduceOps));
    in.expect_sign(")");
    return word;
  }
  if (!in.take_word("S")) in.refuse_next("S(dim), B or P(sum|max|min)");
  in.expect_sign("(");
  word.kind = Sbp::Kind::kSplit;
  word.dim = static_cast<std::uint8_t>(in.integer(0, kMostDim));
  in.expect_sign(")");
  if (in.take_sign("^")) word.nesting = static_cast<std::uint8_t>(in.integer(1, kMostDim));
  return word;
}

NdSbp read_words(TextScanner& in) {
  if (in.peek().kind != TextToken::Kind::kSign) return {read_word(in)};
  return read_list(in, read_word, "(", ")");
}

Placement read_placement(TextScanner& in) {
  const auto read_axis = [](TextScanner& from) {
    MeshAxis axis;
    axis.name = from.name();
    from.expect_sign("=");
    axis.extent = from.integer(0, kMostInt);
    return axis;
  };
  Placement placement;
  placement.axes = read_list(in, read_axis, "[", "]");
  placement.ranks = read_ranks(in);
  return placement;
}

Layout read_layout(TextScanner& in) {
  Layout layout;
  layout.global = read_type(in);
  layout.words = read_words(in);
  in.expect_word("on");
  layout.placement = PlacementId(read_position(in));
  return layout;
}

AttributeValue read_attribute(TextScanner& in) {
  const TextToken& next = in.peek();
  if (in.take_word("true")) return true;
  if (in.take_word("false")) return false;
  if (next.kind == TextToken::Kind::kQuoted) return in.name();
  const auto integer = [](TextScanner& from) { return from.integer(kLeastBytes, kMostBytes); };
  if (next.kind == TextToken::Kind::kSign) return read_list(in, integer, "[", "]");
  if (next.text.find_first_not_of("-0123456789") == std::string_view::npos) return integer(in);
  return in.real();
}

Attributes read_attributes(TextScanner& in) {
  Attributes attributes;
  if (in.peek().text != "{") return attributes;
  const auto read_entry = [&](TextScanner& from) {
    const TextToken token = from.peek();
    const std::string name = from.name();
    if (attributes.contains(name))
      from.refuse_at(token, fmt::format("the attribute '{}' stands twice", name));
    from.expect_sign("=");
    attributes.set(name, read_attribute(from));
    return true;
  };
  read_list(in, read_entry);
  return attributes;
}

Work read_work(TextScanner& in) {
  Work work;
  if (!in.take_word("work")) return work;
  if (in.take_word("flops")) work.flops = in.real();
  if (in.take_word("read")) work.read = read_size(in);
  if (in.take_word("written")) work.written = read_size(in);
  if (in.take_word("kernel")) work.kernel = in.name();
  return work;
}

std::optional<Communication> read_communication(TextScanner& in, const std::string& kind) {
  const std::optional<Side> side = take_enum(in, kSides);
  if (!side) return std::nullopt;
  Communication communication;
  communication.side = *side;
  communication.from = LayoutId(read_position(in));
  in.expect_word("to");
  communication.to = LayoutId(read_position(in));
  in.expect_word("as");
  communication.dtype = read_parsed(in, parse_dtype);
  in.expect_word("role");
  communication.group = read_count(in);
  if (in.take_word("reduce")) communication.reduce = read_enum(in, kReduceOps);
  if (in.take_word("primitive")) {
    communication.primitive = read_enum(in, kPrimitives);
    return communication;
  }
  for (const Primitive primitive : kPrimitives)
    if (to_string(primitive) == kind) {
      communication.primitive = primitive;
      return communication;
    }
  in.refuse_next(fmt::format("'primitive' and which one it is: the kind '{}' is none", kind));
}

// " -> a, b", or nothing.
template <typename Function>
auto read_outputs(TextScanner& in, Function read_one) {
  std::vector<decltype(read_one(in))> out;
  if (!in.take_sign("->")) return out;
  do out.push_back(read_one(in));
  while (in.take_sign(","));
  return out;
}

Actor read_actor(TextScanner& in, const Block& block, const BlockNames& names) {
  const auto reg = [&](TextScanner& from) { return names.registers.read(from); };
  const auto operand = [&](TextScanner& from) {
    const bool is_port = from.take_sign("<");
    return Operand{.source = is_port ? Operand::Source::kPort : Operand::Source::kRegister,
                   .index = is_port ? names.ports.read(from) : reg(from)};
  };
  Actor actor;
  actor.name = in.name();
  actor.kind = in.name();
  actor.in = read_list(in, operand, "(", ")");
  actor.out = read_outputs(in, reg);
  actor.phase = in.take_word("phase") ? read_parsed(in, parse_phase) : block.phase;
  if (in.take_word("on")) actor.queue = read_enum(in, kQueueRoles);
  actor.communication = read_communication(in, actor.kind);
  if (in.take_word("in_place")) {
    in.expect_sign("<");
    const std::int32_t taken = read_position(in);
    in.expect_sign(">");
    actor.in_place = Actor::InPlace{.in = taken, .out = read_position(in)};
  }
  actor.attributes = read_attributes(in);
  actor.work = read_work(in);
  return actor;
}

InnerTensor read_inner(TextScanner& in) {
  InnerTensor inner;
  inner.name = in.name();
  inner.local = read_type(in);
  in.expect_word("of");
  inner.layout = LayoutId(read_position(in));
  return inner;
}

ActorMember read_member(TextScanner& in, const Actor& actor) {
  NameTable inner("inner tensor");
  for (const InnerTensor& tensor : actor.inner) inner.add(tensor.name);
  const auto part = [&](TextScanner& from) {
    using Source = ActorMember::Operand::Source;
    if (from.take_sign("<"))
      return ActorMember::Operand{.source = Source::kInput, .index = read_position(from)};
    if (from.take_sign(">"))
      return ActorMember::Operand{.source = Source::kOutput, .index = read_position(from)};
    return ActorMember::Operand{.source = Source::kInner, .index = inner.read(from)};
  };
  ActorMember member;
  member.name = in.name();
  member.kind = in.name();
  member.in = read_list(in, part, "(", ")");
  member.out = read_outputs(in, part);
  member.attributes = read_attributes(in);
  return member;
}

Frame read_frame(TextScanner& in) {
  Frame frame;
  frame.size = read_bytes(in);
  frame.memory = read_enum(in, kMemoryClasses);
  frame.region = take_enum(in, kSharedRegions).value_or(Region::kPrivate);
  if (in.take_word("filled")) {
    in.expect_word("by");
    frame.acts_per_content = read_int(in);
    in.expect_word("acts");
  }
  frame.initially_full = in.take_word("state");
  return frame;
}

Register read_register(TextScanner& in) {
  Register reg;
  reg.name = in.name();
  reg.local = read_type(in);
  in.expect_word("of");
  reg.layout = LayoutId(read_position(in));
  in.expect_word("in");
  reg.frame = read_position(in);
  in.expect_word("at");
  reg.offset = read_bytes(in);
  return reg;
}

// "for 2 acts", or one.
std::int32_t read_consume_for(TextScanner& in) {
  if (!in.take_word("for")) return 1;
  const std::int32_t acts = read_int(in);
  in.expect_word("acts");
  return acts;
}

void read_edge(TextScanner& in, Block& block, const BlockNames& names) {
  const TextToken begin = in.peek();
  if (in.take_sign("<")) {
    const std::int32_t port = names.ports.read(in);
    if (port < 0 || port >= size_of(block.ports))
      in.refuse_at(begin,
                   fmt::format("there is no port #{}: the block has {}", port, block.ports.size()));
    in.expect_sign("->");
    at(block.ports, port).readers.push_back(names.actors.read(in));
    return;
  }
  Edge edge;
  edge.from_register = names.registers.read(in);
  in.expect_sign("->");
  edge.to_actor = names.actors.read(in);
  edge.consume_for = read_consume_for(in);
  edge.control = in.take_word("control");
  block.edges.push_back(edge);
}

// A block and what its statements so far have named.
struct BlockInProgress {
  Block block;
  BlockNames names;
  bool has_edges = false;  // said how it is connected
};

// One statement of a block; false, and nothing taken, where the next is of something else.
bool read_statement(TextScanner& in, BlockInProgress& progress) {
  Block& block = progress.block;
  if (in.take_word("frame")) {
    expect_position(in, block.frames.size(), "frame");
    block.frames.push_back(read_frame(in));
  } else if (in.take_word("register")) {
    block.registers.push_back(read_register(in));
    progress.names.registers.add(block.registers.back().name);
  } else if (in.take_word("port")) {
    Port port;
    port.name = in.name();
    port.local = read_type(in);
    progress.names.ports.add(port.name);
    block.ports.push_back(std::move(port));
  } else if (in.take_word("actor")) {
    block.actors.push_back(read_actor(in, block, progress.names));
    progress.names.actors.add(block.actors.back().name);
  } else if (!block.actors.empty() && in.take_word("inner")) {
    block.actors.back().inner.push_back(read_inner(in));
  } else if (!block.actors.empty() && in.take_word("member")) {
    block.actors.back().members.push_back(read_member(in, block.actors.back()));
  } else if (in.take_word("edge")) {
    read_edge(in, block, progress.names);
    progress.has_edges = true;
  } else if (in.take_word("no")) {
    in.expect_word("edges");
    progress.has_edges = true;
  } else {
    return false;
  }
  in.expect_end_of_line();
  return true;
}

Block read_block(TextScanner& in) {
  BlockInProgress progress;
  progress.block.name = in.name();
  progress.block.phase = read_parsed(in, parse_phase);
  in.expect_end_of_line();
  while (read_statement(in, progress)) {
  }
  if (!progress.has_edges) add_edges_of_operands(progress.block);
  return std::move(progress.block);
}

Instance read_instance(TextScanner& in, const NameTable& blocks) {
  Instance instance;
  instance.name = in.name();
  in.expect_word("of");
  instance.block = BlockId(blocks.read(in));
  if (in.take_word("layer")) instance.layer = read_int(in);
  if (in.take_word("acts")) instance.acts_per_step = read_int(in);
  return instance;
}

FrameBinding read_slots(TextScanner& in) {
  FrameBinding binding;
  binding.num_registers = read_int(in);
  in.expect_word("registers");
  binding.slot_of_content = read_list(in, read_int);
  in.expect_word("at");
  binding.slot_offsets = read_list(in, read_bytes);
  return binding;
}

InstanceNames read_names(TextScanner& in) {
  InstanceNames names;
  in.expect_word("actors");
  names.actors = read_list(in, read_name);
  in.expect_word("registers");
  names.registers = read_list(in, read_name);
  in.expect_word("members");
  names.members = read_list(in, read_name);
  return names;
}

ArenaPlan read_arena(TextScanner& in) {
  ArenaPlan arena;
  arena.size = read_bytes(in);
  in.expect_word("lower_bound");
  arena.lower_bound = read_bytes(in);
  in.expect_word("peaks");
  arena.peak_by_class = read_list(in, read_size);
  return arena;
}

// A program and what its statements so far have named.
struct ProgramInProgress {
  RankProgram program;
  NameTable instances{"instance"};
  std::vector<std::shared_ptr<const BlockNames>> names;  // by instance

  // Of an instance written as a position that none has: it has no names.
  const BlockNames& names_of(InstanceId instance) const {
    static const BlockNames kNone;
    const bool exists = instance.value >= 0 && instance.index() < names.size();
    return exists ? *names[instance.index()] : kNone;
  }
};

Link read_link(TextScanner& in, const ProgramInProgress& progress) {
  Link link;
  link.from = InstanceId(progress.instances.read(in));
  link.from_register = progress.names_of(link.from).registers.read(in);
  in.expect_sign("->");
  link.to = InstanceId(progress.instances.read(in));
  in.expect_sign("<");
  link.to_port = progress.names_of(link.to).ports.read(in);
  link.consume_for = read_consume_for(in);
  return link;
}

Run read_run(TextScanner& in, const ProgramInProgress& progress) {
  Run run;
  run.instance = InstanceId(progress.instances.read(in));
  in.expect_word("act");
  run.act = read_int(in);
  const TextToken first = in.peek();
  const NameTable& actors = progress.names_of(run.instance).actors;
  run.first_actor = actors.read(in);
  const std::int32_t last = in.take_word("to") ? actors.read(in) : run.first_actor;
  const std::int64_t num_actors = std::int64_t{last} - run.first_actor + 1;
  if (num_actors < kLeastInt || num_actors > kMostInt)
    in.refuse_at(first, fmt::format("#{} to #{} are too many actors", run.first_actor, last));
  run.num_actors = static_cast<std::int32_t>(num_actors);
  if (in.take_word("launch_group")) run.launch_group = LaunchGroupId(read_count(in));
  return run;
}

Guard read_guard(TextScanner& in) {
  Guard guard;
  guard.later = RunId(read_position(in));
  in.expect_word("after");
  guard.earlier = RunId(read_position(in));
  if (in.take_word("lag")) guard.lag = read_int(in);
  return guard;
}

// What programs and ranks refer to.
struct GraphNames {
  NameTable blocks{"block"}, programs{"program"}, groups{"group"};
};

// One statement of a program; false, and nothing taken, where the next is of something else.
bool read_statement(TextScanner& in, ProgramInProgress& progress, const GraphNames& names,
                    const InstanceNameTables& tables) {
  RankProgram& program = progress.program;
  if (in.take_word("arena")) {
    program.arena = read_arena(in);
  } else if (in.take_word("instance")) {
    program.instances.push_back(read_instance(in, names.blocks));
    progress.instances.add(program.instances.back().name);
    progress.names.push_back(tables.of(program.instances.back()));
  } else if (!program.instances.empty() && in.take_word("slots")) {
    std::vector<FrameBinding>& frames = program.instances.back().frames;
    expect_position(in, frames.size(), "frame");
    frames.push_back(read_slots(in));
  } else if (!program.instances.empty() && in.take_word("names")) {
    program.instances.back().names = read_names(in);
    progress.names.back() = tables.of(program.instances.back());
  } else if (in.take_word("link")) {
    program.links.push_back(read_link(in, progress));
  } else if (in.take_word("run")) {
    program.order.push_back(read_run(in, progress));
  } else if (in.take_word("guard")) {
    program.guards.push_back(read_guard(in));
  } else {
    return false;
  }
  in.expect_end_of_line();
  return true;
}

RankProgram read_program(TextScanner& in, const GraphNames& names,
                         const InstanceNameTables& tables) {
  ProgramInProgress progress;
  progress.program.name = in.name();
  in.expect_word("on");
  progress.program.placement = PlacementId(read_position(in));
  if (in.take_word("roles")) progress.program.num_group_roles = read_count(in);
  in.expect_end_of_line();
  while (read_statement(in, progress, names, tables)) {
  }
  return std::move(progress.program);
}

RankBinding read_rank(TextScanner& in, const GraphNames& names) {
  RankBinding binding;
  binding.program = ProgramId(names.programs.read(in));
  in.expect_word("at");
  binding.index_in_placement = read_int(in);
  const auto group = [&](TextScanner& from) { return GroupId(names.groups.read(from)); };
  if (in.peek().text == "{") binding.groups = read_list(in, group);
  return binding;
}

GraphHeader read_header(TextScanner& in) {
  GraphHeader header;
  in.expect_word("graph");
  header.version = read_int(in);
  if (in.take_word("model")) header.model_hash = in.name();
  if (in.take_word("cluster")) header.cluster_hash = in.name();
  if (in.take_word("plan")) header.plan_hash = in.name();
  in.expect_end_of_line();
  return header;
}

// Statements of one line outside blocks and programs; false where the next is none of them.
bool read_short_statement(TextScanner& in, PhysicalGraph& graph, GraphNames& names) {
  if (in.take_word("placement")) {
    expect_position(in, graph.placements.size(), "placement");
    graph.placements.push_back(read_placement(in));
  } else if (in.take_word("layout")) {
    expect_position(in, graph.layouts.size(), "layout");
    graph.layouts.push_back(read_layout(in));
  } else if (in.take_word("group")) {
    DeviceGroup group;
    group.name = in.name();
    group.ranks = read_ranks(in);
    names.groups.add(group.name);
    graph.groups.push_back(std::move(group));
  } else if (in.take_word("rank")) {
    expect_position(in, graph.ranks.size(), "rank");
    graph.ranks.push_back(read_rank(in, names));
  } else {
    return false;
  }
  in.expect_end_of_line();
  return true;
}

// Blocks stand before programs, so that names of actors are known where runs use them.
void read_statements(TextScanner& in, PhysicalGraph& graph) {
  GraphNames names;
  std::optional<InstanceNameTables> tables;
  while (in.peek().kind != TextToken::Kind::kEnd) {
    if (read_short_statement(in, graph, names)) continue;
    if (!tables && in.take_word("block")) {
      graph.blocks.push_back(read_block(in));
      names.blocks.add(graph.blocks.back().name);
    } else if (in.take_word("program")) {
      if (!tables) tables.emplace(graph.blocks);
      graph.programs.push_back(read_program(in, names, *tables));
      names.programs.add(graph.programs.back().name);
    } else {
      in.refuse_next(tables ? "placement, layout, group, program or rank, or a statement of the "
                              "program; blocks stand before programs"
                            : "placement, layout, block, group, program or rank, or a statement of "
                              "the block");
    }
  }
}

}  // namespace

PhysicalGraph physical_graph_from_text(std::string_view text, std::string origin) {
  TextScanner in(text, std::move(origin));
  PhysicalGraph graph;
  graph.header = read_header(in);
  read_statements(in, graph);
  return graph;
}

}  // namespace sextant
