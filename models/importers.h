// The ways to a model config; load_model tries them in turn. Internal to models.
#pragma once

#include "core/text/json_reader.h"
#include "models/model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sextant::importers {

// A config.json of Hugging Face (hugging_face.cpp). Throws Error(kBadInput) naming what is not
// supported: family, quantisation, experts, sliding windows ...
ModelConfig from_hugging_face(const JsonCursor& root, std::string name);

// The JSON of to_json_text (config_json.cpp).
bool is_sextant_config(const JsonCursor& root);
ModelConfig from_sextant_config(const JsonCursor& root);

// A built-in by name, if there is one (builtin.cpp).
std::optional<ModelConfig> builtin(std::string_view name);

// "gpt:layers=40,hidden=6144,...", "llama:...", "bert:..." (one_word.cpp). Nothing when the text
// does not start with a family or a built-in and a colon.
std::optional<ModelConfig> from_one_word(std::string_view text);

// The model with other values, "layers=4,capacity_factor=2" of `text` (one_word.cpp). Sizes that
// follow from others do not follow. Throws Error(kUsage) for a key or a value that does not fit.
ModelConfig with_values(const ModelConfig& config, std::string_view text, std::string_view values);

// Values that a family shares.
ModelConfig gpt2_family();
ModelConfig llama_family();
ModelConfig bert_family();

// The SwiGLU width Llama derives from the hidden size: 8/3 of it, up to a multiple of 256.
std::int64_t llama_ffn(std::int64_t hidden);

}  // namespace sextant::importers
