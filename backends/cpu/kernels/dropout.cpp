// Reference dropout: one draw per element, at its index in the global tensor.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "core/base/counter_rng.h"

namespace sextant {
namespace {

void dropout(const KernelContext& context, Workspace& workspace) {
  const KernelOperand& x = context.in[0];
  const double rate = context.attributes().real("rate");
  const double scale = rate < 1 ? 1 / (1 - rate) : 0.0;
  ActPosition act = context.act;
  if (context.attributes().boolean_or("per_step", false)) act.micro_batch = 0;
  const CounterRng random(seed_of_act(context.seed, act), context.attributes().text("stream"));
  const Values values = load_input(context, 0, workspace);
  const Output y(context, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t index =
        global_index(static_cast<std::int64_t>(i), x.layout->global.shape, x.box);
    // Uniform in (0, 1]: rate 0 keeps all, rate 1 none.
    const bool is_kept = random.uniform(static_cast<std::uint64_t>(index)) > rate;
    y.put(i, is_kept ? scale * values[i] : 0.0);
  }
}

}  // namespace

void add_dropout_kernels(KernelTable& table) { table.add("dropout", dropout); }

}  // namespace sextant
