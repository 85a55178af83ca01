// Packs values into bytes, runs one reference kernel, unpacks.
#include "tests/conformance/operator_runner.h"

#include "backends/cpu/elements.h"
#include "backends/cpu/kernel.h"
#include "core/check.h"
#include "core/operator.h"

#include <cstddef>
#include <utility>

namespace sextant {
namespace {

using Bytes8 = std::vector<std::byte>;

std::size_t count_of(const Shard& box) {
  return static_cast<std::size_t>(box.local_shape().elements());
}

Shard whole_box(const Shape& shape) {
  Shard box;
  for (const std::int64_t extent : shape.extents())
    box.dims.push_back({.offset = 0, .extent = extent});
  return box;
}

Bytes8 pack(const Piece& piece) {
  Bytes8 bytes(count_of(piece.box) * static_cast<std::size_t>(size_of(piece.global.dtype).value));
  store_from_double(piece.global.dtype, piece.values, bytes.data());
  return bytes;
}

KernelOperand operand(const Piece& piece, Bytes8& bytes) {
  return {.data = bytes.data(),
          .local = {.shape = piece.box.local_shape(), .dtype = piece.global.dtype},
          .layout = nullptr,
          .box = piece.box};
}

// Visits the elements of `inner` in row-major order with their positions in `inner` and `outer`.
template <typename Visit>
void for_each_common(const Shard& inner, const Shard& outer, const Visit& visit) {
  if (inner.is_empty()) return;
  std::vector<std::int64_t> index(inner.dims.size(), 0);
  for (std::size_t at = 0; at < count_of(inner); ++at) {
    std::int64_t position = 0;
    for (std::size_t dim = 0; dim < index.size(); ++dim) {
      position = position * outer.dims[dim].extent + inner.dims[dim].offset + index[dim] -
                 outer.dims[dim].offset;
    }
    visit(at, static_cast<std::size_t>(position));
    for (std::size_t dim = index.size(); dim-- > 0;) {
      if (++index[dim] < inner.dims[dim].extent) break;
      index[dim] = 0;
    }
  }
}

bool runs_on_device(const OperatorDef& def) { return !def.on_host && def.state_outputs.empty(); }

}  // namespace

Piece whole(const TensorType& type, std::vector<double> values) {
  return {.global = type, .box = whole_box(type.shape), .values = std::move(values)};
}

Piece blank(const TensorType& type) {
  return whole(type, std::vector<double>(static_cast<std::size_t>(type.shape.elements())));
}

Piece cut(const Piece& piece, const Shard& box) {
  Piece part{.global = piece.global, .box = box, .values = std::vector<double>(count_of(box))};
  for_each_common(box, piece.box, [&](std::size_t at, std::size_t position) {
    part.values[at] = piece.values[position];
  });
  return part;
}

void paste(const Piece& part, Piece& piece) {
  for_each_common(part.box, piece.box, [&](std::size_t at, std::size_t position) {
    piece.values[position] = part.values[at];
  });
}

void run_operator(const std::string& kind, const Attributes& attributes,
                  const std::vector<Piece>& inputs, std::vector<Piece>& outputs) {
  static const KernelTable kernels = reference_kernels();
  Actor actor;
  actor.kind = kind;
  actor.attributes = attributes;
  KernelContext context;
  context.actor = &actor;
  std::vector<Bytes8> in_bytes, out_bytes;
  for (const Piece& input : inputs) in_bytes.push_back(pack(input));
  for (const Piece& output : outputs) out_bytes.push_back(pack(output));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    context.in.push_back(operand(inputs[i], in_bytes[i]));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    context.out.push_back(operand(outputs[i], out_bytes[i]));
  context.accumulate.assign(outputs.size(), false);
  const Kernel kernel = kernels.find(kind, context);
  require(kernel != nullptr, ErrorCode::kInternal, "no reference kernel for '{}'", kind);
  Workspace workspace;
  kernel(context, workspace);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    load_as_double(outputs[i].global.dtype, out_bytes[i].data(), outputs[i].values);
  }
}

void evaluate(const LogicalGraph& graph, TensorValues& values) {
  for (const LogicalOp& op : graph.ops()) {
    if (!runs_on_device(graph.registry().get(op.kind))) continue;
    std::vector<Piece> inputs, outputs;
    for (const TensorId input : op.inputs)
      inputs.push_back(whole(graph.tensor(input).type, values.at(input)));
    for (const TensorId output : op.outputs) outputs.push_back(blank(graph.tensor(output).type));
    run_operator(op.kind, op.attributes, inputs, outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      values[op.outputs[i]] = std::move(outputs[i].values);
  }
}

}  // namespace sextant
