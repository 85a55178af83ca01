// Strategies as text, through the compiler.
#include "tests/simulator/compiled_plans.h"

#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"

namespace sextant {

std::vector<PlanCase> plan_cases() {
  const std::string moe = "gpt:layers=4,hidden=64,heads=4,vocab=128,seq=16,experts=4,top_k=2";
  return {{"dp=8 tp=1 pp=1 micro_batch=1"},
          {"dp=1 tp=4 pp=1 micro_batch=1"},
          {"dp=1 tp=1 pp=4 micro_batch=1 schedule=gpipe"},
          {"dp=2 tp=2 pp=2 micro_batch=1 schedule=1f1b"},
          {"dp=2 tp=4 pp=4 micro_batch=1 schedule=1f1b"},
          {"dp=2 tp=2 pp=2 micro_batch=1 schedule=interleaved virtual=2"},
          {"dp=2 tp=1 pp=2 micro_batch=1 schedule=zb-h1"},
          {"dp=2 tp=1 pp=2 micro_batch=1 schedule=zb-v"},
          {"dp=4 tp=2 pp=1 micro_batch=1 zero=1"},
          {"dp=4 tp=2 pp=2 micro_batch=1 zero=2"},
          {"dp=4 tp=2 pp=1 micro_batch=1 zero=3"},
          {"dp=2 tp=2 pp=2 cp=2 micro_batch=1"},
          {"dp=4 tp=1 pp=2 ep=2 micro_batch=1", moe},
          {"dp=4 tp=4 pp=4 micro_batch=1"}};
}

PhysicalGraph compiled(const PlanCase& one, const CostModel& cost, const NetworkModel& network,
                       int micro_batches) {
  const Strategy strategy = parse_strategy(one.strategy);
  const ModelConfig model = load_model(one.model);
  const std::int64_t micro_batch = strategy.dp * strategy.micro_batch;
  const LogicalGraph training =
      make_training_graph(build_graph(model, micro_batch, model.sequence, DType::kBF16), strategy);
  return compile(training, strategy, micro_batch * micro_batches, cost, network);
}

}  // namespace sextant
