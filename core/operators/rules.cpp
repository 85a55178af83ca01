// Shape checks, rows and work shared by the operator families.
#include "core/operators/rules.h"

#include "core/base/check.h"
#include "core/graphs/logical_graph.h"

#include <utility>

namespace sextant {

DType accumulator_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

std::string gradient_dtype(const GradientContext& context, std::size_t input) {
  const DType dtype = context.graph().tensor(context.input(input)).type.dtype;
  return std::string(to_string(context.is_weight(input) ? accumulator_type(dtype) : dtype));
}

DType dtype_or(const Attributes& attributes, std::string_view name, DType fallback) {
  return attributes.contains(name) ? dtype_attribute(attributes, name) : fallback;
}

DType dtype_attribute(const Attributes& attributes, std::string_view name) {
  const DType dtype = parse_dtype(attributes.text(name));
  if (!is_only_moved(dtype)) return dtype;
  require(dtype != DType::kU8, ErrorCode::kBadInput, "{} u8: bytes are read by inputs alone", name);
  fail(ErrorCode::kBadInput, "{} {}: elements of 8 bits are made by quantize alone", name,
       to_string(dtype));
}

void require_floating(std::string_view kind, std::string_view operand, const TensorType& type) {
  if (is_floating(type.dtype)) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, wanted a floating element type", kind, operand,
       to_text(type));
}

void require_computed(std::string_view kind, std::string_view operand, const TensorType& type) {
  if (!is_only_moved(type.dtype)) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, in which nothing is computed", kind, operand,
       to_text(type));
}

void require_integer(std::string_view kind, std::string_view operand, const TensorType& type) {
  if (type.dtype == DType::kI32 || type.dtype == DType::kI64) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, wanted i32 or i64", kind, operand, to_text(type));
}

void require_min_rank(std::string_view kind, std::string_view operand, const TensorType& type,
                      std::size_t rank) {
  if (type.shape.rank() >= rank) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, wanted at least {} dims", kind, operand, to_text(type),
       rank);
}

void require_type(std::string_view kind, std::string_view operand, const TensorType& type,
                  const TensorType& wanted) {
  if (type == wanted) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, wanted {}", kind, operand, to_text(type),
       to_text(wanted));
}

void require_shape(std::string_view kind, std::string_view operand, const TensorType& type,
                   const Shape& wanted) {
  if (type.shape == wanted) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, wanted shape {}", kind, operand, to_text(type),
       to_string(wanted));
}

void require_same_dtype(std::string_view kind, std::string_view operand, const TensorType& type,
                        std::string_view other, const TensorType& wanted) {
  if (type.dtype == wanted.dtype) return;
  fail(ErrorCode::kBadInput, "{}: {} is {}, wanted {} as {} has", kind, operand, to_text(type),
       to_string(wanted.dtype), other);
}

Shape leading_dims(const Shape& shape, std::size_t trailing) {
  const auto& extents = shape.extents();
  return Shape(std::vector<std::int64_t>(extents.begin(),
                                         extents.end() - static_cast<std::ptrdiff_t>(trailing)));
}

Shape trailing_dims(const Shape& shape, std::size_t trailing) {
  const auto& extents = shape.extents();
  return Shape(std::vector<std::int64_t>(extents.end() - static_cast<std::ptrdiff_t>(trailing),
                                         extents.end()));
}

std::int64_t last_extent(const Shape& shape) { return shape[shape.rank() - 1]; }

SbpSignature all_broadcast(std::size_t num_inputs, std::size_t num_outputs) {
  return {.inputs = std::vector<Sbp>(num_inputs), .outputs = std::vector<Sbp>(num_outputs)};
}

void append_partial_rows(Rows& rows, std::size_t num_inputs, std::size_t num_outputs) {
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({std::vector<Sbp>(num_inputs, partial), std::vector<Sbp>(num_outputs, partial)});
}

std::size_t dim_attribute(std::string_view kind, const TensorType& x,
                          const Attributes& attributes) {
  const std::int64_t dim = attributes.integer("dim");
  if (dim < 0 || static_cast<std::size_t>(dim) >= x.shape.rank())
    fail(ErrorCode::kBadInput, "{}: dim {} is not a dim of {}", kind, dim, to_text(x));
  return static_cast<std::size_t>(dim);
}

Work streaming_work(Types inputs, Types outputs, Flops flops, std::string kernel) {
  Work work{.flops = flops, .read = {}, .written = {}, .kernel = std::move(kernel)};
  for (const TensorType& input : inputs) work.read += size_of(input);
  for (const TensorType& output : outputs) work.written += size_of(output);
  return work;
}

Work elementwise_work(Types inputs, Types outputs, Flops flops_per_element, std::string kernel) {
  const auto elements = static_cast<Flops>(inputs[0].shape.elements());
  return streaming_work(inputs, outputs, flops_per_element * elements, std::move(kernel));
}

std::string row_kernel(const TensorType& x, bool is_sum) {
  const std::int64_t extent = x.shape.rank() == 0 ? 1 : last_extent(x.shape);
  return fmt::format("normalization{}:{}", is_sum ? "_sum" : "", extent);
}

Work copy_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, 0, "copy");
}

Work no_work() { return {.flops = 0, .read = {}, .written = {}, .kernel = "none"}; }

TensorId in_dtype(GradientContext& context, TensorId tensor, DType dtype, std::size_t for_input) {
  if (context.graph().tensor(tensor).type.dtype == dtype) return tensor;
  return context.add("cast", {tensor}, {{"dtype", std::string(to_string(dtype))}}, for_input);
}

TensorType f64(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kF64}; }

TensorType i32(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kI32}; }

}  // namespace sextant
