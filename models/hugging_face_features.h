// What a config.json of Hugging Face asks for: its family, and features that are not built.
// Internal to models.
#pragma once

#include "core/text/json_reader.h"

#include <string>
#include <string_view>

namespace sextant::importers {

// The family of the config: gpt2, llama, mistral, qwen2 or qwen3. Throws Error(kBadInput) with all
// reasons at once when the file is no model config, of another family, names two families, or asks
// for something that changes the model and is not built.
std::string supported_family(const JsonCursor& root);

// Keys that say nothing about the model's computation: token ids, versions, caches ...
bool is_harmless_key(std::string_view key);

}  // namespace sextant::importers
