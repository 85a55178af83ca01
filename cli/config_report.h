// What --print-config says: the value of every option of a verb, and where it comes from.
#pragma once

#include "cli/command_line.h"
#include "cli/console.h"
#include "cli/verb.h"

#include <span>

namespace sextant {

// `values`: by option of the verb. The document has the key `config`: what is not a default, as a
// configuration file that gives the same values.
void say_settings(const Verb& verb, std::span<const NamedValue> values, Console& console);

}  // namespace sextant
