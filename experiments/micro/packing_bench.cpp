// How far each packing rule leaves the arena above its lower bound, over models and strategies, and
// what operators in place and the symmetric region change. Prints tables. Definitions: METRICS.md.
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace sextant;

// Of this thread alone: the machine may have other work.
double cpu_milliseconds() {
  return 1000.0 * static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

struct Case {
  const char* model;
  const char* cluster;
  const char* strategy;
  std::int64_t micro_batches;
};

constexpr std::int64_t kWork = kPackingWork;

const std::vector<Case>& cases() {
  static const std::vector<Case> kAll = {
      {"gpt2-xl", "dgx-h100:nodes=1", "dp=8 micro_batch=1", 4},
      {"gpt2-xl", "dgx-h100:nodes=1", "dp=8 micro_batch=1 zero=1", 4},
      {"gpt2-xl", "dgx-h100:nodes=1", "dp=4 pp=2 micro_batch=2 schedule=1f1b", 8},
      {"gpt2-xl", "dgx-h100:nodes=1", "dp=2 pp=4 micro_batch=1 schedule=1f1b", 8},
      {"gpt2-xl", "dgx-h100:nodes=1", "dp=2 pp=4 micro_batch=1 schedule=gpipe zero=1", 8},
      {"gpt2-xl", "dgx-h100:nodes=1", "dp=2 pp=4 micro_batch=1 schedule=zb-h1", 8},
      {"llama2-7b", "dgx-h100:nodes=2", "dp=2 tp=8 micro_batch=1 zero=1", 8},
      {"llama2-7b", "dgx-h100:nodes=2", "dp=2 tp=2 pp=4 micro_batch=1 schedule=1f1b", 16},
      {"llama2-7b", "dgx-h100:nodes=2", "dp=2 tp=2 pp=4 micro_batch=1 schedule=gpipe zero=1", 16},
      {"llama2-7b", "dgx-h100:nodes=2", "dp=2 tp=2 pp=4 micro_batch=1 schedule=zb-h1 zero=1", 16},
      {"gpt3-175b", "dgx-h100:nodes=128", "dp=16 tp=8 pp=8 micro_batch=1 schedule=1f1b", 96},
      {"gpt3-175b", "dgx-h100:nodes=128", "dp=16 tp=8 pp=8 micro_batch=1 schedule=zb-h1 zero=1",
       96},
      {"gpt3-175b", "dgx-h100:nodes=128", "dp=16 tp=8 pp=8 micro_batch=1 schedule=gpipe", 32},
  };
  return kAll;
}

ExpandedGraph compile_case(const Case& one, ExpandOptions options) {
  const Cluster cluster = load_cluster(one.cluster);
  const Strategy strategy = parse_strategy(one.strategy);
  const ModelConfig model = load_model(one.model);
  const LogicalGraph training = make_training_graph(
      build_graph(model, strategy.dp * strategy.micro_batch, model.sequence, DType::kBF16),
      strategy);
  options.checks = false;
  return compile_and_report(
      training, strategy, strategy.dp * strategy.micro_batch * one.micro_batches,
      *make_roofline(cluster, DType::kBF16), *make_alpha_beta(cluster), options);
}

// Arena over lower bound.
struct Excess {
  double sum = 0, worst = 1;
  int programs = 0, left_out = 0;  // of which the rule ran out of work
  double ms = 0;
  void add(double ratio) {
    sum += ratio;
    worst = std::max(worst, ratio);
    ++programs;
  }
};

void add_rules(const PackedProgram& packed, std::array<Excess, kPackingRules.size()>& rules,
               Excess& best) {
  const Bytes bound = packed.fixed + packing_bound(packed.stays);
  const auto ratio = [&](const Packing& packing) {
    return static_cast<double>((packed.fixed + packing.size).value) /
           static_cast<double>(bound.value);
  };
  for (std::size_t i = 0; i < kPackingRules.size(); ++i) {
    const double begin = cpu_milliseconds();
    const std::optional<Packing> packing = pack(kPackingRules[i], packed.stays, kWork);
    rules[i].ms += cpu_milliseconds() - begin;
    if (packing)
      rules[i].add(ratio(*packing));
    else
      ++rules[i].left_out;
  }
  const double begin = cpu_milliseconds();
  const BestPacking kept = pack_best(packed.stays, kWork);
  best.ms += cpu_milliseconds() - begin;
  best.add(ratio(kept.packing));
}

void say(const std::string& name, const Excess& excess) {
  const int programs = std::max(excess.programs, 1);
  fmt::print("| {} | {:.4f} | {:.4f} | {:.2f} | {} |\n", name, excess.sum / programs, excess.worst,
             excess.ms / std::max(excess.programs + excess.left_out, 1), excess.left_out);
}

Bytes largest(const ExpandedGraph& expanded) {
  Bytes arena;
  for (const RankProgram& program : expanded.graph().programs)
    arena = std::max(arena, program.arena.size);
  return arena;
}

}  // namespace

int main() {
  std::array<Excess, kPackingRules.size()> rules;
  Excess best;
  fmt::print("| model, strategy | stays | arena | best / bound | rule | in place saves |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (const Case& one : cases()) {
    const ExpandedGraph expanded = compile_case(one, {});
    const ExpandedGraph apart = compile_case(one, {.in_place = false});
    std::size_t stays = 0;
    double worst = 1;
    std::string won;
    for (std::size_t p = 0; p < expanded.packed().size(); ++p) {
      const PackedProgram& packed = expanded.packed()[p];
      const ArenaPlan& arena = expanded.graph().programs[ProgramId(p)].arena;
      add_rules(packed, rules, best);
      stays = std::max(stays, packed.stays.size());
      worst = std::max(worst, static_cast<double>(arena.size.value) /
                                  static_cast<double>(arena.lower_bound.value));
      if (won.find(to_string(packed.rule)) == std::string::npos)
        won += (won.empty() ? "" : ", ") + std::string(to_string(packed.rule));
    }
    fmt::print("| {}, {} | {} | {} | {:.4f} | {} | {:.2f} % |\n", one.model, one.strategy, stays,
               to_text(largest(expanded)), worst, won,
               100.0 * (1.0 - static_cast<double>(largest(expanded).value) /
                                  static_cast<double>(largest(apart).value)));
  }
  fmt::print("\n| rule | mean arena / bound | worst | ms per program | out of work |\n");
  fmt::print("|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < kPackingRules.size(); ++i)
    say(std::string(to_string(kPackingRules[i])), rules[i]);
  say("best of all", best);
}
