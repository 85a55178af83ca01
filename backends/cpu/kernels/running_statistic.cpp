// Reference update of a running statistic, in place.
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"

namespace sextant {
namespace {

void running_statistic(const KernelContext& context, Workspace& workspace) {
  const double momentum = context.attributes().real("momentum");
  const Values sum = load_input(context, 0, workspace);
  const Values count = load_input(context, 1, workspace);
  const auto kept = load_output(context, 0, workspace);
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (count[i] > 0) kept[i] += momentum * (sum[i] / count[i] - kept[i]);
  store_output(context, 0, kept, workspace);
}

}  // namespace

void add_running_statistic_kernels(KernelTable& table) {
  table.add("running_statistic", running_statistic);
}

}  // namespace sextant
