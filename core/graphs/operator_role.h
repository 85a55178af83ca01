// What an operator is for, to those who plan around it.
#pragma once

#include <cstdint>

namespace sextant {

// Kernels and rules of one kind go by its name; whoever asks for meaning asks for this.
enum class OperatorRole : std::uint8_t {
  kPlain,
  kParameter,              // source: a weight
  kInput,                  // source: data of a micro-batch
  kProduct,                // rows by a weight
  kProductWeightGradient,  // its gradient to the weight
  kBatchProduct,           // a product per head or per expert
  kScaledProduct,          // of 8-bit operands, in whichever place a product of a layer stands
  kQuantizeScale,          // of what is to have 8 bits
  kQuantize,
  kConvolution,
  kSum,   // of two tensors
  kView,  // the same values in another shape
  kCast,
  kSoftmax,
  kAttention,
  kAttentionGradient,
  kChunkedAttention,  // over chunks of keys and values, with sums that are merged
  kChunkedAttentionGradient,
  kAttentionMerge,  // of two chunks
  kAttentionPart,   // of attention written out by a registry that says so
  kExpertDispatch,  // tokens to the places of experts
  kExpertCombine,   // and back
  kLoss,
  kPick,    // one element per row, of a loss written out
  kBoxing,  // words to other words, on one device
};

// Any part of attention that is one operator.
constexpr bool is_attention(OperatorRole role) {
  return role == OperatorRole::kAttention || role == OperatorRole::kAttentionGradient ||
         role == OperatorRole::kChunkedAttention ||
         role == OperatorRole::kChunkedAttentionGradient || role == OperatorRole::kAttentionMerge ||
         role == OperatorRole::kAttentionPart;
}

// A product of matrices, of whatever operands.
constexpr bool is_product(OperatorRole role) {
  return role == OperatorRole::kProduct || role == OperatorRole::kProductWeightGradient ||
         role == OperatorRole::kBatchProduct || role == OperatorRole::kScaledProduct;
}

}  // namespace sextant
