// The user's data from a path: which format they have, and the reader for it.
#pragma once

#include "io/data/sample_data.h"
#include "io/data/token_data.h"

#include <memory>
#include <string>
#include <string_view>

namespace sextant {

struct DataOptions {
  std::string path;
  std::string format;  // of the READMEs of data and images; empty: by magic and name
  std::string order;   // parse_order; empty: places for texts, shuffled for all else
};

// Throws Error(kUsage) for a format or an order that there is not, Error(kBadInput) naming the path
// where it is not what the format wants.
std::unique_ptr<SampleData> open_data(const DataOptions& options);
// Opens tokens, where nothing else will do: Error(kUsage) for images. Throws what open_data throws.
std::unique_ptr<TokenData> open_tokens(const DataOptions& options);

}  // namespace sextant
