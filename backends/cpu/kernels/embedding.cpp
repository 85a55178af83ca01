// Reference look-up in a table whose rows may be split: ids of other shards give zeros, ids of none
// are an error.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/id_check.h"
#include "backends/cpu/kernels/shared/reference.h"

namespace sextant {
namespace {

void embedding(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& table = context.in[1];
  const auto width = static_cast<std::size_t>(table.local.shape[1]);
  const auto ids = load_indices(context, 0, workspace);
  const Values values = load_input(context, 1, workspace);
  const Output y(context, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    require_row(ids[i], global_extent(table, 0));
    const auto row = local_index(ids[i], offset_of(table, 0), table.local.shape[0]);
    for (std::size_t d = 0; d < width; ++d)
      y.put(i * width + d, row ? values[*row * width + d] : 0.0);
  }
}

void embedding_grad(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& table = context.out[0];
  const auto width = static_cast<std::size_t>(table.local.shape[1]);
  const auto ids = load_indices(context, 0, workspace);
  const Values dy = load_input(context, 1, workspace);
  const auto gradient = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    require_row(ids[i], global_extent(table, 0));
    const auto row = local_index(ids[i], offset_of(table, 0), table.local.shape[0]);
    if (!row) continue;
    for (std::size_t d = 0; d < width; ++d) gradient[*row * width + d] += dy[i * width + d];
  }
  store_output(context, 0, gradient);
}

}  // namespace

void add_embedding_kernels(KernelTable& table) {
  table.add("embedding", embedding);
  table.add("embedding_grad", embedding_grad, nullptr, wide_outputs);
}

}  // namespace sextant
