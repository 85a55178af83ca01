// The table of fused kinds.
#include "core/graphs/fused_kinds.h"

#include <algorithm>
#include <optional>

namespace sextant {
namespace {

constexpr int kAnyInput = FusedKind::kAnyInput;
constexpr std::nullopt_t kChain = std::nullopt;  // no sibling

constexpr FusedKind kFusedKinds[] = {
    {"norm_statistics",
     {{{"reduce_mean"}, {"reduce_squares", 1}, {"scale"}, {"add_scalar"}, {"rsqrt"}}}},
    {"layer_norm_grads_add_bias",
     {{{"layer_norm_grad_input"},
       {"add", kAnyInput},
       {"layer_norm_grad_weight", 3, 4, 0},
       {"reduce_to_bias", 0, kChain, 1}}},
     true},
    {"concat_bias_dropout_add", {{{"concat"}, {"bias_add"}, {"dropout"}, {"add", kAnyInput}}}},
    {"reshape_slice_matmul_add", {{{"reshape"}, {"slice"}, {"matmul"}, {"add", kAnyInput}}}},
    {"concat_dropout_add", {{{"concat"}, {"dropout"}, {"add", kAnyInput}}}},
    {"concat_add_layer_norm", {{{"concat"}, {"add", kAnyInput}, {"layer_norm"}}}},
    {"concat_add_rms_norm", {{{"concat"}, {"add", kAnyInput}, {"rms_norm"}}}},
    {"reshape_slice_matmul", {{{"reshape"}, {"slice"}, {"matmul"}}}},
    {"slice_matmul_add", {{{"slice"}, {"matmul"}, {"add", kAnyInput}}}},
    {"matmul_bias_gelu", {{{"matmul"}, {"bias_add"}, {"gelu"}}}},
    {"matmul_bias_add", {{{"matmul"}, {"bias_add"}, {"add", kAnyInput}}}},
    {"bias_dropout_add", {{{"bias_add"}, {"dropout"}, {"add", kAnyInput}}}},
    {"mul_mul_silu_grad", {{{"mul"}, {"mul", 0, 0}, {"silu_grad", 1}}}},
    {"normalize_add_relu", {{{"normalize"}, {"add", kAnyInput}, {"relu"}}}},
    {"layer_norm_grads_add",
     {{{"layer_norm_grad_input"}, {"add", kAnyInput}, {"layer_norm_grad_weight", 3, 4, 0}}},
     true},
    {"rms_norm_grads_add",
     {{{"rms_norm_grad_input"}, {"add", kAnyInput}, {"rms_norm_grad_weight", 2, 3, 0}}},
     true},
    {"relu_grad_normalize_grad",
     {{{"relu_grad"}, {"normalize_grad_weight", 3}, {"normalize_grad_input", 5}}}},
    {"slice_matmul", {{{"slice"}, {"matmul"}}}},
    {"concat_bias", {{{"concat"}, {"bias_add"}}}},
    {"concat_add", {{{"concat"}, {"add", kAnyInput}}}},
    {"concat_reshape", {{{"concat"}, {"reshape"}}}},
    {"matmul_bias", {{{"matmul"}, {"bias_add"}}}},
    {"matmul_add", {{{"matmul"}, {"add", kAnyInput}}}},
    {"scaled_matmul_add", {{{"scaled_matmul"}, {"add", kAnyInput}}}},
    {"matmul_gelu_grad", {{{"matmul"}, {"gelu_grad", 1}}}},
    {"matmul_grad_weight_bias", {{{"matmul_grad_weight"}, {"reduce_to_bias", 0, 1}}}},
    {"bias_gelu", {{{"bias_add"}, {"gelu"}}}},
    {"silu_mul", {{{"silu"}, {"mul", kAnyInput}}}},
    {"mul_silu_grad", {{{"mul"}, {"silu_grad", 1}}}},
    {"dropout_add", {{{"dropout"}, {"add", kAnyInput}}}},
    {"add_layer_norm", {{{"add"}, {"layer_norm"}}}},
    {"add_rms_norm", {{{"add"}, {"rms_norm"}}}},
    {"layer_norm_grads", {{{"layer_norm_grad_input"}, {"layer_norm_grad_weight", 3, 4}}}, true},
    {"rms_norm_grads", {{{"rms_norm_grad_input"}, {"rms_norm_grad_weight", 2, 3}}}, true},
    {"layer_norm_grad_add", {{{"layer_norm_grad_input"}, {"add", kAnyInput}}}},
    {"rms_norm_grad_add", {{{"rms_norm_grad_input"}, {"add", kAnyInput}}}},
    {"normalize_relu", {{{"normalize"}, {"relu"}}}},
    {"relu_grad_normalize_grad_weight", {{{"relu_grad"}, {"normalize_grad_weight", 3}}}},
    {"normalize_grad", {{{"normalize_grad_weight"}, {"normalize_grad_input", 5}}}},
    {"row_max_sum_exp", {{{"row_max"}, {"row_sum_exp", 1}}}},
    {"cast_scale", {{{"cast"}, {"scale"}}}},
    {"scale_cast", {{{"scale"}, {"cast"}}}},
    {"cast_cast", {{{"cast"}, {"cast"}}}},
};

}  // namespace

std::span<const FusedKind> fused_kinds() { return kFusedKinds; }

const FusedKind* find_fused_kind(std::string_view kind) {
  for (const FusedKind& fused : kFusedKinds)
    if (fused.kind == kind) return &fused;
  return nullptr;
}

std::vector<std::string> fused_kind_names() {
  std::vector<std::string> names;
  for (const FusedKind& fused : kFusedKinds) names.emplace_back(fused.kind);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sextant
