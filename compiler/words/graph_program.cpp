// The document's words as constraints of inference; then as for any graph.
#include "compiler/words/graph_program.h"

#include "compiler/words/stage.h"
#include "compiler/words/stage_builder.h"
#include "core/base/check.h"
#include "sbp/inference.h"

namespace sextant {
namespace {

WordConstraints constraints_of(const GraphDocument& document) {
  WordConstraints constraints;
  constraints.whole_groups = true;
  for (const GraphDocument::Words& words : document.words) {
    if (words.is_input)
      constraints.inputs[{words.op, words.index}] = words.words;
    else
      constraints.tensors[document.graph.output(words.op, words.index)] = words.words;
  }
  return constraints;
}

}  // namespace

StagedGraph stage_program(const GraphDocument& document, std::int64_t micro_batches,
                          const NetworkModel* network, const CostModel* cost) {
  require(!document.placements.empty(), ErrorCode::kUsage,
          "{}: a program without placements; a strategy gives a graph its places", document.name);
  require(micro_batches >= 1, ErrorCode::kUsage, "a step of {} micro-batches", micro_batches);
  const WordAssignment words = infer_words(document.graph, document.placements,
                                           document.stage_of_layer, constraints_of(document));
  BoxingTables tables(network, cost);
  return StageBuilder(document.graph, document.placements, document.stage_of_layer,
                      document.stage_of_layer, rates_of(document.graph), words, {}, tables.chosen)
      .run(micro_batches);
}

}  // namespace sextant
