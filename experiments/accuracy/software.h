// What a training program does that the plan of a row does not say: kernels of its time, types, and
// what it overlaps. Known per source, never per row.
#pragma once

#include "compiler/optimizer_options.h"

#include <string>
#include <string_view>

namespace sextant {

struct Software {
  std::string name = "as compiled here";
  // Scores of attention are written to memory and read back: programs from before FlashAttention.
  bool written_attention = false;
  double dropout = 0;  // of the residual stream, embeddings and (written) attention
  GradientType gradients = GradientType::kWide;
  bool overlaps_gradients = true;  // their reduction with backward
  bool fuses_kernels = true;       // biases, activations, residual sums, norms
  // Rate of fused attention as a share of that of large products.
  double attention_share = 1;
  // Of the host, per operator; an interpreter is in the way. 0: as the cluster says.
  double launch_s = 0;
  // Memory that its allocator counts beside what our plan holds: rounding and holes of a caching
  // allocator, as a share; a loss outside of fused kernels, in f32, per logit of an act; buckets of
  // gradients that replicas reduce, per parameter.
  double allocator_share = 0;
  double loss_bytes_per_logit = 0, bucket_bytes_per_parameter = 0;
};

Software megatron_2021();     // arXiv 2104.04473, 2205.05198 and what forked it
Software megatron_core();     // with FlashAttention, overlapped gradients
Software pytorch_fsdp();      // MosaicML, torchtitan
Software pytorch_compiled();  // ../peers/torch_gpt.py

}  // namespace sextant
