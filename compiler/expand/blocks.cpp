// Forms by signature: the work on an instance whose form is known is one pass over integers.
#include "compiler/expand/blocks.h"

#include "compiler/memory/in_place.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/graphs/views.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

// "layer3.attention.q" -> "attention.q": the block is that of every layer.
std::string_view without_layer(std::string_view name) {
  constexpr std::string_view kLayer = "layer";
  if (!name.starts_with(kLayer)) return name;
  std::size_t end = kLayer.size();
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (end == kLayer.size() || end + 1 >= name.size() || name[end] != '.') return name;
  return name.substr(end + 1);
}

// Data and first contents are drawn by the name of an operator, so such names stay whole: inputs
// `layer0.mask` and `layer1.mask` are two.
std::string_view actor_name(const StagedOp& op) {
  const bool is_drawn = op.queue == QueueRole::kHost || op.role == OperatorRole::kParameter;
  return is_drawn ? std::string_view(op.name) : without_layer(op.name);
}

std::uint64_t hash_of(const Attributes& attributes) {
  Fnv1a hash;
  for (const auto& [name, value] : attributes.entries()) {
    hash.add(name).add(static_cast<std::int64_t>(value.index()));
    if (const auto* integer = std::get_if<std::int64_t>(&value)) hash.add(*integer);
    if (const auto* text = std::get_if<std::string>(&value)) hash.add(*text);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
      for (const std::int64_t element : *list) hash.add(element);
  }
  return hash.value();
}

}  // namespace

std::string instance_name(const StagedGraph& graph, const InstanceSpec& instance) {
  if (instance.part == StepPart::kTransfer || instance.part == StepPart::kHost)
    return at(graph.ops, instance.ops.front()).name;
  return fmt::format("layer{}.{}", instance.layer, to_string(instance.part));
}

namespace {

// How a member of a fused operator sees a tensor.
ActorMember::Operand member_operand(const StagedOp& op, StagedTensorIndex tensor) {
  using Source = ActorMember::Operand::Source;
  const auto position = [&](const std::vector<StagedTensorIndex>& tensors) {
    return static_cast<std::int32_t>(std::find(tensors.begin(), tensors.end(), tensor) -
                                     tensors.begin());
  };
  if (const std::int32_t index = position(op.out); index < std::ssize(op.out))
    return {Source::kOutput, index};
  if (const std::int32_t index = position(op.inner); index < std::ssize(op.inner))
    return {Source::kInner, index};
  return {Source::kInput, position(op.in)};
}

ActorMember make_member(const StagedOp& op, const StagedMember& member) {
  ActorMember made;
  made.kind = member.kind;
  made.name = without_layer(member.name);
  made.attributes = member.attributes;
  for (const StagedTensorIndex in : member.in) made.in.push_back(member_operand(op, in));
  for (const StagedTensorIndex out : member.out) made.out.push_back(member_operand(op, out));
  return made;
}

}  // namespace

BlockForms::BlockForms(const Partition& partition, const LayoutTable& layouts,
                       const GroupTable& groups, const Options& options)
    : partition_(&partition), layouts_(&layouts), groups_(&groups), options_(options) {
  number_registers();
  const auto num_instances = static_cast<std::int32_t>(partition.instances().size());
  for (std::int32_t instance = 0; instance < num_instances; ++instance) {
    ports_.push_back(find_ports(instance));
    const Homes homes = homes_of(instance);
    Signature wanted = signature(instance, homes);
    Fnv1a hash;
    for (const std::int64_t symbol : wanted) hash.add(symbol);
    std::vector<std::int32_t>& bucket = by_hash_[hash.value()];
    const auto known = std::find_if(bucket.begin(), bucket.end(), [&](std::int32_t form) {
      return at(signatures_, form) == wanted;
    });
    if (known != bucket.end()) {
      form_of_.push_back(*known);
      continue;
    }
    form_of_.push_back(num_forms());
    bucket.push_back(num_forms());
    first_instance_.push_back(instance);
    forms_.push_back(make_form(instance, homes));
    signatures_.push_back(std::move(wanted));
  }
}

std::int32_t BlockForms::form_of(std::int32_t instance) const { return at(form_of_, instance); }
const Block& BlockForms::form(std::int32_t form) const { return at(forms_, form); }
int BlockForms::stage_of(std::int32_t form) const {
  return at(partition_->instances(), at(first_instance_, form)).stage;
}
std::vector<LayoutId> BlockForms::port_layouts(std::int32_t form) const {
  std::vector<LayoutId> layouts;
  for (const StagedTensorIndex tensor : ports(at(first_instance_, form)))
    layouts.push_back(layouts_->of(tensor));
  return layouts;
}
std::span<const StagedTensorIndex> BlockForms::ports(std::int32_t instance) const {
  return at(ports_, instance);
}
InstanceNames BlockForms::names(std::int32_t instance) const {
  InstanceNames names;
  if (calls_all_as_its_form(instance)) return names;
  const StagedGraph& graph = partition_->graph();
  for (const StagedOpIndex index : at(partition_->instances(), instance).ops) {
    const StagedOp& op = at(graph.ops, index);
    names.actors.emplace_back(actor_name(op));
    for (const StagedMember& member : op.members)
      names.members.emplace_back(without_layer(member.name));
    for (const StagedTensorIndex out : op.out)
      names.registers.emplace_back(without_layer(at(graph.tensors, out).name));
  }
  return names;
}

// Operators of two instances of one form correspond one to one.
bool BlockForms::calls_all_as_its_form(std::int32_t instance) const {
  const StagedGraph& graph = partition_->graph();
  const auto same_op = [&](StagedOpIndex mine, StagedOpIndex other) {
    const StagedOp &a = at(graph.ops, mine), &b = at(graph.ops, other);
    return actor_name(a) == actor_name(b) &&
           std::equal(a.members.begin(), a.members.end(), b.members.begin(),
                      [](const StagedMember& x, const StagedMember& y) {
                        return without_layer(x.name) == without_layer(y.name);
                      }) &&
           std::equal(a.out.begin(), a.out.end(), b.out.begin(),
                      [&](StagedTensorIndex x, StagedTensorIndex y) {
                        return without_layer(at(graph.tensors, x).name) ==
                               without_layer(at(graph.tensors, y).name);
                      });
  };
  const std::vector<StagedOpIndex>& ops = at(partition_->instances(), instance).ops;
  const std::int32_t first = at(first_instance_, form_of(instance));
  return std::equal(ops.begin(), ops.end(), at(partition_->instances(), first).ops.begin(),
                    same_op);
}
std::int32_t BlockForms::register_of(StagedTensorIndex tensor) const {
  return at(register_of_, tensor);
}

void BlockForms::number_registers() {
  register_of_.assign(partition_->graph().tensors.size(), -1);
  for (const InstanceSpec& instance : partition_->instances()) {
    std::int32_t next = 0;
    for (const StagedOpIndex op : instance.ops)
      for (const StagedTensorIndex out : at(partition_->graph().ops, op).out)
        at(register_of_, out) = next++;
  }
}

std::vector<StagedTensorIndex> BlockForms::find_ports(std::int32_t instance) const {
  std::vector<StagedTensorIndex> ports;
  for (const StagedOpIndex op : at(partition_->instances(), instance).ops)
    for (const StagedTensorIndex in : at(partition_->graph().ops, op).in) {
      const StagedOpIndex producer = at(partition_->graph().tensors, in).producer;
      if (partition_->place(producer).instance == instance) continue;
      if (std::find(ports.begin(), ports.end(), in) == ports.end()) ports.push_back(in);
    }
  return ports;
}

Operand BlockForms::operand(std::int32_t instance, StagedTensorIndex tensor) const {
  const StagedOpIndex producer = at(partition_->graph().tensors, tensor).producer;
  if (partition_->place(producer).instance == instance)
    return {Operand::Source::kRegister, register_of(tensor)};
  const auto& ports = at(ports_, instance);
  const auto port = std::find(ports.begin(), ports.end(), tensor) - ports.begin();
  return {Operand::Source::kPort, static_cast<std::int32_t>(port)};
}

BlockForms::FrameKey BlockForms::frame_key(std::int32_t instance, StagedTensorIndex tensor) const {
  const StagedGraph& graph = partition_->graph();
  const StagedTensor& staged = at(graph.tensors, tensor);
  FrameKey key;
  key.frame.memory = staged.memory;
  key.frame.initially_full = staged.is_state;
  // One updater, one time: who reads the state makes no difference to when its bytes are used. But
  // the updaters' own instance may read one state behind the update of another (LAMB).
  if (staged.is_state) {
    const auto readers = partition_->readers(tensor);
    if (std::any_of(readers.begin(), readers.end(), [&](StagedOpIndex reader) {
          return partition_->place(reader).instance == instance;
        }))
      key.first = key.last = partition_->place(staged.producer).actor;
    return key;
  }
  key.frame.acts_per_content = static_cast<std::int32_t>(partition_->acts_per_content(tensor));
  key.host = at(graph.ops, staged.producer).queue == QueueRole::kHost;
  key.first = key.last = partition_->place(staged.producer).actor;
  for (const StagedOpIndex reader : partition_->readers(tensor)) {
    const ActorPlace place = partition_->place(reader);
    key.host = key.host || at(graph.ops, reader).queue == QueueRole::kHost;
    if (place.instance == instance)
      key.last = std::max(key.last, place.actor);
    else if (std::find(key.readers.begin(), key.readers.end(), place.instance) == key.readers.end())
      key.readers.push_back(place.instance);
  }
  std::sort(key.readers.begin(), key.readers.end());
  if (!key.readers.empty()) key.first = key.last = 0;
  return key;
}

// Both are made in this instance, once per act, and no host actor touches them.
bool BlockForms::may_take_over(std::int32_t instance, StagedOpIndex op,
                               StagedTensorIndex in) const {
  const StagedGraph& graph = partition_->graph();
  const StagedTensorIndex out = at(graph.ops, op).out.front();
  const StagedTensor& from = at(graph.tensors, in);
  const StagedTensor& to = at(graph.tensors, out);
  if (from.is_state || to.is_state || from.memory != to.memory) return false;
  if (partition_->place(from.producer).instance != instance) return false;
  if (partition_->acts_per_content(in) != 1 || partition_->acts_per_content(out) != 1) return false;
  if (at(graph.ops, from.producer).queue == QueueRole::kHost) return false;
  const auto is_on_host = [&](StagedOpIndex reader) {
    return at(graph.ops, reader).queue == QueueRole::kHost;
  };
  const auto before = partition_->readers(in), after = partition_->readers(out);
  return std::none_of(before.begin(), before.end(), is_on_host) &&
         std::none_of(after.begin(), after.end(), is_on_host);
}

// All that hold the value die with the operator: what reads them is in the same act and not later.
bool BlockForms::may_overwrite(std::int32_t instance, StagedOpIndex op,
                               std::span<const StagedTensorIndex> holders) const {
  const std::int32_t actor = partition_->place(op).actor;
  const auto dies_here = [&](StagedOpIndex reader) {
    const ActorPlace place = partition_->place(reader);
    return place.instance == instance && place.actor <= actor;
  };
  return std::all_of(holders.begin(), holders.end(), [&](StagedTensorIndex holder) {
    const auto readers = partition_->readers(holder);
    return std::all_of(readers.begin(), readers.end(), dies_here);
  });
}

void BlockForms::find_in_place(std::int32_t instance, Homes& homes) {
  const StagedGraph& graph = partition_->graph();
  // By register: the first one that holds its value in its bytes; for those, all that do.
  std::vector<std::int32_t> root;
  std::vector<std::vector<StagedTensorIndex>> holders;
  for (const StagedOpIndex index : at(partition_->instances(), instance).ops) {
    const StagedOp& op = at(graph.ops, index);
    const auto first = static_cast<std::int32_t>(root.size());
    for (const StagedTensorIndex out : op.out) {
      root.push_back(static_cast<std::int32_t>(root.size()));
      holders.push_back({out});
    }
    homes.taken_from.resize(root.size(), -1);
    homes.is_view.resize(root.size(), false);
    if (!options_.in_place || op.communication || op.queue != QueueRole::kCompute) continue;
    if (op.role == OperatorRole::kView) {
      if (!may_take_over(instance, index, op.in.front())) continue;
      const std::int32_t seen = register_of(op.in.front());
      at(homes.taken_from, first) = seen;
      homes.is_view[static_cast<std::size_t>(first)] = true;
      at(root, first) = at(root, seen);
      at(holders, at(root, seen)).push_back(op.out.front());
      continue;
    }
    for (const std::size_t input : kind_of(op.kind).overwrites) {
      if (input >= op.in.size()) continue;
      const StagedTensorIndex in = op.in[input];
      if (!may_take_over(instance, index, in) || layouts_->of(in) != layouts_->of(op.out.front()) ||
          !may_overwrite(instance, index, at(holders, at(root, register_of(in)))))
        continue;
      at(homes.taken_from, first) = register_of(in);
      break;
    }
  }
}

bool BlockForms::is_collective_buffer(StagedTensorIndex tensor) const {
  const StagedGraph& graph = partition_->graph();
  const auto is_collective = [&](StagedOpIndex op) {
    const auto& communication = at(graph.ops, op).communication;
    return communication && communication->primitive != Primitive::kTransfer;
  };
  const auto readers = partition_->readers(tensor);
  return is_collective(at(graph.tensors, tensor).producer) ||
         std::any_of(readers.begin(), readers.end(), is_collective);
}

void BlockForms::extend(FrameKey& key, const FrameKey& tenant, bool is_view) {
  const std::int32_t first = key.first, last = key.last;
  std::vector<std::int32_t> readers = tenant.readers;
  if (is_view)
    for (const std::int32_t reader : key.readers)
      if (std::find(readers.begin(), readers.end(), reader) == readers.end())
        readers.push_back(reader);
  std::sort(readers.begin(), readers.end());
  key = tenant;
  key.readers = std::move(readers);
  key.first = key.readers.empty() ? first : 0;
  key.last = key.readers.empty() ? std::max(last, tenant.last) : 0;
}

BlockForms::Homes BlockForms::homes_of(std::int32_t instance) {
  Homes homes;
  find_in_place(instance, homes);
  std::vector<FrameKey> of_register;
  std::vector<bool> collective;
  for (const StagedOpIndex op : at(partition_->instances(), instance).ops)
    for (const StagedTensorIndex out : at(partition_->graph().ops, op).out) {
      of_register.push_back(frame_key(instance, out));
      collective.push_back(options_.symmetric && is_collective_buffer(out));
    }
  // Bytes that are passed on live from their first writer to the last reader of their last tenant;
  // those of a value with views, to the last reader of any.
  for (std::size_t reg = of_register.size(); reg-- > 0;) {
    const std::int32_t from = homes.taken_from[reg];
    if (from >= 0) extend(at(of_register, from), of_register[reg], homes.is_view[reg]);
  }
  for (std::size_t reg = 0; reg < of_register.size(); ++reg) {
    if (const std::int32_t from = homes.taken_from[reg]; from >= 0) {
      homes.frame.push_back(at(homes.frame, from));
      continue;
    }
    const auto known = std::find(homes.keys.begin(), homes.keys.end(), of_register[reg]);
    homes.frame.push_back(static_cast<std::int32_t>(known - homes.keys.begin()));
    if (known == homes.keys.end()) homes.keys.push_back(std::move(of_register[reg]));
  }
  for (std::size_t reg = 0; reg < collective.size(); ++reg)
    if (collective[reg]) at(homes.keys, homes.frame[reg]).frame.region = Region::kSymmetric;
  return homes;
}

const BlockForms::Kind& BlockForms::kind_of(const std::string& kind) {
  const auto [entry, is_new] = kinds_.try_emplace(kind);
  if (is_new) entry->second = {static_cast<std::int64_t>(kinds_.size()), overwritten_inputs(kind)};
  return entry->second;
}

std::int64_t BlockForms::attributes_symbol(const Attributes& attributes) {
  if (attributes.entries().empty()) return -1;
  auto& bucket = attributes_[hash_of(attributes)];
  for (const auto& [known, symbol] : bucket)
    if (*known == attributes) return symbol;
  bucket.emplace_back(&attributes, num_attributes_);
  return num_attributes_++;
}

void BlockForms::sign_actor(std::int32_t instance, StagedOpIndex op, Signature& signature) {
  const StagedOp& staged = at(partition_->graph().ops, op);
  signature.insert(
      signature.end(),
      {kind_of(staged.kind).symbol, attributes_symbol(staged.attributes),
       static_cast<std::int64_t>(staged.phase), static_cast<std::int64_t>(staged.queue),
       static_cast<std::int64_t>(staged.in.size()), static_cast<std::int64_t>(staged.out.size())});
  for (const StagedTensorIndex in : staged.in) {
    const Operand source = operand(instance, in);
    signature.push_back(source.source == Operand::Source::kPort ? -1 - source.index : source.index);
  }
  for (const StagedMember& member : staged.members) {
    signature.insert(signature.end(),
                     {kind_of(member.kind).symbol, attributes_symbol(member.attributes)});
    for (const auto* operands : {&member.in, &member.out})
      for (const StagedTensorIndex tensor : *operands) {
        const ActorMember::Operand seen = member_operand(staged, tensor);
        signature.insert(signature.end(), {static_cast<std::int64_t>(seen.source), seen.index});
      }
  }
  for (const StagedTensorIndex inner : staged.inner) signature.push_back(layouts_->of(inner).value);
  if (!staged.communication) return;
  signature.insert(signature.end(),
                   {static_cast<std::int64_t>(staged.communication->primitive),
                    static_cast<std::int64_t>(staged.communication->side), groups_->role(op),
                    static_cast<std::int64_t>(staged.communication->reduce),
                    static_cast<std::int64_t>(staged.communication->dtype),
                    layouts_->from(op).value, layouts_->to(op).value});
}

BlockForms::Signature BlockForms::signature(std::int32_t instance, const Homes& homes) {
  const InstanceSpec& spec = at(partition_->instances(), instance);
  Signature signature{spec.stage, static_cast<std::int64_t>(spec.part),
                      static_cast<std::int64_t>(spec.ops.size())};
  for (const StagedOpIndex op : spec.ops) sign_actor(instance, op, signature);
  std::size_t reg = 0;
  for (const StagedOpIndex op : spec.ops)
    for (const StagedTensorIndex out : at(partition_->graph().ops, op).out) {
      signature.push_back(layouts_->of(out).value);
      signature.push_back(homes.frame[reg]);
      signature.push_back(homes.taken_from[reg++]);
    }
  for (const FrameKey& key : homes.keys)
    signature.insert(signature.end(),
                     {static_cast<std::int64_t>(key.frame.memory), key.frame.acts_per_content,
                      static_cast<std::int64_t>(key.frame.initially_full),
                      static_cast<std::int64_t>(key.frame.region)});
  for (const StagedTensorIndex port : at(ports_, instance))
    signature.push_back(layouts_->of(port).value);
  return signature;
}

Actor BlockForms::make_actor(std::int32_t instance, StagedOpIndex op) const {
  const StagedOp& staged = at(partition_->graph().ops, op);
  Actor actor;
  actor.kind = staged.kind;
  actor.name = actor_name(staged);
  actor.attributes = staged.attributes;
  actor.phase = staged.phase;
  actor.queue = staged.queue;
  for (const StagedTensorIndex in : staged.in) actor.in.push_back(operand(instance, in));
  for (const StagedTensorIndex out : staged.out) actor.out.push_back(register_of(out));
  for (const StagedMember& member : staged.members)
    actor.members.push_back(make_member(staged, member));
  for (const StagedTensorIndex inner : staged.inner)
    actor.inner.push_back({std::string(without_layer(at(partition_->graph().tensors, inner).name)),
                           layouts_->of(inner), TensorType{}});
  if (staged.communication)
    actor.communication = Communication{staged.communication->primitive,
                                        staged.communication->side,
                                        groups_->role(op),
                                        staged.communication->reduce,
                                        staged.communication->dtype,
                                        layouts_->from(op),
                                        layouts_->to(op)};
  return actor;
}

void BlockForms::mark_in_place(Actor& actor, const Homes& homes) const {
  if (actor.out.empty()) return;
  const std::int32_t from = at(homes.taken_from, actor.out.front());
  if (from < 0) return;
  const Operand taken{Operand::Source::kRegister, from};
  const auto in = std::find(actor.in.begin(), actor.in.end(), taken) - actor.in.begin();
  actor.in_place = Actor::InPlace{static_cast<std::int32_t>(in), 0};
}

// Edges and the readers of ports: each actor that reads a value several times reads it once.
void BlockForms::add_readers(std::int32_t instance, Block& block) const {
  const StagedGraph& graph = partition_->graph();
  for (const StagedTensorIndex tensor : at(ports_, instance))
    block.ports.push_back(
        {std::string(without_layer(at(graph.tensors, tensor).name)), TensorType{}, {}});
  for (std::size_t a = 0; a < block.actors.size(); ++a) {
    const auto actor = static_cast<std::int32_t>(a);
    const std::vector<Operand>& in = block.actors[a].in;
    for (auto source = in.begin(); source != in.end(); ++source) {
      if (std::find(in.begin(), source, *source) != source) continue;
      if (source->source == Operand::Source::kRegister)
        block.edges.push_back({source->index, actor, 1, false});
      else
        at(block.ports, source->index).readers.push_back(actor);
    }
  }
}

Block BlockForms::make_form(std::int32_t instance, const Homes& homes) const {
  const StagedGraph& graph = partition_->graph();
  const InstanceSpec& spec = at(partition_->instances(), instance);
  Block block;
  block.name = fmt::format("stage{}.{}", spec.stage, instance_name(graph, spec));
  block.phase = at(graph.ops, spec.ops.front()).phase;
  // Forward again is where a backward pass begins.
  if (block.phase == Phase::kRecompute) block.phase = Phase::kInputGrad;
  for (const StagedOpIndex op : spec.ops) {
    block.actors.push_back(make_actor(instance, op));
    mark_in_place(block.actors.back(), homes);
    for (const StagedTensorIndex out : at(graph.ops, op).out) {
      Register reg;
      reg.name = without_layer(at(graph.tensors, out).name);
      reg.layout = layouts_->of(out);
      reg.frame = homes.frame[block.registers.size()];
      block.registers.push_back(std::move(reg));
    }
  }
  for (const FrameKey& key : homes.keys) block.frames.push_back(key.frame);
  add_readers(instance, block);
  return block;
}

}  // namespace sextant
