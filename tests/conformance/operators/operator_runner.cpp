// Packs values into bytes, runs one reference kernel, unpacks.
#include "tests/conformance/operators/operator_runner.h"

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/check.h"
#include "core/base/elements.h"
#include "core/graphs/operator.h"

#include <cstddef>
#include <utility>

namespace sextant {
namespace {

std::size_t count_of(const Shard& box) {
  return static_cast<std::size_t>(box.local_shape().elements());
}

Shard whole_box(const Shape& shape) {
  Shard box;
  for (const std::int64_t extent : shape.extents())
    box.dims.push_back({.offset = 0, .extent = extent});
  return box;
}

KernelOperand operand(const PackedPiece& piece) {
  // Kernels only read their inputs; one operand type serves both sides.
  return {.data = const_cast<std::byte*>(piece.bytes.data()),
          .local = piece.local,
          .layout = &piece.layout,
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

PackedPiece pack(const Piece& piece) {
  PackedPiece packed = packed_blank(piece.global, piece.box);
  store_from_double(piece.global.dtype, piece.values, packed.bytes.data());
  return packed;
}

PackedPiece packed_blank(const TensorType& global, const Shard& box) {
  PackedPiece packed{.layout = {.global = global, .words = {}, .placement = {}},
                     .local = {.shape = box.local_shape(), .dtype = global.dtype},
                     .box = box,
                     .bytes = {}};
  packed.bytes.resize(static_cast<std::size_t>(size_of(packed.local).value));
  return packed;
}

void unpack(const PackedPiece& piece, std::vector<double>& values) {
  values.resize(static_cast<std::size_t>(piece.local.shape.elements()));
  load_as_double(piece.local.dtype, piece.bytes.data(), values);
}

struct OperatorRunner::Call {
  Actor actor;
  KernelContext context;
  Workspace workspace;
};

OperatorRunner::OperatorRunner(const std::string& kind, const Attributes& attributes)
    : call_(std::make_unique<Call>()) {
  call_->actor.kind = kind;
  call_->actor.attributes = attributes;
  call_->context.actor = &call_->actor;
}

OperatorRunner::~OperatorRunner() = default;

void OperatorRunner::run(std::span<const PackedPiece* const> inputs,
                         std::span<PackedPiece> outputs) {
  static const KernelTable kernels = reference_kernels();
  KernelContext& context = call_->context;
  context.in.clear();
  context.out.clear();
  for (const PackedPiece* input : inputs) context.in.push_back(operand(*input));
  for (const PackedPiece& output : outputs) context.out.push_back(operand(output));
  context.accumulate.assign(outputs.size(), false);
  const Kernel kernel = kernels.find(call_->actor.kind, context);
  require(kernel != nullptr, ErrorCode::kInternal, "no reference kernel for '{}'",
          call_->actor.kind);
  const Workspace::Frame frame(call_->workspace);
  kernel(context, call_->workspace);
}

void run_operator(const std::string& kind, const Attributes& attributes,
                  const std::vector<Piece>& inputs, std::vector<Piece>& outputs) {
  std::vector<PackedPiece> in, out;
  std::vector<const PackedPiece*> in_pointers;
  for (const Piece& input : inputs) in.push_back(pack(input));
  for (const PackedPiece& input : in) in_pointers.push_back(&input);
  for (const Piece& output : outputs) out.push_back(pack(output));
  OperatorRunner(kind, attributes).run(in_pointers, out);
  for (std::size_t i = 0; i < outputs.size(); ++i) unpack(out[i], outputs[i].values);
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
