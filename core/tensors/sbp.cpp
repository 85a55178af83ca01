// Words of SBP: text and the boxes they give to devices.
#include "core/tensors/sbp.h"

#include "core/base/check.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace sextant {
namespace {

// Reads the text form left to right; every refusal names the column.
class WordParser {
 public:
  explicit WordParser(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {}

  NdSbp all() {
    NdSbp words = some();
    skip_blanks();
    if (at_ != text_.size()) refuse("the end");
    return words;
  }
  NdSbp some() {
    skip_blanks();
    NdSbp words = peek() == '(' ? list() : NdSbp{word()};
    require_clear_nesting(words);
    return words;
  }
  std::size_t at() const { return at_; }

 private:
  NdSbp list() {
    NdSbp words;
    expect('(');
    skip_blanks();
    if (peek() == ')') {  // a placement without axes: one device
      ++at_;
      return words;
    }
    while (true) {
      words.push_back(word());
      skip_blanks();
      if (peek() == ')') break;
      if (peek() != ',') refuse("',' or ')'");
      ++at_;
    }
    ++at_;
    return words;
  }

  Sbp word() {
    skip_blanks();
    switch (peek()) {
      case 'B':
        ++at_;
        return Sbp::broadcast();
      case 'P':
        ++at_;
        return Sbp::partial(peek() == '(' ? reduce_op() : ReduceOp::kSum);
      case 'S':
        ++at_;
        return split();
      default:
        refuse("S(dim), B or P(sum|max|min)");
    }
  }

  Sbp split() {
    expect('(');
    const std::size_t dim = number();
    expect(')');
    if (peek() != '^') return Sbp::split(dim);
    ++at_;
    const std::size_t nesting = number();
    if (nesting == 0) refuse_at(at_ - 1, "a nesting position from 1 to 15");
    return Sbp::split(dim, static_cast<int>(nesting));
  }

  ReduceOp reduce_op() {
    expect('(');
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      const std::string_view name = to_string(op);
      if (text_.substr(at_, name.size()) != name) continue;
      at_ += name.size();
      expect(')');
      return op;
    }
    refuse("sum, max or min");
  }

  std::size_t number() {
    std::uint8_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [after, failure] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failure != std::errc() || value > 15) refuse("a number from 0 to 15");
    at_ += static_cast<std::size_t>(after - begin);
    return value;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (peek() == ' ') ++at_;
  }
  void expect(char wanted) {
    if (peek() != wanted) refuse(fmt::format("'{}'", wanted));
    ++at_;
  }
  [[noreturn]] void refuse(std::string_view wanted) const { refuse_at(at_, wanted); }
  [[noreturn]] void refuse_at(std::size_t at, std::string_view wanted) const {
    fail(ErrorCode::kUsage, "'{}' are not SBP words: wanted {} at column {}", text_, wanted,
         at + 1);
  }

  std::string_view text_;
  std::size_t at_;
};

// Axes that split `dim`, outermost first.
std::vector<std::size_t> axes_splitting(std::size_t dim, const NdSbp& words) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_split() && words[axis].dim == dim) axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
    return words[a].nesting < words[b].nesting;
  });
  return axes;
}

// Positions are all left out, or each of 1 .. k once.
bool has_clear_nesting(const std::vector<std::size_t>& outermost_first, const NdSbp& words) {
  const bool numbered = !outermost_first.empty() && words[outermost_first.back()].nesting != 0;
  for (std::size_t i = 0; i < outermost_first.size(); ++i)
    if (words[outermost_first[i]].nesting != (numbered ? i + 1 : 0)) return false;
  return true;
}

void require_split_dims(const Shape& global, const NdSbp& words) {
  for (const Sbp& word : words)
    if (word.is_split() && word.dim >= global.rank())
      fail(ErrorCode::kUsage, "{} splits dim {}, but the shape {} has {} dims", to_string(words),
           word.dim, to_string(global), global.rank());
}

}  // namespace

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
  }
  return "?";
}

Sbp Sbp::split(std::size_t dim, int nesting) {
  Sbp word;
  word.kind = Kind::kSplit;
  word.dim = static_cast<std::uint8_t>(dim);
  word.nesting = static_cast<std::uint8_t>(nesting);
  return word;
}

Sbp Sbp::partial(ReduceOp op) {
  Sbp word;
  word.kind = Kind::kPartial;
  word.reduce = op;
  return word;
}

std::string to_string(const Sbp& word) {
  switch (word.kind) {
    case Sbp::Kind::kBroadcast:
      return "B";
    case Sbp::Kind::kPartial:
      return fmt::format("P({})", to_string(word.reduce));
    case Sbp::Kind::kSplit:
      return word.nesting == 0 ? fmt::format("S({})", word.dim)
                               : fmt::format("S({})^{}", word.dim, word.nesting);
  }
  return "?";
}

std::string to_string(const NdSbp& words) {
  if (words.size() == 1) return to_string(words.front());
  std::string text = "(";
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    text += (axis == 0 ? "" : ", ") + to_string(words[axis]);
  return text + ")";
}

NdSbp parse_nd_sbp(std::string_view text) { return WordParser(text).all(); }

NdSbp read_nd_sbp(std::string_view text, std::size_t& at) {
  WordParser parser(text, at);
  NdSbp words = parser.some();
  at = parser.at();
  return words;
}

void require_clear_nesting(const NdSbp& words) {
  // Most words carry no positions at all.
  if (std::none_of(words.begin(), words.end(), [](const Sbp& word) { return word.nesting != 0; }))
    return;
  for (const Sbp& word : words)
    if (word.is_split() && !has_clear_nesting(axes_splitting(word.dim, words), words))
      fail(ErrorCode::kUsage,
           "{}: the splits of dim {} need no nesting positions (axis order), or each of 1, 2, ... "
           "once",
           to_string(words), word.dim);
}

NdSbp canonical(NdSbp words) {
  require_clear_nesting(words);
  const NdSbp given = words;
  for (Sbp& word : words) {
    if (!word.is_split() || word.nesting == 0) continue;
    const std::vector<std::size_t> axes = axes_splitting(word.dim, given);
    if (std::is_sorted(axes.begin(), axes.end())) word.nesting = 0;
  }
  return words;
}

Interval balanced_part(std::int64_t extent, std::int64_t parts, std::int64_t index) {
  const std::int64_t quotient = extent / parts, remainder = extent % parts;
  return {.offset = index * quotient + std::min(index, remainder),
          .extent = quotient + (index < remainder ? 1 : 0)};
}

Shape Shard::local_shape() const {
  std::vector<std::int64_t> extents;
  extents.reserve(dims.size());
  for (const Interval& dim : dims) extents.push_back(dim.extent);
  return Shape(std::move(extents));
}

std::int64_t Shard::elements() const {
  std::int64_t count = 1;
  for (const Interval& dim : dims) count *= dim.extent;
  return count;
}

bool Shard::is_empty() const {
  return std::any_of(dims.begin(), dims.end(), [](const Interval& dim) { return dim.extent == 0; });
}

std::int64_t global_index(std::int64_t local, const Shape& global, const Shard& box) {
  std::int64_t index = 0;
  std::int64_t stride = 1;
  for (std::size_t dim = global.rank(); dim-- > 0;) {
    index += (box.dims[dim].offset + local % box.dims[dim].extent) * stride;
    local /= box.dims[dim].extent;
    stride *= global[dim];
  }
  return index;
}

Shard shard_of(const Shape& global, const NdSbp& words, std::span<const std::int64_t> hierarchy,
               std::span<const std::int64_t> coordinates) {
  if (words.size() != hierarchy.size() || words.size() != coordinates.size())
    fail(ErrorCode::kUsage, "{} are {} words for {} mesh axes and {} coordinates", to_string(words),
         words.size(), hierarchy.size(), coordinates.size());
  require_split_dims(global, words);
  require_clear_nesting(words);
  Shard shard;
  shard.dims.reserve(global.rank());
  const bool is_axis_order =
      std::none_of(words.begin(), words.end(), [](const Sbp& word) { return word.nesting != 0; });
  for (std::size_t dim = 0; dim < global.rank(); ++dim) {
    Interval box{.offset = 0, .extent = global[dim]};
    const auto split = [&](std::size_t axis) {
      const Interval part = balanced_part(box.extent, hierarchy[axis], coordinates[axis]);
      box = {.offset = box.offset + part.offset, .extent = part.extent};
    };
    if (is_axis_order) {  // the usual case, without a list of axes
      for (std::size_t axis = 0; axis < words.size(); ++axis)
        if (words[axis].is_split() && words[axis].dim == dim) split(axis);
    } else {
      for (const std::size_t axis : axes_splitting(dim, words)) split(axis);
    }
    shard.dims.push_back(box);
  }
  return shard;
}

Shard intersect(const Shard& a, const Shard& b) {
  require(a.dims.size() == b.dims.size(), ErrorCode::kUsage,
          "boxes of {} and {} dims do not intersect", a.dims.size(), b.dims.size());
  Shard both;
  both.dims.reserve(a.dims.size());
  for (std::size_t dim = 0; dim < a.dims.size(); ++dim) {
    const std::int64_t begin = std::max(a.dims[dim].offset, b.dims[dim].offset);
    const std::int64_t end = std::min(a.dims[dim].end(), b.dims[dim].end());
    both.dims.push_back({.offset = begin, .extent = std::max<std::int64_t>(end - begin, 0)});
  }
  return both;
}

}  // namespace sextant
