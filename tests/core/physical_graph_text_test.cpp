// The text form of physical graphs: printing and reading are inverse, no token is without meaning,
// and whatever is damaged is refused at its place or is another graph.
#include "core/graphs/physical_graph_text.h"

#include "core/base/check.h"
#include "core/text/text_scanner.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sextant::physical_graph_text_test {
namespace {

// Every statement and clause, as it is printed. No valid graph.
constexpr std::string_view kEverything = R"(graph 1 model a1 cluster "b 2" plan "3"

placement #0 [dp=2, "a b"=2] {0, 1, 4 to 6, -1}
placement #1 [] {3}
layout #0 4x5 f32 (S(0), B) on #0
layout #1 () bf16 P(max) on #1
layout #2 8 f32 (S(0)^2, S(0)^1) on #0

block layer.forward forward
  frame #0 64 activations symmetric filled by 2 acts
  frame #1 128 parameters state
  register hidden 2x5 f32 of #0 in #0 at 0
  register same 2x5 f32 of #0 in #0 at 256
  register same () bf16 of #7 in #1 at -256
  port hidden 2x5 f32
  port "2 words" 3 i32
  actor load "reads \"\\\x0a"() on host
  actor product matmul_bias(hidden, <hidden, <"2 words") -> #1, #2 phase recompute in_place <#0 >#1 {big=9223372036854775807, dims=[2, -1], flag=true, mask=-inf, name="x y", none=[], off=false, real=3.0, third=0.3333333333333333} work flops 1e+25 read 84 written 40 kernel "matmul:2x5x3"
    inner inside 2x5 f32 of #0
    member first matmul(<#0, <#1) -> inside {transpose_w=true}
    member second bias_add(inside, <#2) -> >#0, #4
  actor sum all_reduce(#1) on collective both #0 to #1 as f32 role 2 reduce max
  actor odd sum() on transfer_in_backward receive #0 to #9 as f32 role 0 primitive all_to_all
  edge <hidden -> product
  edge hidden -> product for 2 acts control
  edge #9 -> #-1

block lonely optimizer
  register a 1 f32 of #0 in #0 at 0
  actor reads sum(a)
  no edges

group pair {0, 1}
group none {}

program stage0 on #0 roles 3
  arena 2048 lower_bound 1024 peaks {0, 1024, 0, 0, 0, 0}
  instance first of layer.forward layer 3 acts 2
    slots #0 2 registers {0, 1} at {0, 256}
    slots #1 1 registers {} at {}
    names actors {l, p, s, o} registers {h, "", r} members {m, n}
  instance second of #5
  link first h -> first <hidden for 2 acts
  link second #0 -> #7 <#1
  run first act 1 l to s launch_group 4  // #0
  run second act 0 #2  // #1
  guard #1 after #0 lag 1
  guard #0 after #1

rank #0 stage0 at 1 {pair, none, #7}
rank #1 #4 at 0
)";

PhysicalGraph read(std::string_view text) { return physical_graph_from_text(text); }

// What reading says against a text; nothing where it is accepted.
std::optional<Error> refusal_of(std::string_view text) {
  try {
    read(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error;
  }
  return std::nullopt;
}

std::string refusal(std::string_view text) {
  const std::optional<Error> error = refusal_of(text);
  return error ? error->what() : "accepted";
}

// `from`, which stands there once, becomes `to`.
std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(from, at + 1) == std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string refusal_with(std::string_view from, std::string_view to) {
  return refusal(with(std::string(kEverything), from, to));
}

std::vector<TextToken> tokens_of(std::string_view text) {
  std::vector<TextToken> tokens;
  TextScanner scanner(text, "");
  while (scanner.peek().kind != TextToken::Kind::kEnd) tokens.push_back(scanner.take());
  return tokens;
}

std::size_t offset_of(std::string_view text, const TextToken& token) {
  return static_cast<std::size_t>(token.text.data() - text.data());
}

TEST_CASE("every statement that is printed is read back") {
  const PhysicalGraph graph = read(kEverything);
  CHECK(to_text(graph) == kEverything);
  CHECK(graph.header.model_hash == "a1");
  CHECK(graph.placements[PlacementId(0)].ranks.back() == Rank(-1));
  CHECK(graph.blocks[BlockId(0)].actors[0].kind == "reads \"\\\n");
  CHECK(graph.blocks[BlockId(0)].actors[1].attributes.real("mask") ==
        -std::numeric_limits<double>::infinity());
  CHECK(graph.blocks[BlockId(0)].ports[1].readers.empty());
  CHECK(graph.blocks[BlockId(1)].edges.empty());
  CHECK(graph.programs[ProgramId(0)].order[RunId(0)].num_actors == 3);
  CHECK(graph.programs[ProgramId(0)].links[0].from_register == 0);
}

TEST_CASE("a graph that is printed and read is the same graph") {
  for (PhysicalGraph graph : {testing::training_graph(), testing::chain_graph({3, 2, 2}, 6),
                              testing::exchange_graph(true, false, true, true)}) {
    graph.header = {.version = 1, .model_hash = "a", .cluster_hash = "b\"\n", .plan_hash = "c"};
    const PhysicalGraph again = read(to_text(graph));
    CHECK(again == graph);
    CHECK(to_text(again) == to_text(graph));
  }
}

TEST_CASE("edges that follow from operands need not be written") {
  const std::string text =
      "graph 1\n"
      "block b forward\n"
      "register r 1 f32 of #0 in #0 at 0\n"
      "port p 1 f32\n"
      "actor make source(<p, <p) -> r\n"
      "actor use square(r, r)\n";
  const PhysicalGraph graph = read(text);
  CHECK(graph.blocks[BlockId(0)].edges == std::vector<Edge>{{.from_register = 0, .to_actor = 1}});
  CHECK(graph.blocks[BlockId(0)].ports[0].readers == std::vector<std::int32_t>{0});
  CHECK(to_text(graph).find("edge") == std::string::npos);
  CHECK(read(text + "no edges\n").blocks[BlockId(0)].edges.empty());
}

TEST_CASE("attributes keep their type, and reals all their digits") {
  PhysicalGraph graph = testing::training_graph();
  for (const double real : {3.0, -0.0, 4.9e-324, 1.0 / 3.0, 1e25, 123456789.0,
                            std::numeric_limits<double>::infinity()}) {
    graph.blocks[BlockId(1)].actors[0].attributes = {{"count", std::int64_t{3}}, {"real", real}};
    graph.blocks[BlockId(1)].actors[0].work.flops = real;
    CHECK(read(to_text(graph)) == graph);
  }
  graph.blocks[BlockId(1)].actors[0].attributes = {{"x", std::numeric_limits<double>::quiet_NaN()}};
  CHECK(std::isnan(read(to_text(graph)).blocks[BlockId(1)].actors[0].attributes.real("x")));
}

TEST_CASE("what an instance calls its actors and registers is what its runs and links say") {
  PhysicalGraph graph = read(kEverything);
  const Instance& instance = graph.programs[ProgramId(0)].instances[InstanceId(0)];
  CHECK(graph.actor_name(instance, 1) == "p");
  CHECK(graph.register_name(instance, 0) == "h");
  CHECK(named_actor(graph, instance, 1).members[1].name == "n");
  CHECK(refusal_with("act 1 l to s", "act 1 load to s") ==
        "physical graph: line 45, column 19: there is no actor 'load'");
}

TEST_CASE("what is malformed is refused with line and column") {
  CHECK(refusal("") ==
        "physical graph: line 1, column 1: found the end of the text, wanted 'graph'");
  CHECK(refusal_with("graph 1", "graph one") ==
        "physical graph: line 1, column 7: found 'one', wanted an integer from -2147483648 to "
        "2147483647");
  CHECK(refusal_with("4x5 f32 (S", "4xx f32 (S") ==
        "physical graph: line 5, column 11: '4xx' is not a shape (column 3): wanted extents like "
        "5x7, or () for a scalar");
  CHECK(refusal_with("(S(0), B)", "(S(0), X)") ==
        "physical graph: line 5, column 26: found 'X', wanted S(dim), B or P(sum|max|min)");
  CHECK(refusal_with("layout #1", "layout #2") ==
        "physical graph: line 6, column 8: found #2, but this is layout #1");
  CHECK(refusal_with("128 parameters", "128 params") ==
        "physical graph: line 11, column 16: found 'params', wanted one of parameters, gradients, "
        "optimizer, activations, workspace, communication");
  CHECK(refusal_with("on collective", "on gpu") ==
        "physical graph: line 22, column 31: found 'gpu', wanted one of compute, collective, "
        "transfer_out_forward, transfer_out_backward, transfer_in_forward, transfer_in_backward, "
        "copy_in, copy_out, host");
  CHECK(refusal_with("flag=true", "dims=true") ==
        "physical graph: line 18, column 141: the attribute 'dims' stands twice");
  CHECK(refusal_with("big=9223372036854775807", "big=9223372036854775808") ==
        "physical graph: line 18, column 106: found '9223372036854775808', wanted an integer from "
        "-9223372036854775808 to 9223372036854775807");
  CHECK(refusal_with("guard #0 after #1\n", "guard #0 after #1 lag\n") ==
        "physical graph: line 48, column 24: found the end of the line, wanted an integer from "
        "-2147483648 to 2147483647");
  CHECK(
      refusal_with("\\x0a", "\\n") ==
      "physical graph: line 17, column 14: found '\"reads \\\"\\\\\\n\"', wanted a text in quotes, "
      "with no escapes but \\\", \\\\ and \\xHH");
  CHECK(refusal_with("program stage0", "programme stage0") ==
        "physical graph: line 36, column 1: found 'programme', wanted placement, layout, block, "
        "group, program or rank, or a statement of the block");
  CHECK(refusal_with("4 to 6", "6 to 4") ==
        "physical graph: line 3, column 37: 6 to 4 is no range: its end is before its begin");
  CHECK(refusal_with("4 to 6", "4 to 1048579") ==
        "physical graph: line 3, column 37: more than 2^20 devices in one list");
  CHECK(
      refusal_with("primitive all_to_all", "") ==
      "physical graph: line 23, column 74: found the end of the line, wanted 'primitive' and which "
      "one it is: the kind 'sum' is none");
}

TEST_CASE("a name is that of exactly one thing") {
  CHECK(refusal_with("all_reduce(#1)", "all_reduce(same)") ==
        "physical graph: line 22, column 24: 'same' is the name of several: write the register's "
        "position, as #0");
  CHECK(refusal_with("member first matmul(<#0, <#1) -> inside", "member first matmul() -> insde") ==
        "physical graph: line 20, column 30: there is no inner tensor 'insde', did you mean "
        "'inside'?");
  CHECK(refusal_with("rank #0 stage0", "rank #0 stage") ==
        "physical graph: line 50, column 9: there is no program 'stage', did you mean 'stage0'?");
  CHECK(refusal_with("edge <hidden -> product", "edge <#2 -> product") ==
        "physical graph: line 24, column 8: there is no port #2: the block has 2");
}

// ------------------------------------------------------------------------------------ damage

// Refused at a place of the text, or another graph than `graph`.
void check_damaged(const std::string& text, const PhysicalGraph& graph) {
  try {
    if (read(text) == graph) FAIL_CHECK("the damage means nothing:\n" << text);
  } catch (const Error& error) {
    if (!error.place().starts_with("physical graph: line "))
      FAIL_CHECK("no place: " << error.what());
  }
}

// The laws for one text, whose numbers are no NaN.
void check_damage(const std::string& text) {
  const PhysicalGraph graph = read(text);
  for (const TextToken& token : tokens_of(text)) {
    const std::size_t begin = offset_of(text, token);
    if (token.kind == TextToken::Kind::kEndOfLine) continue;
    const std::size_t line_end = std::min(text.find('\n', begin), text.size());
    std::string replaced = text, dropped = text, cut = text;
    const std::optional<Error> refused =
        refusal_of(replaced.replace(begin, token.text.size(), "?"));
    REQUIRE(refused.has_value());
    CHECK(refused->place() ==
          fmt::format("physical graph: line {}, column {}", token.line, token.column));
    check_damaged(dropped.erase(begin, token.text.size()), graph);
    check_damaged(cut.erase(begin, line_end - begin), graph);
  }
}

TEST_CASE("a token replaced is refused where it stands; dropped, or the line cut, it is missed") {
  check_damage(std::string(kEverything));
  check_damage(to_text(testing::training_graph()));
}

TEST_CASE("a line that is dropped is missed") {
  for (const std::string& text : {std::string(kEverything), to_text(testing::training_graph())}) {
    const PhysicalGraph graph = read(text);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin) + 1;
      std::string dropped = text;
      if (end - begin > 1) check_damaged(dropped.erase(begin, end - begin), graph);
      begin = end;
    }
  }
}

// Reads and validates; neither may do anything but refuse with an Error or messages.
enum class Outcome { kRefused, kInvalid, kValid };
Outcome outcome_of(const std::string& text) {
  PhysicalGraph graph;
  try {
    graph = read(text);
  } catch (const Error& error) {
    CHECK(error.place().starts_with("physical graph: line "));
    return Outcome::kRefused;
  }
  CHECK(read(to_text(graph)) == graph);
  return validate(graph).empty() ? Outcome::kValid : Outcome::kInvalid;
}

// Mostly digits become other digits, so that texts stay readable and change a position or a size;
// signs come and pieces go.
std::string mutated(std::string text, std::mt19937_64& random) {
  std::size_t at = random() % text.size();
  while (text[at] < '0' || text[at] > '9') at = (at + 1) % text.size();
  text[at] = static_cast<char>('0' + random() % 10);
  if (random() % 8 == 0) text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), '-');
  if (random() % 8 == 0) text.erase(at, 1 + random() % 3);
  if (random() % 8 == 0) text[random() % text.size()] = static_cast<char>(random() % 128);
  return text;
}

TEST_CASE("whatever happens to a text, reading refuses it or the validator can walk the graph") {
  const std::string text = to_text(testing::training_graph());
  std::mt19937_64 random(7);
  std::array<int, 3> counts{};
  for (int i = 0; i < 4000; ++i) {
    std::string copy = text;
    for (int change = 0; change < 1 + i % 3; ++change) copy = mutated(std::move(copy), random);
    CAPTURE(copy);
    ++counts[static_cast<std::size_t>(outcome_of(copy))];
  }
  // The mutations reach both the reader and the validator.
  CHECK(counts[0] > 400);
  CHECK(counts[1] > 400);
  CHECK(counts[2] > 0);
}

}  // namespace
}  // namespace sextant::physical_graph_text_test
