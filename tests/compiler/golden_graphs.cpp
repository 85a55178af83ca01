// Staging without a strategy, and files of text.
#include "tests/compiler/golden_graphs.h"

#include "compiler/words/stage.h"
#include "compiler/words/stage_builder.h"
#include "core/base/check.h"
#include "sbp/inference.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

namespace sextant {
namespace {

OpId op_of(const LogicalGraph& graph, const std::string& name) {
  const auto id = graph.find_op(name);
  require(id.has_value(), ErrorCode::kUsage, "no operator '{}'", name);
  return *id;
}

WordConstraints constraints_of(const GlobalProgram& program) {
  WordConstraints constraints;
  for (const auto& [name, words] : program.tensors)
    constraints.tensors[program.graph.output(op_of(program.graph, name))] = words;
  for (const auto& [input, words] : program.inputs)
    constraints.inputs[{op_of(program.graph, input.first), input.second}] = words;
  return constraints;
}

}  // namespace

Placement devices(int first, int count) {
  return consecutive_placement({{"d", count}}, Rank(first));
}

StagedGraph stage(const GlobalProgram& program) {
  Cluster cluster = load_cluster("v100x8");
  cluster.nodes = 2;
  cluster.devices_per_node = 2;
  const auto network = make_alpha_beta(cluster);
  const WordAssignment words = infer_words(program.graph, program.placements,
                                           program.stage_of_layer, constraints_of(program));
  const std::vector<Rate> rates = rates_of(program.graph);
  BoxingTables tables(network.get(), nullptr);
  StagedGraph graph = StageBuilder(program.graph, program.placements, program.stage_of_layer,
                                   program.stage_of_layer, rates, words, {}, tables.chosen)
                          .run(1);
  CHECK(validate(graph) == std::vector<std::string>{});
  return graph;
}

std::vector<std::string> communication_lines(const StagedGraph& graph) {
  std::vector<std::string> lines;
  for (const StagedOp& op : graph.ops) {
    if (!op.communication) continue;
    const bool sends = op.communication->side == Side::kSend;
    const StagedTensorId tensor = sends ? op.in[0] : op.out[0];
    const std::string what = sends                                      ? "send"
                             : op.communication->side == Side::kReceive ? "receive"
                                                                        : op.kind;
    lines.push_back(fmt::format("{} {} [{}, stage {}]", what, graph.tensors[tensor].name,
                                to_string(op.phase), op.stage));
  }
  return lines;
}

void check_golden(const std::string& name, const std::string& text) {
  const std::string path =
      std::string(SEXTANT_SOURCE_ROOT) + "/tests/compiler/golden/" + name + ".txt";
  if (std::getenv("SEXTANT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), "no " << path << "; SEXTANT_UPDATE_GOLDEN=1 writes it");
  std::stringstream golden;
  golden << file.rdbuf();
  std::istringstream found(text);
  std::string expected_line, line;
  for (int number = 1; std::getline(golden, expected_line); ++number) {
    std::getline(found, line);
    const std::string where = fmt::format("{}:{}", path, number);
    CAPTURE(where);
    REQUIRE((found ? line : "end of the graph") == expected_line);
  }
  CHECK_MESSAGE(!std::getline(found, line), "more than " << path << " has: " << line);
}

}  // namespace sextant
