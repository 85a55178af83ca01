// Texts of one statement a line, token by token: words, numbers, quoted texts and signs, each with
// its line and column. Knows no statement; what stands where is its caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sextant {

struct TextToken {
  enum class Kind : std::uint8_t {
    kWord,       // letters, digits, '_' and '.', not a digit first
    kNumber,     // from a digit, or '-' and what follows it, on: "3", "1e-05", "2x5", "-inf"
    kQuoted,     // in double quotes
    kSign,       // "->" or one character
    kEndOfLine,  // once per line that holds a token
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string_view text;             // as it stands there
  std::size_t line = 1, column = 1;  // counted from one; a column is a byte of the line
};

// True for what a text may give as a word, without quotes.
bool is_plain_word(std::string_view text);
// The text itself where it is a plain word, else in quotes: TextScanner::name gives it back.
std::string quoted_unless_plain(std::string_view text);

// Every refusal is an Error(kBadInput) whose place is the origin, the line and the column of the
// token it is about. The text must outlive the scanner.
class TextScanner {
 public:
  TextScanner(std::string_view text, std::string origin);

  // What comes next; taking moves behind it.
  const TextToken& peek() const { return token_; }
  TextToken take();

  // Takes the next token if it is this word or sign.
  bool take_word(std::string_view word);
  bool take_sign(std::string_view sign);
  // Takes the next token, which is refused if it is not this word, this sign, an end of line.
  void expect_word(std::string_view word);
  void expect_sign(std::string_view sign);
  void expect_end_of_line();

  std::string name();  // a word or a quoted text
  // Takes a whole number; refused where it is none, or out of range.
  std::int64_t integer(std::int64_t least, std::int64_t most);
  double real();  // "3", "1e-05", "inf", "-inf", "nan"

  // "line 3, column 8: found 'x', wanted a name" of the next token.
  [[noreturn]] void refuse_next(const std::string& wanted) const;
  // At a token that was taken.
  [[noreturn]] void refuse_at(const TextToken& token, const std::string& what) const;

 private:
  void scan();
  void skip_to_token();

  std::string_view text_;
  std::string origin_;
  std::size_t at_ = 0, line_ = 1, line_begin_ = 0;  // behind the next token
  bool in_line_ = false;                            // the line of `at_` holds a token
  TextToken token_;                                 // the next one
};

}  // namespace sextant
