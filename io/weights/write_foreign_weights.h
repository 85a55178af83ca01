// Weights of ours as a file of another program.
#pragma once

#include "core/files/foreign_tensor.h"
#include "io/safetensors.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

// `read` gives the row-major bytes of a parameter in its own type; it is asked for in the
// order of the model, once where its tensors stand together. All tensors of the file are
// `dtype`; values round to nearest even. Throws Error(kBadInput) naming the path where it cannot be
// written.
void write_foreign_weights(const std::string& path, const std::vector<NamedTensor>& own,
                           const ForeignModel& model, DType dtype,
                           const std::function<std::vector<std::byte>(const std::string&)>& read);

}  // namespace sextant
