// Words with their placement: the text form, its round trip, and refusals with their column.
#include "core/costs/words_at.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

namespace sextant::words_at_test {
namespace {

std::vector<Rank> ranks(std::initializer_list<int> values) {
  std::vector<Rank> result;
  for (const int value : values) result.emplace_back(value);
  return result;
}

std::string refusal(const std::string& text) {
  try {
    parse_words_at(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
  return "accepted";
}

void check_refused(const std::string& text, const std::string& part) {
  const std::string message = refusal(text);
  CAPTURE(text);
  CAPTURE(message);
  CHECK(message.find(part) != std::string::npos);
  CHECK(message.find(text) != std::string::npos);
}

TEST_CASE("words on a placement read back as they are printed") {
  for (const char* const text :
       {"(S(0), B)@[dp=2, tp=2]", "S(0)@[x=4]", "B@[x=1]", "()@[]", "()@[]{7}",
        "(S(0)^2, S(0)^1)@[dp=2, tp=2]", "(P(max), B, S(15))@[a=1, b=2, c=1]",
        "(S(0), B)@[dp=2, tp=2]{4-7}", "(S(0), B)@[dp=2, tp=2]{0, 2, 1, 3}",
        "P(min)@[x=6]{0-2, 8-10}", "B@[x=2]{1, 0}", "B@[x=2]{4, 5}"})
    CHECK(to_string(parse_words_at(text)) == text);
}

TEST_CASE("blanks and the order of counting do not matter to the reader") {
  CHECK(to_string(parse_words_at(" ( S(0),B ) @ [ dp=2,tp=2 ] { 4-7 } ")) ==
        "(S(0), B)@[dp=2, tp=2]{4-7}");
  CHECK(to_string(parse_words_at("P@[x=4]{0-3}")) == "P(sum)@[x=4]");
  CHECK(to_string(parse_words_at("B@[x=4]{3-0}")) == "B@[x=4]{3, 2, 1, 0}");
  CHECK(parse_words_at("B@[x=3]{7, 8, 9}").placement.ranks == ranks({7, 8, 9}));
}

TEST_CASE("any words on any devices read back") {
  std::mt19937 random(1);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  for (int round = 0; round < 500; ++round) {
    WordsAt made;
    int size = 1;
    const int num_axes = below(4);
    for (int axis = 0; axis < num_axes; ++axis) {
      made.placement.axes.push_back({"axis" + std::to_string(axis), 1 + below(4)});
      size *= static_cast<int>(made.placement.axes.back().extent);
      const Sbp words[] = {Sbp::broadcast(), Sbp::split(static_cast<std::size_t>(below(16))),
                           Sbp::partial(static_cast<ReduceOp>(below(3)))};
      made.words.push_back(words[below(3)]);
    }
    const int first = below(3);
    for (int i = 0; i < size + below(20); ++i) made.placement.ranks.emplace_back(first + i);
    if (below(2) == 0)
      std::shuffle(made.placement.ranks.begin(), made.placement.ranks.end(), random);
    made.placement.ranks.resize(static_cast<std::size_t>(size));
    CAPTURE(to_string(made));
    CHECK(parse_words_at(to_string(made)) == made);
  }
}

TEST_CASE("a text that is no words on a placement is refused with its column") {
  check_refused("", "wanted S(dim), B or P(sum|max|min) at column 1");
  check_refused("(S(0), X)@[dp=2, tp=2]", "wanted S(dim), B or P(sum|max|min) at column 8");
  check_refused("(S(0), B)", "wanted '@' and a mesh at column 10");
  check_refused("(S(0), B) [dp=2, tp=2]", "wanted '@' and a mesh at column 11");
  check_refused("(S(0), B)@dp=2", "wanted '[' at column 11");
  check_refused("(S(0), B)@[dp=2 tp=2]", "wanted ',' or ']' at column 17");
  check_refused("B@[dp=2] x", "wanted the end or devices like {4-7} at column 10");
  check_refused("B@[dp=2]{4, 5} x", "wanted the end or devices like {4-7} at column 16");
  check_refused("B@[dp=2]{4 5}", "wanted ',', '-' or '}' at column 12");
  check_refused("B@[dp=2]{4, }", "wanted a device from 0 to 2^20 - 1 at column 13");
  check_refused("B@[dp=2]{-1, 0}", "wanted a device from 0 to 2^20 - 1 at column 10");
  check_refused("B@[dp=2]{0, 1048576}", "wanted a device from 0 to 2^20 - 1 at column 13");
  check_refused("B@[dp=2]{0, 99999999999}", "wanted a device from 0 to 2^20 - 1 at column 13");
  check_refused("B@[dp=2]{0-}", "wanted a device from 0 to 2^20 - 1 at column 12");
  check_refused("B@[dp=2]{0, 1", "wanted ',', '-' or '}' at column 14");
}

TEST_CASE("another number of words or devices, and what is named twice, is refused") {
  check_refused("(S(0), B)@[dp=2]", "2 words for the 1 axis of [dp=2] at column 11");
  check_refused("B@[dp=2, tp=2]", "1 word for the 2 axes of [dp=2, tp=2] at column 3");
  check_refused("B@[dp=2, tp=2]", "wanted one word per axis");
  check_refused("B@[]", "1 word for the 0 axes of [] at column 3");
  check_refused("B@[dp=2]{0}", "lists 1 device at column 9, but [dp=2] wants 2");
  check_refused("B@[dp=2]{0-2}", "lists 3 devices at column 9, but [dp=2] wants 2");
  check_refused("B@[dp=2]{}", "lists 0 devices at column 9, but [dp=2] wants 2");
  check_refused("B@[dp=2]{3, 3}", "names the device 3 twice");
  check_refused("B@[dp=4]{0-2, 1}", "names the device 1 twice");
  check_refused("(B, B)@[dp=2, dp=2]", "names the axis 'dp' twice");
  check_refused("B@[dp=2097152]", "more than 2^20 devices");
  // These name the part of the text that is wrong.
  CHECK(refusal("B@[dp=0]") == "[dp=0]: the axis 'dp' has extent 0, wanted 1 or more");
  CHECK(refusal("(S(0)^1, S(0)^1)@[dp=2, tp=2]{0-9}").find("each of 1, 2, ... once") !=
        std::string::npos);
}

std::string misfit(const char* text, const Shape& shape) {
  try {
    require_fits(parse_words_at(text), shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "fits";
}

TEST_CASE("a split of a dim that the shape lacks is refused with the legal words") {
  CHECK(misfit("(S(0), B)@[dp=2, tp=2]", Shape{5, 7}) == "fits");
  CHECK(misfit("(P(max), B)@[dp=2, tp=2]", Shape()) == "fits");
  CHECK(misfit("(P(sum), S(2))@[dp=2, tp=2]", Shape{5, 7}) ==
        "'(P(sum), S(2))@[dp=2, tp=2]' splits dim 2 over tp at column 10, but the shape 5x7 has 2 "
        "dims: legal are S(0), S(1), B or P(sum|max|min)");
  CHECK(misfit("S(0)@[x=2]{4, 5}", Shape()) ==
        "'S(0)@[x=2]{4, 5}' splits dim 0 over x at column 1, but the shape () has 0 dims: legal "
        "are B or P(sum|max|min)");
}

TEST_CASE("a device outside the cluster is refused with the devices there are") {
  Cluster cluster;
  cluster.name = "small";
  cluster.nodes = 2;
  cluster.devices_per_node = 2;
  CHECK_NOTHROW(require_fits(parse_words_at("B@[x=4]"), cluster));
  CHECK_THROWS_WITH_AS(require_fits(parse_words_at("B@[x=2]{3, 4}"), cluster),
                       "'B@[x=2]{3, 4}' names the device 4, but small has the devices 0 to 3",
                       Error);
}

}  // namespace
}  // namespace sextant::words_at_test
