// Lifetimes by partition; what may be written in place by kind, layout and last reader.
#include "compiler/expand/register_homes.h"

#include "core/base/at.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sextant {
namespace {

using FrameKey = RegisterHomes::FrameKey;

FrameKey frame_key(const FormSource& source, StagedInstanceId instance, StagedTensorId tensor) {
  const StagedGraph& graph = source.partition.graph();
  const StagedTensor& staged = graph.tensors[tensor];
  FrameKey key;
  key.frame.memory = staged.memory;
  key.frame.initially_full = staged.is_state;
  // One updater, one time: who reads the state makes no difference to when its bytes are used. But
  // the updaters' own instance may read one state behind the update of another (LAMB).
  if (staged.is_state) {
    const auto readers = source.partition.readers(tensor);
    if (std::any_of(readers.begin(), readers.end(), [&](StagedOpId reader) {
          return source.partition.place(reader).instance == instance;
        }))
      key.first = key.last = source.partition.place(staged.producer).actor;
    return key;
  }
  key.frame.acts_per_content = static_cast<std::int32_t>(source.partition.acts_per_content(tensor));
  key.host = graph.ops[staged.producer].queue == QueueRole::kHost;
  key.first = key.last = source.partition.place(staged.producer).actor;
  for (const StagedOpId reader : source.partition.readers(tensor)) {
    const ActorPlace place = source.partition.place(reader);
    key.host = key.host || graph.ops[reader].queue == QueueRole::kHost;
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
bool may_take_over(const FormSource& source, StagedInstanceId instance, StagedOpId op,
                   StagedTensorId in) {
  const StagedGraph& graph = source.partition.graph();
  const StagedTensorId out = graph.ops[op].out.front();
  const StagedTensor& from = graph.tensors[in];
  const StagedTensor& to = graph.tensors[out];
  if (from.is_state || to.is_state || from.memory != to.memory) return false;
  if (source.partition.place(from.producer).instance != instance) return false;
  if (source.partition.acts_per_content(in) != 1 || source.partition.acts_per_content(out) != 1)
    return false;
  if (graph.ops[from.producer].queue == QueueRole::kHost) return false;
  const auto is_on_host = [&](StagedOpId reader) {
    return graph.ops[reader].queue == QueueRole::kHost;
  };
  const auto before = source.partition.readers(in), after = source.partition.readers(out);
  return std::none_of(before.begin(), before.end(), is_on_host) &&
         std::none_of(after.begin(), after.end(), is_on_host);
}

// All that hold the value die with the operator: what reads them is in the same act and not later.
bool may_overwrite(const FormSource& source, StagedInstanceId instance, StagedOpId op,
                   std::span<const StagedTensorId> holders) {
  const std::int32_t actor = source.partition.place(op).actor;
  const auto dies_here = [&](StagedOpId reader) {
    const ActorPlace place = source.partition.place(reader);
    return place.instance == instance && place.actor <= actor;
  };
  return std::all_of(holders.begin(), holders.end(), [&](StagedTensorId holder) {
    const auto readers = source.partition.readers(holder);
    return std::all_of(readers.begin(), readers.end(), dies_here);
  });
}

void find_in_place(const FormSource& source, StagedInstanceId instance, FormSymbols& symbols,
                   bool in_place, RegisterHomes& homes) {
  const StagedGraph& graph = source.partition.graph();
  // By register: the first one that holds its value in its bytes; for those, all that do.
  std::vector<std::int32_t> root;
  std::vector<std::vector<StagedTensorId>> holders;
  for (const StagedOpId index : source.partition.instances()[instance].ops) {
    const StagedOp& op = graph.ops[index];
    const auto first = static_cast<std::int32_t>(root.size());
    for (const StagedTensorId out : op.out) {
      root.push_back(static_cast<std::int32_t>(root.size()));
      holders.push_back({out});
    }
    homes.taken_from.resize(root.size(), -1);
    homes.is_view.resize(root.size(), false);
    if (!in_place || op.communication || op.queue != QueueRole::kCompute) continue;
    if (op.role == OperatorRole::kView) {
      if (!may_take_over(source, instance, index, op.in.front())) continue;
      const std::int32_t seen = source.operands.register_of(op.in.front());
      at(homes.taken_from, first) = seen;
      at(homes.is_view, first) = true;
      at(root, first) = at(root, seen);
      at(holders, at(root, seen)).push_back(op.out.front());
      continue;
    }
    for (const std::size_t input : symbols.kind(op.kind).overwrites) {
      if (input >= op.in.size()) continue;
      const StagedTensorId in = op.in[input];
      if (!may_take_over(source, instance, index, in) ||
          source.layouts.of(in) != source.layouts.of(op.out.front()) ||
          !may_overwrite(source, instance, index,
                         at(holders, at(root, source.operands.register_of(in)))))
        continue;
      at(homes.taken_from, first) = source.operands.register_of(in);
      break;
    }
  }
}

bool is_collective_buffer(const FormSource& source, StagedTensorId tensor) {
  const StagedGraph& graph = source.partition.graph();
  const auto is_collective = [&](StagedOpId op) {
    const auto& communication = graph.ops[op].communication;
    return communication && communication->primitive != Primitive::kTransfer;
  };
  const auto readers = source.partition.readers(tensor);
  return is_collective(graph.tensors[tensor].producer) ||
         std::any_of(readers.begin(), readers.end(), is_collective);
}

// `key` of bytes that `tenant` has after their first value, or beside it.
void extend(FrameKey& key, const FrameKey& tenant, bool is_view) {
  const std::int32_t first = key.first, last = key.last;
  std::vector<StagedInstanceId> readers = tenant.readers;
  if (is_view)
    for (const StagedInstanceId reader : key.readers)
      if (std::find(readers.begin(), readers.end(), reader) == readers.end())
        readers.push_back(reader);
  std::sort(readers.begin(), readers.end());
  key = tenant;
  key.readers = std::move(readers);
  key.first = key.readers.empty() ? first : 0;
  key.last = key.readers.empty() ? std::max(last, tenant.last) : 0;
}

}  // namespace

RegisterHomes homes_of(const FormSource& source, StagedInstanceId instance,
                       const HomeOptions& options, FormSymbols& symbols) {
  RegisterHomes homes;
  find_in_place(source, instance, symbols, options.in_place, homes);
  std::vector<FrameKey> of_register;
  std::vector<bool> collective;
  for (const StagedOpId op : source.partition.instances()[instance].ops)
    for (const StagedTensorId out : source.partition.graph().ops[op].out) {
      of_register.push_back(frame_key(source, instance, out));
      collective.push_back(options.symmetric && is_collective_buffer(source, out));
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

}  // namespace sextant
