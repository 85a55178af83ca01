// The form of an instance: its signature, by which instances share one, and its block without what
// differs between rank classes.
#pragma once

#include "compiler/expand/register_homes.h"

#include <cstdint>
#include <vector>

namespace sextant {

// What makes two instances share a form, as integers.
using FormSignature = std::vector<std::int64_t>;
FormSignature signature_of(const FormSource& source, StagedInstanceId instance,
                           const RegisterHomes& homes, FormSymbols& symbols);

// Everything of the block that all rank classes share: no local types, sizes or work.
Block make_form(const FormSource& source, StagedInstanceId instance, const RegisterHomes& homes);

}  // namespace sextant
