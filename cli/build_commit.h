// The commit that this program was built from.
#pragma once

#include <string_view>

namespace sextant {

// As git describes it, with "+" where files had changed; "unknown" outside of a repository.
std::string_view build_commit();

}  // namespace sextant
