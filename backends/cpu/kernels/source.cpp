// Sources of the graph that run on the device: constants, and parameters of graphs that only run
// forward (their contents are state and stay).
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"

namespace sextant {
namespace {

void constant(const KernelContext& context, Workspace&) {
  const Output y(context, 0);
  const double value = context.attributes().real("value");
  for (std::size_t i = 0; i < y.size(); ++i) y.put(i, value);
}

void parameter(const KernelContext&, Workspace&) {}

}  // namespace

void add_source_kernels(KernelTable& table) {
  table.add("constant", constant);
  table.add("parameter", parameter);
}

}  // namespace sextant
