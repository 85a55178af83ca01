// Configs as lists of named values, so that JSON and one-word forms are written once for all of the
// small architectures. Internal to models.
#pragma once

#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/face_net.h"
#include "models/wide_deep.h"

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace sextant::importers {

struct Field {
  std::string_view key;  // in JSON and in one word
  std::variant<std::int64_t*, double*, bool*, std::vector<std::int64_t>*, ImageInput*> value;
};

// Whether JSON may lack it and leaves it out where it has its default: it came after files that are
// without it, which stay as they are, byte for byte.
inline bool is_optional(const Field& field) {
  return std::holds_alternative<ImageInput*>(field.value);
}

// In the order of the JSON; they point into the config.
std::vector<Field> fields_of(ConvNetConfig& config);
std::vector<Field> fields_of(WideDeepConfig& config);
std::vector<Field> fields_of(ClassHeadConfig& config);
std::vector<Field> fields_of(FaceNetConfig& config);

}  // namespace sextant::importers
