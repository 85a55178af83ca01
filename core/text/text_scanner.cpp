// Tokens of a text: one at a time, one ahead.
#include "core/text/text_scanner.h"

#include "core/base/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace sextant {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_word(char c) { return begins_word(c) || is_digit(c) || c == '.'; }

char character(std::string_view text, std::size_t at) { return at < text.size() ? text[at] : '\0'; }

std::size_t end_of_word(std::string_view text, std::size_t at) {
  while (continues_word(character(text, at))) ++at;
  return at;
}

// "1e-05" goes on behind its sign; "2xe-3" does not.
bool is_exponent_sign(std::string_view text, std::size_t begin, std::size_t at) {
  const char sign = character(text, at);
  if ((sign != '-' && sign != '+') || at == begin) return false;
  const char e = text[at - 1];
  if (e != 'e' && e != 'E') return false;
  const std::string_view digits = text.substr(begin, at - 1 - begin);
  return digits.find_first_not_of("-0123456789.") == std::string_view::npos;
}

std::size_t end_of_number(std::string_view text, std::size_t begin) {
  std::size_t at = end_of_word(text, begin + 1);
  if (is_exponent_sign(text, begin, at)) at = end_of_word(text, at + 1);
  return at;
}

// Behind the closing quotes; at the end of the line where there are none.
std::size_t end_of_quoted(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\' && character(text, at + 1) != '\n') ++at;
  }
  return std::min(at, text.size());
}

struct Piece {
  TextToken::Kind kind;
  std::size_t end;
};

Piece piece_at(std::string_view text, std::size_t at) {
  using Kind = TextToken::Kind;
  const char c = text[at], next = character(text, at + 1);
  if (begins_word(c)) return {Kind::kWord, end_of_word(text, at)};
  if (c == '"') return {Kind::kQuoted, end_of_quoted(text, at)};
  if (is_digit(c) || (c == '-' && continues_word(next)))
    return {Kind::kNumber, end_of_number(text, at)};
  return {Kind::kSign, at + (c == '-' && next == '>' ? 2 : 1)};
}

std::optional<char> hexadecimal(std::string_view digits) {
  unsigned value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [after, failure] = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 2 || failure != std::errc() || after != end) return std::nullopt;
  return static_cast<char>(value);
}

// What stands in quotes; nothing where it has no end or an escape that does not exist.
std::optional<std::string> unquoted(std::string_view text) {
  if (text.size() < 2 || text.back() != '"') return std::nullopt;
  std::string plain;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    const char escaped = text[++i];
    if (escaped == '\\' || escaped == '"') {
      if (i + 1 == text.size()) return std::nullopt;  // the quotes at the end were escaped
      plain += escaped;
      continue;
    }
    const std::optional<char> byte =
        escaped == 'x' && i + 3 < text.size() ? hexadecimal(text.substr(i + 1, 2)) : std::nullopt;
    if (!byte) return std::nullopt;
    plain += *byte;
    i += 2;
  }
  return plain;
}

std::string described(const TextToken& token) {
  switch (token.kind) {
    case TextToken::Kind::kEndOfLine:
      return "the end of the line";
    case TextToken::Kind::kEnd:
      return "the end of the text";
    case TextToken::Kind::kWord:
    case TextToken::Kind::kNumber:
    case TextToken::Kind::kQuoted:
    case TextToken::Kind::kSign:
      break;
  }
  return fmt::format("'{}'", token.text);
}

}  // namespace

bool is_plain_word(std::string_view text) {
  return !text.empty() && begins_word(text.front()) && end_of_word(text, 0) == text.size();
}

std::string quoted_unless_plain(std::string_view text) {
  if (is_plain_word(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      quoted += fmt::format("\\x{:02x}", byte);
    else
      quoted += c;
  }
  return quoted + "\"";
}

TextScanner::TextScanner(std::string_view text, std::string origin)
    : text_(text), origin_(std::move(origin)) {
  scan();
}

// Over blanks and comments, and over ends of lines that held nothing.
void TextScanner::skip_to_token() {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '/' && character(text_, at_ + 1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    } else if (c == '\n' && !in_line_) {
      ++line_;
      line_begin_ = at_ + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

void TextScanner::scan() {
  using Kind = TextToken::Kind;
  skip_to_token();
  const auto token = [&](Kind kind, std::size_t end) {
    token_ = {.kind = kind,
              .text = text_.substr(at_, end - at_),
              .line = line_,
              .column = at_ - line_begin_ + 1};
    at_ = end;
  };
  const bool is_over = at_ >= text_.size();
  if (in_line_ && (is_over || text_[at_] == '\n')) {
    token(Kind::kEndOfLine, at_);
    in_line_ = false;
  } else if (is_over) {
    token(Kind::kEnd, at_);
  } else {
    const Piece piece = piece_at(text_, at_);
    token(piece.kind, piece.end);
    in_line_ = true;
  }
}

TextToken TextScanner::take() {
  const TextToken taken = token_;
  scan();
  return taken;
}

bool TextScanner::take_word(std::string_view word) {
  if (token_.kind != TextToken::Kind::kWord || token_.text != word) return false;
  scan();
  return true;
}

bool TextScanner::take_sign(std::string_view sign) {
  if (token_.kind != TextToken::Kind::kSign || token_.text != sign) return false;
  scan();
  return true;
}

void TextScanner::expect_word(std::string_view word) {
  if (!take_word(word)) refuse_next(fmt::format("'{}'", word));
}

void TextScanner::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) refuse_next(fmt::format("'{}'", sign));
}

void TextScanner::expect_end_of_line() {
  if (token_.kind != TextToken::Kind::kEndOfLine) refuse_next("the end of the line");
  scan();
}

std::string TextScanner::name() {
  if (token_.kind == TextToken::Kind::kWord) return std::string(take().text);
  if (token_.kind != TextToken::Kind::kQuoted) refuse_next("a name");
  std::optional<std::string> plain = unquoted(token_.text);
  if (!plain) refuse_next("a text in quotes, with no escapes but \\\", \\\\ and \\xHH");
  scan();
  return *std::move(plain);
}

std::int64_t TextScanner::integer(std::int64_t least, std::int64_t most) {
  const std::string wanted = fmt::format("an integer from {} to {}", least, most);
  if (token_.kind != TextToken::Kind::kNumber) refuse_next(wanted);
  std::int64_t value = 0;
  const char* const end = token_.text.data() + token_.text.size();
  const auto [after, failure] = std::from_chars(token_.text.data(), end, value);
  if (failure != std::errc() || after != end || value < least || value > most) refuse_next(wanted);
  scan();
  return value;
}

double TextScanner::real() {
  const bool is_number =
      token_.kind == TextToken::Kind::kNumber || token_.kind == TextToken::Kind::kWord;
  double value = 0;
  const char* const end = token_.text.data() + token_.text.size();
  if (!is_number) refuse_next("a number");
  const auto [after, failure] = std::from_chars(token_.text.data(), end, value);
  if (failure != std::errc() || after != end) refuse_next("a number");
  scan();
  return value;
}

void TextScanner::refuse_next(const std::string& wanted) const {
  refuse_at(token_, fmt::format("found {}, wanted {}", described(token_), wanted));
}

void TextScanner::refuse_at(const TextToken& token, const std::string& what) const {
  throw Error(ErrorCode::kBadInput,
              Place{fmt::format("{}: line {}, column {}", origin_, token.line, token.column)},
              what);
}

}  // namespace sextant
