// Products of linear layers whose operands have 8 bits.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"

namespace sextant {

// With precision=fp8 the training graph in which every product of a linear layer, forward and for
// both gradients, is a `scaled_matmul` of tensors that `quantize` made: weights and activations in
// e4m3, gradients of activations in e5m2, one scale for all of a tensor in a micro-batch (a weight:
// in a step), from what it holds then. A tensor is quantized once, in both orders where its
// products want both. Weights are quantized as they are kept, before any cast. Results have the
// types that they had; masters, optimizer and all other operators stay as they were.
//
// A linear layer is a product of a micro-batch's activation and a weight of one parameter, outside
// of the layer that has the loss (logits, what stands before them); not what scores experts, nor
// what experts compute, whose products are batched; nor one with an extent that is no multiple of
// 16, as tensor cores want rows to begin.
//
// Other precisions: the graph as it is. Throws Error(kInfeasible) where no product is of a linear
// layer.
LogicalGraph with_eight_bit_products(LogicalGraph training, const Strategy& strategy);

}  // namespace sextant
