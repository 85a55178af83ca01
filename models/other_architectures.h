// The ways to a model that is no decoder: a built-in name, one word, our own JSON. Internal to
// models.
#pragma once

#include "core/text/json_reader.h"
#include "models/any_model.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant::importers {

std::optional<AnyModel> other_builtin(std::string_view name);
std::vector<std::string> other_builtin_names();

// "conv:...", "wide_deep:...", "class_head:..." or "face_net:..." with key=number,...; a list is
// 3x4x6x3. Nothing for another family. What is left out is the family's default, and said in
// `notes`.
std::optional<AnyModel> other_from_one_word(std::string_view text);

// Schemas sextant.conv_net/1, sextant.wide_deep/1, sextant.class_head/1 and sextant.face_net/1.
bool is_other_config(const JsonCursor& root);
AnyModel other_from_json(const JsonCursor& root);
std::string other_to_json_text(const AnyModel& model);

}  // namespace sextant::importers
