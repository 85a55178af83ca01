// Local boxing: from one layout to another without communication. Each rank copies what both
// layouts give it and fills the rest with the neutral element of the reduction. Between two meshes
// the contents stay as they are: only their words are other ones.
#include "actor/calls/local_boxing.h"
#include "backends/cpu/kernels/shared/boxes.h"
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

#include <optional>

namespace sextant {
namespace {

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
  fill_neutral(reduction_of(to.layout->words), dtype, target, elements);
  if (taken) copy_box(*taken, {context.in[0].data, &context.in[0].box}, {target, &to.box}, dtype);
  if (accumulate) reduce_elements(ReduceOp::kSum, dtype, target, to.data, elements);
}

}  // namespace

void add_boxing_kernels(KernelTable& table) {
  table.add("box_local", box_local, nullptr, output_aside);
}

}  // namespace sextant
