// Texts of JSON values: the library's, and one where only what would be too long is broken.
#include "core/text/json_text.h"

#include <nlohmann/json.hpp>

#include <utility>
#include <vector>

namespace sextant {
namespace {

// Lays out the compact text of a value: the library writes every name and number, once, and what is
// added here are spaces and line breaks.
class JsonLayout {
 public:
  JsonLayout(const std::string& compact, std::size_t width) : compact_(compact), width_(width) {
    measure();
    text_.reserve(compact.size() + compact.size() / 2);
  }

  std::string text() && {
    while (at_ < compact_.size()) {
      const std::size_t begin = at_;
      switch (compact_[at_]) {
        case '"':
          at_ = behind_string(at_);
          text_.append(compact_, begin, at_ - begin);
          break;
        case '[':
        case '{':
          open();
          break;
        case ']':
        case '}':
          close();
          break;
        case ',':
          separate();
          break;
        case ':':
          text_ += ": ";
          ++at_;
          break;
        default:
          text_ += compact_[at_++];
      }
    }
    return std::move(text_);
  }

 private:
  std::size_t behind_string(std::size_t quote) const {
    std::size_t at = quote + 1;
    while (compact_[at] != '"') at += compact_[at] == '\\' ? 2 : 1;
    return at + 1;
  }

  // How long the text of each list and object is on one line, in the order in which they open.
  void measure() {
    std::vector<std::pair<std::size_t, std::size_t>> open;  // index, characters before it
    std::size_t spaces = 0;
    for (std::size_t at = 0; at < compact_.size();) {
      const char character = compact_[at];
      if (character == '"') {
        at = behind_string(at);
        continue;
      }
      if (character == '[' || character == '{') {
        open.emplace_back(lengths_.size(), at + spaces);
        lengths_.push_back(0);
      } else if (character == ']' || character == '}') {
        lengths_[open.back().first] = at + 1 + spaces - open.back().second;
        open.pop_back();
      } else if (character == ',' || character == ':') {
        ++spaces;
      }
      ++at;
    }
  }

  void open() {
    const std::size_t indent = num_broken_, room = width_ > indent ? width_ - indent : 0;
    const bool is_broken = lengths_[next_++] > room;
    is_broken_.push_back(is_broken);
    text_ += compact_[at_++];
    if (!is_broken) return;
    ++num_broken_;
    break_line();
  }

  void close() {
    if (is_broken_.back()) {
      --num_broken_;
      break_line();
    }
    is_broken_.pop_back();
    text_ += compact_[at_++];
  }

  void separate() {
    text_ += compact_[at_++];
    if (is_broken_.back())
      break_line();
    else
      text_ += ' ';
  }

  void break_line() {
    text_ += '\n';
    text_.append(num_broken_, ' ');
  }

  const std::string& compact_;
  const std::size_t width_;
  std::vector<std::size_t> lengths_;
  std::size_t at_ = 0, next_ = 0;  // in compact_, in lengths_
  std::vector<bool> is_broken_;    // of the lists and objects around at_
  std::size_t num_broken_ = 0;     // of them
  std::string text_;
};

}  // namespace

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent);
}

std::string lenient_json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::ordered_json json_of_text(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

std::string to_readable_text(const nlohmann::ordered_json& value, std::size_t width) {
  return JsonLayout(value.dump(), width).text() + '\n';
}

}  // namespace sextant
