// Sources of the graph that run on the device: constants, and parameters of graphs that only run
// forward (their contents are state and stay).
#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/reference.h"

#include <algorithm>

namespace sextant {
namespace {

void constant(const KernelContext& context, Workspace& workspace) {
  const auto y = make_output(context, 0, workspace);
  std::fill(y.begin(), y.end(), context.attributes().real("value"));
  store_output(context, 0, y, workspace);
}

void parameter(const KernelContext&, Workspace&) {}

}  // namespace

void add_source_kernels(KernelTable& table) {
  table.add("constant", constant);
  table.add("parameter", parameter);
}

}  // namespace sextant
