// Which calls may come to the place of an earlier one, by hand: every letter is four bytes of one
// memory, a call reads some and writes some.
#include "actor/calls/call_groups.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace sextant::call_groups_test {
namespace {

using Groups = std::vector<std::vector<std::size_t>>;

struct Line {
  std::string key, reads, writes;
  bool is_view = false;
};

Groups groups(const std::vector<Line>& lines, std::size_t most = 4) {
  std::array<std::byte, std::size_t{4} * 26> memory{};
  std::deque<Actor> actors;
  std::vector<KernelContext> calls;
  std::vector<std::string> keys;
  const auto operands = [&](const std::string& letters) {
    std::vector<KernelOperand> operands;
    for (const char letter : letters) {
      KernelOperand& operand = operands.emplace_back();
      operand.data = memory.data() + 4 * (letter - 'a');
      operand.local = {{1}, DType::kF32};
    }
    return operands;
  };
  for (const Line& line : lines) {
    Actor& actor = actors.emplace_back();
    actor.kind = line.is_view ? "reshape" : "any";
    if (line.is_view) actor.in_place = Actor::InPlace{0, 0};
    KernelContext& call = calls.emplace_back();
    call.actor = &actor;
    call.in = operands(line.reads);
    call.out = operands(line.writes);
    keys.push_back(line.key);
  }
  return groups_of_calls(calls, keys, most);
}

}  // namespace

TEST_CASE("calls of one key that read one tensor are a group, whatever stands between them") {
  CHECK(groups({{"p", "xa", "q"}, {"", "q", "r"}, {"p", "xb", "k"}, {"p", "xc", "v"}}) ==
        Groups{{0, 2, 3}});
}

TEST_CASE("calls of different keys, of none, and one alone are no group") {
  CHECK(groups({{"p", "xa", "q"}, {"o", "xb", "k"}, {"", "xc", "v"}, {"", "xd", "w"}}).empty());
}

TEST_CASE("a call stays behind what makes its input") {
  CHECK(groups({{"p", "xa", "q"}, {"", "q", "b"}, {"p", "xb", "k"}}).empty());
  CHECK(groups({{"p", "xa", "q"}, {"p", "qb", "k"}}).empty());
}

TEST_CASE("a call stays behind who reads or writes the bytes that it writes") {
  CHECK(groups({{"p", "xa", "q"}, {"", "k", "r"}, {"p", "xb", "k"}}).empty());
  CHECK(groups({{"p", "xa", "q"}, {"", "r", "k"}, {"p", "xb", "k"}}).empty());
  CHECK(groups({{"p", "xa", "k"}, {"p", "xb", "k"}}).empty());
  CHECK(groups({{"p", "xa", "q"}, {"p", "xb", "x"}}).empty());
}

TEST_CASE("one that has to stay leaves the others their group") {
  CHECK(groups({{"p", "xa", "q"}, {"p", "qb", "k"}, {"p", "xc", "v"}}) == Groups{{0, 2}});
  // The second and the last begin another.
  CHECK(groups({{"p", "xa", "q"}, {"p", "qb", "k"}, {"p", "xc", "v"}, {"p", "qd", "w"}}) ==
        Groups{{0, 2}, {1, 3}});
}

TEST_CASE("a view in place holds up nobody") {
  CHECK(groups({{"p", "xa", "q"}, {"", "b", "b", true}, {"p", "xb", "k"}}) == Groups{{0, 2}});
  CHECK(groups({{"p", "xa", "q"}, {"", "b", "b"}, {"p", "xb", "k"}}).empty());
}

TEST_CASE("a group that is full is followed by another") {
  const std::vector<Line> lines{
      {"p", "xa", "q"}, {"p", "xb", "k"}, {"p", "xc", "v"}, {"p", "xd", "w"}, {"p", "xe", "u"}};
  CHECK(groups(lines, 2) == Groups{{0, 1}, {2, 3}});
  CHECK(groups(lines, 4) == Groups{{0, 1, 2, 3}});
}

}  // namespace sextant::call_groups_test
