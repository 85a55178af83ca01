// Texts whose bytes are the ids: files, folders of them, and documents in lines of JSON.
#pragma once

#include "core/base/units.h"
#include "io/data/token_source.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sextant {

inline constexpr Bytes kMostText{std::int64_t{256} << 20};

// Bytes of a text file, or of all text files below a folder: read in the order of their paths, byte
// for byte and where they are asked for, without hidden folders, build folders and files with a
// zero byte among their first 8,192. Throws Error(kBadInput) naming the path when it does not
// exist, holds no text or is over `limit`.
std::unique_ptr<TokenSource> text_tokens(const std::string& path, Bytes limit = kMostText);

// A JSON object a line: `text`, or `prompt` and `completion`, of which the prompt is masked. Other
// keys are let be. Id 0 ends every document. Throws Error(kBadInput) naming `name` and the line.
std::unique_ptr<TokenSource> jsonl_tokens(std::string_view lines, const std::string& name);
inline constexpr std::int32_t kEndOfDocument = 0;

}  // namespace sextant
