// Reference update of a running statistic, in place.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

namespace sextant {
namespace {

void running_statistic(const KernelContext& context, Workspace& workspace) {
  const double momentum = context.attributes().real("momentum");
  const Values sum = load_input(context, 0, workspace);
  const Values count = load_input(context, 1, workspace);
  const Output kept(context, 0);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const double before = kept.present(i);
    if (count[i] > 0) kept.put(i, before + momentum * (sum[i] / count[i] - before));
  }
}

}  // namespace

void add_running_statistic_kernels(KernelTable& table) {
  table.add("running_statistic", running_statistic);
}

}  // namespace sextant
