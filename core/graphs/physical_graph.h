// The waist: what the compiler hands to the actors. A value without pointers: it can be printed,
// read back (core/graphs/physical_graph_text.h), compared and validated. Terms and rules are in
// actor/README.md.
//
// Programs exist once per *class* of ranks, blocks once per distinct layer; what differs between
// the ranks of a class is in RankBinding.
#pragma once

#include "core/base/at.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/graphs/phase.h"
#include "core/graphs/work.h"
#include "core/tensors/attributes.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Which in-order queue of a device a run goes to. Transfers of different direction have queues of
// their own, so that a forward activation never waits behind a gradient.
enum class QueueRole : std::uint8_t {
  kCompute,
  kCollective,
  kTransferOutForward,
  kTransferOutBackward,
  kTransferInForward,
  kTransferInBackward,
  kCopyIn,
  kCopyOut,
  kHost,  // host actors; never in the issue order
};
inline constexpr std::size_t kNumQueueRoles = 9;
std::string_view to_string(QueueRole role);

enum class MemoryClass : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kWorkspace,
  kCommunication,
};
inline constexpr std::size_t kNumMemoryClasses = 6;
std::string_view to_string(MemoryClass memory);

enum class Region : std::uint8_t { kPrivate, kSymmetric, kPinnedHost };
std::string_view to_string(Region region);

// How a global tensor lives on a placement. Registers and communications refer to one.
struct Layout {
  TensorType global;
  NdSbp words;
  PlacementId placement;
  bool operator==(const Layout&) const = default;
};

enum class Primitive : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,  // per-peer boxes, so uneven shards are exact
  kBroadcast,
  kShift,     // every part to the next member of the group, that of the last to the first
  kTransfer,  // from placement to placement; a rank of both has both halves in one
};
std::string_view to_string(Primitive primitive);

// Which part of a transfer this actor is: both on ranks of both placements. Collectives are both.
enum class Side : std::uint8_t { kBoth, kSend, kReceive };
std::string_view to_string(Side side);

// Index into RankBinding::groups: "my tensor-parallel group".
using GroupRole = std::int32_t;

// Everything two members must agree on (invariant 8) is derived from this value and the layouts:
// each member's bytes are the intersection of its box under `from` with the peers' boxes under
// `to`. For a transfer `from` lives on the senders' placement and `to` on the receivers', which
// may share ranks; a collective stays on one placement.
struct Communication {
  Primitive primitive = Primitive::kAllReduce;
  Side side = Side::kBoth;
  GroupRole group = 0;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  LayoutId from, to;
  bool operator==(const Communication&) const = default;
};

// What an actor reads or writes: a register of its own block, or an input port of it.
struct Operand {
  enum class Source : std::uint8_t { kRegister, kPort };
  Source source = Source::kRegister;
  std::int32_t index = 0;
  bool operator==(const Operand&) const = default;
};

// One operator of a fused actor. A device without a kernel for the whole runs the members in order.
struct ActorMember {
  // An input or an output of the actor, or a tensor that only its members see.
  struct Operand {
    enum class Source : std::uint8_t { kInput, kOutput, kInner };
    Source source = Source::kInput;
    std::int32_t index = 0;
    bool operator==(const Operand&) const = default;
  };
  std::string kind;  // operator registry
  std::string name;
  Attributes attributes;
  std::vector<Operand> in, out;
  bool operator==(const ActorMember&) const = default;
};

// A tensor inside a fused actor: it lives while the actor acts and has no bytes in the arena.
struct InnerTensor {
  std::string name;
  LayoutId layout;
  TensorType local;  // this class's part
  bool operator==(const InnerTensor&) const = default;
};

struct Actor {
  // Operator registry; "all_reduce" ... for communications; of core/graphs/fused_kinds.h for fused
  // actors; of io/data/sample_data.h for host actors before an input.
  std::string kind;
  // Of the logical operator, "attention.q": in the instance that the block was made for (see
  // InstanceNames).
  std::string name;
  Attributes attributes;
  Phase phase = Phase::kForward;
  QueueRole queue = QueueRole::kCompute;
  std::vector<Operand> in;
  std::vector<std::int32_t> out;  // registers of the block; each register has one writer
  Work work;
  std::optional<Communication> communication;
  // Output `out` uses the bytes of input `in` (never of a port). The other readers of that input
  // come earlier in the block. State registers need no alias: they are outputs only.
  struct InPlace {
    std::int32_t in = 0, out = 0;
    bool operator==(const InPlace&) const = default;
  };
  std::optional<InPlace> in_place;
  // Of a fused actor; its attributes are those of the members.
  std::vector<ActorMember> members = {};
  std::vector<InnerTensor> inner = {};
  bool operator==(const Actor&) const = default;
};

struct Register {
  std::string name;
  LayoutId layout;
  TensorType local;        // this class's part
  std::int32_t frame = 0;  // of the block
  Bytes offset;            // in the frame, a multiple of kBufferAlignment
  bool operator==(const Register&) const = default;
};
inline constexpr std::int64_t kBufferAlignment = 256;
// The least multiple of kBufferAlignment that is not less.
constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Registers that live equally long: one credit, one slot, one lifetime.
struct Frame {
  Bytes size;
  MemoryClass memory = MemoryClass::kActivations;
  Region region = Region::kPrivate;
  // This many acts of the writers fill one content: the first overwrites, the others accumulate.
  std::int32_t acts_per_content = 1;
  // State: content 0 exists before the first step and has been Req'ed to all readers; the writer
  // updates it in place.
  bool initially_full = false;
  bool operator==(const Frame&) const = default;
};

// Data from a register to a reader inside one block. A reader in the producer's own run needs no
// message but still has its edge: lifetimes follow edges.
struct Edge {
  std::int32_t from_register = 0;
  std::int32_t to_actor = 0;
  std::int32_t consume_for = 1;
  bool control = false;  // orders the acts, carries no bytes
  bool operator==(const Edge&) const = default;
};

// A value that enters the block from another instance.
struct Port {
  std::string name;
  TensorType local;
  std::vector<std::int32_t> readers;  // actors of the block
  bool operator==(const Port&) const = default;
};

// Template of one layer and phase, compiled once and used by many instances.
struct Block {
  std::string name;  // "layer.forward"
  Phase phase = Phase::kForward;
  std::vector<Actor> actors;  // in execution order within an act
  std::vector<Register> registers;
  std::vector<Frame> frames;
  std::vector<Edge> edges;
  std::vector<Port> ports;
  bool operator==(const Block&) const = default;
};

// Quota and addresses of a block's frame in one instance.
struct FrameBinding {
  std::int32_t num_registers = 1;             // contents in flight = credits
  std::vector<std::int32_t> slot_of_content;  // contents of one step -> slot; the same each step
  std::vector<Bytes> slot_offsets;            // in the arena, multiples of kBufferAlignment
  bool operator==(const FrameBinding&) const = default;
};

// What an instance calls the actors and registers of its block, where these are not the names that
// the block has from the instance it was made for. Whoever tells operators apart by name, or speaks
// of one, asks the instance: a block may serve two inputs that differ in nothing else.
struct InstanceNames {
  std::vector<std::string> actors, registers;  // one per actor and register of the block, or none
  std::vector<std::string> members;  // of all fused actors, in order; as many as the block has
  bool operator==(const InstanceNames&) const = default;
};

struct Instance {
  BlockId block;
  int layer = 0;
  std::string name;  // "layer7.forward"
  std::int32_t acts_per_step = 1;
  std::vector<FrameBinding> frames;  // one per frame of the block
  InstanceNames names = {};
  bool operator==(const Instance&) const = default;
};

// An edge between instances of one rank: every reader of the port consumes.
struct Link {
  InstanceId from;
  std::int32_t from_register = 0;
  InstanceId to;
  std::int32_t to_port = 0;
  std::int32_t consume_for = 1;
  bool operator==(const Link&) const = default;
};

// One entry of the issue order: consecutive actors of an instance on one queue, for one act.
struct Run {
  InstanceId instance;
  std::int32_t first_actor = 0;
  std::int32_t num_actors = 0;
  std::int32_t act = 0;  // within the step
  // Neighbours in the order with the same group start together; none: the run starts alone.
  LaunchGroupId launch_group = {};
  bool operator==(const Run&) const = default;
};

// `later` waits for `earlier` because it writes bytes that `earlier` used (invariant 7).
struct Guard {
  RunId later, earlier;
  std::int32_t lag = 0;  // 0: same step, 1: `earlier` of the previous step
  bool operator==(const Guard&) const = default;
};

struct ArenaPlan {
  Bytes size;
  Bytes lower_bound;                 // most bytes live at one time, the packing cannot be below
  std::vector<Bytes> peak_by_class;  // kNumMemoryClasses entries
  bool operator==(const ArenaPlan&) const = default;
};

struct RankProgram {
  std::string name;  // "stage0"
  // Where its ranks have their index. Its registers may be laid out on any placement that holds all
  // of its ranks: whoever is on both sides of a transfer holds parts of two.
  PlacementId placement;
  Table<InstanceId, Instance> instances;
  std::vector<Link> links;
  Table<RunId, Run> order;  // of one step, over all queues; a queue's order is its restriction
  std::vector<Guard> guards;
  ArenaPlan arena;
  std::int32_t num_group_roles = 0;
  bool operator==(const RankProgram&) const = default;
};

struct DeviceGroup {
  std::string name;         // "stage0.tp[1]"
  std::vector<Rank> ranks;  // ordered
  bool operator==(const DeviceGroup&) const = default;
};

struct RankBinding {
  ProgramId program;
  std::int32_t index_in_placement = 0;  // of the program: gives coordinates and so shards' offsets
  std::vector<GroupId> groups;          // by GroupRole
  bool operator==(const RankBinding&) const = default;
};

struct GraphHeader {
  std::int32_t version = 1;
  std::string model_hash, cluster_hash, plan_hash;
  bool operator==(const GraphHeader&) const = default;
};

struct PhysicalGraph {
  GraphHeader header;
  Table<PlacementId, Placement> placements;
  Table<LayoutId, Layout> layouts;
  Table<BlockId, Block> blocks;
  Table<ProgramId, RankProgram> programs;
  Table<Rank, RankBinding> ranks;
  Table<GroupId, DeviceGroup> groups;
  bool operator==(const PhysicalGraph&) const = default;

  const RankProgram& program_of(Rank rank) const { return programs[ranks[rank].program]; }
  const Block& block_of(const Instance& instance) const { return blocks[instance.block]; }
  const std::string& actor_name(const Instance& instance, std::int32_t actor) const {
    return instance.names.actors.empty() ? at(block_of(instance).actors, actor).name
                                         : at(instance.names.actors, actor);
  }
  const std::string& register_name(const Instance& instance, std::int32_t reg) const {
    return instance.names.registers.empty() ? at(block_of(instance).registers, reg).name
                                            : at(instance.names.registers, reg);
  }
};

std::int64_t num_members(const Block& block);  // of all its fused actors
// An actor of the instance's block under the names of the instance.
Actor named_actor(const PhysicalGraph& graph, const Instance& instance, std::int32_t actor);

// Box of global indices a rank holds of a register with this layout.
Shard shard_of(const PhysicalGraph& graph, LayoutId layout, Rank rank);

// One message per broken rule; empty means valid. Rules are listed over the definition in
// core/validator/physical_graph_validator.cpp. Byte order (invariant 7) is checked by
// actor/bytes/byte_order.h.
std::vector<std::string> validate(const PhysicalGraph& graph);

}  // namespace sextant
