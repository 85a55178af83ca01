// Conditions shared by the fast families.
#include "backends/cpu/kernels/fast/fast.h"

namespace sextant {

bool floats_are(const KernelContext& context, DType dtype) {
  const auto fits = [dtype](const KernelOperand& operand) {
    return !is_floating(operand.local.dtype) || operand.local.dtype == dtype;
  };
  return std::all_of(context.in.begin(), context.in.end(), fits) &&
         std::all_of(context.out.begin(), context.out.end(), fits);
}

bool accumulates_none(const KernelContext& context) {
  return std::none_of(context.accumulate.begin(), context.accumulate.end(),
                      [](bool accumulates) { return accumulates; });
}

bool is_f32(const KernelContext& context) { return floats_are(context, DType::kF32); }

bool overwrites_f32(const KernelContext& context) {
  return is_f32(context) && accumulates_none(context);
}

}  // namespace sextant
