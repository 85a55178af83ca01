// Text of words with their placement, and whether they fit a tensor and a cluster.
#include "core/costs/words_at.h"

#include "core/base/check.h"
#include "core/text/counted_text.h"

#include <cstddef>

namespace sextant {
namespace {

[[noreturn]] void refuse(std::string_view text, std::size_t at, std::string_view wanted) {
  fail(ErrorCode::kUsage,
       "'{}' are no words on a placement: wanted {} at column {} of a text like "
       "(S(0), B)@[dp=2, tp=4] or S(0)@[x=2]{{4, 5}}",
       text, wanted, at + 1);
}

void skip_spaces(std::string_view text, std::size_t& at) {
  while (at < text.size() && text[at] == ' ') ++at;
}

std::int64_t product_of(const std::vector<MeshAxis>& axes) {
  std::int64_t product = 1;  // below 2^30: read_mesh_axes refuses more
  for (const MeshAxis& axis : axes) product *= axis.extent;
  return product;
}

void require_one_word_per_axis(std::string_view text, const NdSbp& words,
                               const std::vector<MeshAxis>& axes, std::size_t mesh_at) {
  if (words.size() != axes.size())
    fail(ErrorCode::kUsage,
         "'{}' has {} for the {} of {} at column {}: wanted one word per axis, major to minor",
         text, counted(words.size(), "word"), counted(axes.size(), "axis", "axes"), to_string(axes),
         mesh_at + 1);
}

void require_one_device_per_coordinate(std::string_view text, const Placement& placement,
                                       std::size_t devices_at) {
  const auto coordinates = static_cast<std::size_t>(product_of(placement.axes));
  if (coordinates != placement.ranks.size())
    fail(ErrorCode::kUsage, "'{}' lists {} at column {}, but {} wants {}", text,
         counted(placement.ranks.size(), "device"), devices_at + 1, to_string(placement),
         coordinates);
}

// Where the word of `axis` begins in to_string(words).
std::size_t column_of(const NdSbp& words, std::size_t axis) {
  if (words.size() == 1) return 1;
  std::size_t column = 2;
  for (std::size_t before = 0; before < axis; ++before)
    column += to_string(words[before]).size() + 2;
  return column;
}

std::string legal_words(const Shape& shape) {
  std::string text;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) text += to_string(Sbp::split(dim)) + ", ";
  return text + "B or P(sum|max|min)";
}

}  // namespace

std::string to_string(const NdSbp& words, const Placement& placement) {
  return fmt::format("{}@{}{}", to_string(words), to_string(placement),
                     is_counted_from_zero(placement.ranks) ? "" : device_list(placement.ranks));
}

std::string to_string(const WordsAt& words_at) {
  return to_string(words_at.words, words_at.placement);
}

WordsAt parse_words_at(std::string_view text) {
  WordsAt words_at;
  std::size_t at = 0;
  words_at.words = read_nd_sbp(text, at);
  skip_spaces(text, at);
  if (at == text.size() || text[at] != '@') refuse(text, at, "'@' and a mesh");
  skip_spaces(text, ++at);
  const std::size_t mesh_at = at;
  std::vector<MeshAxis> axes = read_mesh_axes(text, at);
  require(product_of(axes) <= kMostDevices, ErrorCode::kUsage,
          "'{}': {} has more than 2^20 devices", text, to_string(axes));
  skip_spaces(text, at);
  const std::size_t devices_at = at;
  if (at < text.size() && text[at] == '{') {
    words_at.placement = {.axes = std::move(axes), .ranks = read_device_list(text, at)};
    skip_spaces(text, at);
  } else {
    words_at.placement = consecutive_placement(std::move(axes));
  }
  if (at != text.size()) refuse(text, at, "the end or devices like {4-7}");
  require_one_word_per_axis(text, words_at.words, words_at.placement.axes, mesh_at);
  require_one_device_per_coordinate(text, words_at.placement, devices_at);
  return words_at;
}

void require_fits(const WordsAt& words_at, const Shape& shape) {
  const NdSbp& words = words_at.words;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_split() && words[axis].dim >= shape.rank())
      fail(ErrorCode::kUsage,
           "'{}' splits dim {} over {} at column {}, but the shape {} has {}: legal are {}",
           to_string(words_at), words[axis].dim, words_at.placement.axes[axis].name,
           column_of(words, axis), to_string(shape), counted(shape.rank(), "dim"),
           legal_words(shape));
}

void require_fits(const WordsAt& words_at, const Cluster& cluster) {
  for (const Rank rank : words_at.placement.ranks)
    require(rank.value < cluster.num_devices(), ErrorCode::kUsage,
            "'{}' names the device {}, but {} has the devices 0 to {}", to_string(words_at),
            rank.value, cluster.name, cluster.num_devices() - 1);
}

}  // namespace sextant
