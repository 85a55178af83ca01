// The physical graph as JSON: writing and reading are inverse, and bad texts are named by their
// path.
#include "core/base/check.h"
#include "core/graphs/physical_graph.h"
#include "core/text/json_text.h"
#include "tests/support/graph_builder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace sextant::physical_graph_json_test {
namespace {

using Json = nlohmann::ordered_json;

std::string refusal(const std::string& text) {
  try {
    physical_graph_from_json(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

// The refusal of the training graph's text after a change.
std::string refusal_after(const std::function<void(Json&)>& change) {
  Json json = Json::parse(to_json_text(testing::training_graph()));
  change(json);
  return refusal(json.dump());
}

TEST_CASE("a graph that is written and read is the same graph") {
  for (PhysicalGraph graph : {testing::training_graph(), testing::chain_graph({3, 2, 2}, 6)}) {
    graph.header = {.version = 1, .model_hash = "a", .cluster_hash = "b\"\n", .plan_hash = "c"};
    const PhysicalGraph again = physical_graph_from_json(to_json_text(graph));
    CHECK(again == graph);
    CHECK(to_json_text(again) == to_json_text(graph));
  }
}

// Members that use every kind of operand.
PhysicalGraph fused_graph() {
  PhysicalGraph graph = testing::training_graph();
  testing::fuse_matmul_bias(graph.blocks[1].actors[0], graph.blocks[1].registers[0]);
  return graph;
}

TEST_CASE("members of fused actors are written and read") {
  const PhysicalGraph graph = fused_graph();
  const std::string text = to_json_text(graph);
  CHECK(physical_graph_from_json(text) == graph);
  CHECK(to_json_text(physical_graph_from_json(text)) == text);
  const auto refusal_of = [&](const char* operand) {
    Json json = Json::parse(text);
    json["blocks"][1]["actors"][0]["members"][1]["in"][0] = operand;
    return refusal(json.dump());
  };
  for (const char* operand : {"t1", "i2", "o1", "x0", "t", "", "t0x", "t-1"}) {
    CAPTURE(operand);
    CHECK(refusal_of(operand) ==
          "physical graph: blocks[1].actors[0].members[1].in[0]: \"" + std::string(operand) +
              "\" is no operand of a member: wanted i0 ... of 2 inputs, o0 ... of 1 outputs or t0 "
              "... of 1 inner tensors");
  }
}

TEST_CASE("what an instance calls its actors is written and read, complete or not at all") {
  PhysicalGraph graph = fused_graph();
  Instance& instance = graph.programs[0].instances[1];
  const Block& block = graph.block_of(instance);
  for (const Actor& actor : block.actors) instance.names.actors.push_back("other." + actor.name);
  for (const Register& reg : block.registers)
    instance.names.registers.push_back("other." + reg.name);
  instance.names.members = {"other.first", "other.second"};
  CHECK(physical_graph_from_json(to_json_text(graph)) == graph);
  CHECK(graph.actor_name(instance, 0) == "other." + block.actors[0].name);
  CHECK(graph.register_name(instance, 0) == "other." + block.registers[0].name);
  const Actor fused = named_actor(graph, instance, 0);
  CHECK(fused.name == "other." + block.actors[0].name);
  CHECK(fused.members[1].name == "other.second");
  CHECK(fused.members[1].kind == block.actors[0].members[1].kind);

  Json json = Json::parse(to_json_text(graph));
  json["programs"][0]["instances"][1]["names"]["actors"].push_back("one too many");
  CHECK(refusal(json.dump()) ==
        fmt::format("physical graph: programs[0].instances[1].names.actors: "
                    "{} names for the {} actors of the block",
                    block.actors.size() + 1, block.actors.size()));
}

TEST_CASE("attributes keep their type, infinities included") {
  PhysicalGraph graph = testing::training_graph();
  Attributes& attributes = graph.blocks[1].actors[0].attributes;
  attributes = {{"flag", true},
                {"count", std::int64_t{3}},
                {"real", 3.0},
                {"tiny", 4.9e-324},
                {"third", 1.0 / 3.0},
                {"mask", -std::numeric_limits<double>::infinity()},
                {"name", "x"},
                {"none", std::vector<std::int64_t>{}},
                {"dims", std::vector<std::int64_t>{2, -1}}};
  graph.blocks[1].actors[0].work.flops = 1e25;
  graph.programs[0].guards = {{.later = RunId(3), .earlier = RunId(1), .lag = 1}};
  graph.blocks[1].edges.push_back(
      {.from_register = 0, .to_actor = 2, .consume_for = 1, .control = true});
  CHECK(physical_graph_from_json(to_json_text(graph)) == graph);
}

TEST_CASE("a NaN attribute stays a NaN") {
  PhysicalGraph graph = testing::training_graph();
  graph.blocks[1].actors[0].attributes = {{"x", std::numeric_limits<double>::quiet_NaN()}};
  const PhysicalGraph again = physical_graph_from_json(to_json_text(graph));
  CHECK(std::isnan(again.blocks[1].actors[0].attributes.real("x")));
}

TEST_CASE("a wrong value is refused with the path of its key") {
  CHECK(refusal_after([](Json& json) { json["header"]["version"] = 2; }) ==
        "physical graph: header.version: a graph of version 2; this program reads version 1");
  CHECK(refusal_after([](Json& json) { json["placements"][0]["axes"][0][1] = 0; }) ==
        "physical graph: placements[0].axes[0][1]: found 0, wanted 1 to 2147483647");
  CHECK(refusal_after([](Json& json) { json["layouts"][1]["words"] = "(S(0), X)"; }) ==
        "physical graph: layouts[1].words: '(S(0), X)' are not SBP words: wanted S(dim), B or "
        "P(sum|max|min) at column 8");
  CHECK(refusal_after([](Json& json) { json["layouts"][0]["shape"] = "4xx"; }) ==
        "physical graph: layouts[0].shape: '4xx' is not a shape (column 3): wanted extents like "
        "5x7, or () for a scalar");
  CHECK(refusal_after([](Json& json) { json["blocks"][1]["actors"][0]["queue"] = "gpu"; }) ==
        "physical graph: blocks[1].actors[0].queue: found \"gpu\", wanted one of compute, "
        "collective, transfer_out_forward, transfer_out_backward, transfer_in_forward, "
        "transfer_in_backward, copy_in, copy_out, host");
  CHECK(refusal_after([](Json& json) { json["programs"][0]["arena"]["size"] = "big"; }) ==
        "physical graph: programs[0].arena.size: found \"big\", wanted an integer");
}

TEST_CASE("an index beyond its table is refused with the path of its key") {
  CHECK(refusal_after([](Json& json) { json["layouts"][0]["placement"] = 2; }) ==
        "physical graph: layouts[0].placement: 2 is no placement: there are 2");
  CHECK(refusal_after([](Json& json) { json["blocks"][1]["registers"][0]["frame"] = 1; }) ==
        "physical graph: blocks[1].registers[0].frame: 1 is no frame of the block: there are 1");
  CHECK(refusal_after([](Json& json) { json["blocks"][1]["actors"][0]["in"][0] = "p2"; }) ==
        "physical graph: blocks[1].actors[0].in[0]: \"p2\" is no operand: wanted r0 ... of 2 "
        "registers or p0 ... of 2 ports");
  CHECK(refusal_after([](Json& json) { json["blocks"][1]["actors"][0]["in"][0] = "q0"; }) ==
        "physical graph: blocks[1].actors[0].in[0]: \"q0\" is no operand: wanted r0 ... of 2 "
        "registers or p0 ... of 2 ports");
  CHECK(refusal_after([](Json& json) { json["programs"][0]["order"][0][1] = 3; }) ==
        "physical graph: programs[0].order[0][1]: 3 is no actor of the instance: there are 3");
  CHECK(refusal_after([](Json& json) { json["programs"][0]["order"][0][2] = 4; }) ==
        "physical graph: programs[0].order[0][2]: found 4, wanted 1 to 3");
  CHECK(refusal_after([](Json& json) { json["programs"][0]["order"][0][3] = 2; }) ==
        "physical graph: programs[0].order[0][3]: 2 is no act of the instance: there are 2");
  CHECK(refusal_after([](Json& json) { json["programs"][0]["links"][0][3] = 2; }) ==
        "physical graph: programs[0].links[0][3]: 2 is no port of the instance: there are 2");
  CHECK(refusal_after([](Json& json) { json["ranks"][3]["index_in_placement"] = 2; }) ==
        "physical graph: ranks[3].index_in_placement: 2 is no position in the placement of the "
        "program: there are 2");
  CHECK(refusal_after([](Json& json) { json["ranks"][0]["groups"][0] = 5; }) ==
        "physical graph: ranks[0].groups[0]: 5 is no group: there are 5");
}

TEST_CASE("unknown, missing and misplaced keys are refused") {
  CHECK(refusal_after([](Json& json) { json["program"] = 1; }) ==
        "physical graph: unknown key 'program', did you mean 'programs'?");
  CHECK(refusal_after([](Json& json) { json["blocks"][0]["actors"][0].erase("work"); }) ==
        "physical graph: blocks[0].actors[0]: the key 'work' is missing");
  CHECK(refusal_after([](Json& json) { json["blocks"][0]["edges"] = 7; }) ==
        "physical graph: blocks[0].edges: found 7, wanted a list");
  CHECK(refusal_after([](Json& json) {
          json["programs"][0]["order"][0] = {0, 1};
        }) ==
        "physical graph: programs[0].order[0]: found 2 numbers, wanted [instance, first_actor, "
        "num_actors, act, launch_group]");
}

// Reads and validates; neither may do anything but refuse with an Error or messages.
enum class Outcome { kRefused, kInvalid, kValid };
Outcome outcome_of(const std::string& text) {
  try {
    return validate(physical_graph_from_json(text)).empty() ? Outcome::kValid : Outcome::kInvalid;
  } catch (const Error&) {
    return Outcome::kRefused;
  }
}

TEST_CASE("whatever happens to a text, reading refuses it or the validator can walk the graph") {
  const std::string text = to_json_text(testing::training_graph());
  std::mt19937_64 random(7);
  std::array<int, 3> counts{};
  for (int i = 0; i < 4000; ++i) {
    std::string copy = text;
    // Digits become other digits, so that most texts stay JSON and change an index or a size.
    for (int change = 0; change < 1 + i % 3; ++change) {
      std::size_t at = random() % copy.size();
      while (copy[at] < '0' || copy[at] > '9') at = (at + 1) % copy.size();
      copy[at] = static_cast<char>('0' + random() % 10);
      if (random() % 8 == 0) copy.insert(copy.begin() + static_cast<std::ptrdiff_t>(at), '-');
      if (random() % 8 == 0) copy.erase(at, 1 + random() % 3);
    }
    ++counts[static_cast<std::size_t>(outcome_of(copy))];
  }
  // The mutations reach both the reader and the validator.
  CHECK(counts[0] > 400);
  CHECK(counts[1] > 400);
  CHECK(counts[2] > 0);
}

TEST_CASE("readable text keeps short values on one line and breaks long ones") {
  const Json json = {{"short", {1, 2, 3}}, {"long", {"aaaaaaaaaa", "bbbbbbbbbb"}}, {"none", {}}};
  CHECK(to_readable_text(json, 20) ==
        "{\n"
        " \"short\": [1, 2, 3],\n"
        " \"long\": [\n"
        "  \"aaaaaaaaaa\",\n"
        "  \"bbbbbbbbbb\"\n"
        " ],\n"
        " \"none\": null\n"
        "}\n");
  CHECK(to_readable_text(Json::array(), 20) == "[]\n");
}

}  // namespace
}  // namespace sextant::physical_graph_json_test
