// Names and layouts of a model's weights in the safetensors of Hugging Face, and its config.json.
#pragma once

#include "core/files/foreign_tensor.h"
#include "models/model.h"

#include <string>

namespace sextant {

// Every parameter of the model's graph (build_graph) in the files of its family: bert, gpt2, llama
// (mistral and qwen2 name theirs alike), qwen3, mixtral or qwen3_moe, whichever computes what the
// model does. Their linear layers are [out, in], ours [in, out]; gpt2 has ours, and q, k, v as one
// matrix. Throws Error(kBadInput) where no family has this model.
ForeignModel hugging_face_weights(const ModelConfig& config);

// The config.json with which transformers builds the same model; load_model reads it back. `dtype`:
// of the weights beside it, f32, bf16 or f16. Throws as above.
std::string hugging_face_config(const ModelConfig& config, DType dtype);

}  // namespace sextant
