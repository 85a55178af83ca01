// Local boxing: from one layout to another without communication. Each rank copies what both
// layouts give it and fills the rest with the neutral element of the reduction. Between two meshes
// the contents stay as they are: only their words are other ones.
#include "backends/cpu/boxes.h"
#include "backends/cpu/kernels/families.h"
#include "core/check.h"

#include <optional>

namespace sextant {
namespace {

// B -> P(sum): one coordinate keeps the value, or the sum would count it once per device. Under max
// and min all may keep it.
bool keeps_value(const NdSbp& from, const NdSbp& to, const std::vector<std::int64_t>& coordinates) {
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    const bool becomes_sum = to[axis].is_partial() && to[axis].reduce == ReduceOp::kSum;
    if (from[axis].is_broadcast() && becomes_sum && coordinates[axis] != 0) return false;
  }
  return true;
}

std::optional<ReduceOp> reduction_of(const NdSbp& words) {
  for (const Sbp& word : words)
    if (word.is_partial()) return word.reduce;
  return std::nullopt;
}

// What a rank takes over of its input: the box that both layouts give it, or nothing.
std::optional<Shard> taken_over(const KernelContext& context) {
  if (context.in.empty()) return std::nullopt;
  const KernelOperand& from = context.in[0];
  const KernelOperand& to = context.out[0];
  const NdSbp& from_words = from.layout->words;
  const NdSbp& to_words = to.layout->words;
  if (from.layout->placement != to.layout->placement) {
    if (from.box.is_empty() && to.box.is_empty()) return std::nullopt;
    require(from.box == to.box, ErrorCode::kInternal,
            "other words cannot move contents: {} -> {} is another part on this device",
            to_string(from_words), to_string(to_words));
    return to.box;
  }
  for (std::size_t axis = 0; axis < to_words.size(); ++axis)
    require(!from_words[axis].is_partial() || from_words[axis] == to_words[axis] ||
                context.hierarchy[axis] == 1,
            ErrorCode::kInternal, "local boxing cannot reduce: {} -> {}", to_string(from_words),
            to_string(to_words));
  if (!keeps_value(from_words, to_words, context.coordinates)) return std::nullopt;
  return intersect(from.box, to.box);
}

void box_local(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& to = context.out[0];
  const std::optional<Shard> taken = taken_over(context);
  const bool is_in_place = taken && context.in[0].data == to.data && !context.accumulate[0];
  if (is_in_place && context.in[0].box == to.box) return;
  const DType dtype = to.local.dtype;
  const std::int64_t elements = to.box.elements();
  // Outputs that accumulate are built aside.
  const bool accumulate = context.accumulate[0];
  std::byte* target = to.data;
  if (accumulate)
    target =
        workspace.take<std::byte>(static_cast<std::size_t>(elements * size_of(dtype).value)).data();
  fill_neutral(reduction_of(to.layout->words).value_or(ReduceOp::kSum), dtype, target, elements);
  if (taken) copy_box(*taken, {context.in[0].data, &context.in[0].box}, {target, &to.box}, dtype);
  if (accumulate) reduce_elements(ReduceOp::kSum, dtype, target, to.data, elements);
}

}  // namespace

void add_boxing_kernels(KernelTable& table) { table.add("box_local", box_local); }

}  // namespace sextant
