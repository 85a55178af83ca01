// `sextant explain`: the communication a plan needs, each with its two sides and its cost; single
// operators and tensors; and what another choice would have cost.
#include "cli/run_record.h"
#include "cli/verbs.h"
#include "core/check.h"
#include "core/communication_volume.h"
#include "search/why_not.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <map>
#include <sstream>
#include <tuple>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// Equal communications of equal layers, on one rank of a stage.
struct BoxingRow {
  std::string name, phase, primitive, words;
  std::int64_t members = 0;
  std::int64_t per_step = 0;  // times per step
  Bytes bytes;                // of the tensor as the group sees it
  Duration each;
  int first_stage = 0, last_stage = 0;
};

const DeviceGroup& group_of(const PhysicalGraph& graph, const RankBinding& binding,
                            const Communication& communication) {
  return graph.groups[binding.groups[static_cast<std::size_t>(communication.group)].index()];
}

std::string words_text(const PhysicalGraph& graph, const Communication& communication) {
  return to_string(graph.layouts[communication.from.index()].words) + " -> " +
         to_string(graph.layouts[communication.to.index()].words);
}

class BoxingCollector {
 public:
  BoxingCollector(const PhysicalGraph& graph, const NetworkModel& network)
      : graph_(graph), network_(network) {}

  // The first rank of every placement speaks for its stage.
  std::vector<BoxingRow> rows() {
    for (std::size_t rank = 0; rank < graph_.ranks.size(); ++rank)
      if (graph_.ranks[rank].index_in_placement == 0) add_rank(Rank(rank));
    std::vector<BoxingRow> rows;
    for (const Key& key : order_) rows.push_back(rows_.at(key));
    return rows;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::int64_t>;

  void add_rank(Rank rank) {
    const RankProgram& program = graph_.program_of(rank);
    for (const Instance& instance : program.instances)
      for (const Actor& actor : graph_.block_of(instance).actors)
        if (actor.communication && actor.communication->side != Side::kSend)
          add(rank, instance, actor);
  }

  void add(Rank rank, const Instance& instance, const Actor& actor) {
    const Communication& communication = *actor.communication;
    const DeviceGroup& group = group_of(graph_, graph_.ranks[rank.index()], communication);
    const CollectiveCost cost = collective_cost(graph_, communication, group.ranks);
    const std::string name = without_layer_number(actor.name);
    const Key key{name, words_text(graph_, communication), std::string(to_string(actor.phase)),
                  cost.global_bytes.value};
    const auto stage = static_cast<int>(graph_.program_of(rank).placement.index());
    const auto [entry, is_new] = rows_.try_emplace(key);
    BoxingRow& row = entry->second;
    if (is_new) {
      order_.push_back(key);
      row.name = name;
      row.phase = to_string(actor.phase);
      row.primitive = to_string(communication.primitive);
      row.words = std::get<1>(key);
      row.members = static_cast<std::int64_t>(group.ranks.size());
      row.bytes = cost.global_bytes;
      row.each = network_.duration(cost);
      row.first_stage = stage;
    }
    row.last_stage = stage;
    row.per_step += instance.acts_per_step;
  }

  const PhysicalGraph& graph_;
  const NetworkModel& network_;
  std::map<Key, BoxingRow> rows_;
  std::vector<Key> order_;
};

std::string stages_text(const BoxingRow& row) {
  return row.first_stage == row.last_stage ? fmt::format("{}", row.first_stage)
                                           : fmt::format("{}-{}", row.first_stage, row.last_stage);
}

void explain_boxing(const PlannedJob& planned, const PhysicalGraph& graph, Console& console,
                    Json& body) {
  const std::vector<BoxingRow> rows = BoxingCollector(graph, *planned.network).rows();
  Table table({"boxing of", "stage", "phase", "producer -> consumer", "primitive", "ranks",
               "tensor", "each", "x per step"});
  Json list = Json::array();
  for (const BoxingRow& row : rows) {
    table.add({row.name, stages_text(row), row.phase, row.words, row.primitive,
               fmt::format("{}", row.members), to_text(row.bytes), to_text(row.each),
               fmt::format("{}", row.per_step)});
    list.push_back({{"name", row.name},
                    {"phase", row.phase},
                    {"primitive", row.primitive},
                    {"words", row.words},
                    {"members", row.members},
                    {"bytes", row.bytes.value},
                    {"time_s", to_seconds(row.each)},
                    {"per_step", row.per_step}});
  }
  body["boxing"] = list;
  if (rows.empty()) return console.say("no boxing between devices: every word fits its consumer");
  console.say("what moves between devices, and why: the producer's words are not the consumer's");
  console.say(table.text());
}

void explain_name(const PlannedJob& planned, const std::string& name, Console& console,
                  Json& body) {
  std::istringstream lines(to_text(staged_graph(planned)));
  Json found = Json::array();
  for (std::string line; std::getline(lines, line);)
    if (line.find(name) != std::string::npos) found.push_back(line);
  require(!found.empty(), ErrorCode::kUsage, "no operator or tensor has '{}' in its name", name);
  for (const auto& line : found) console.say(line.get<std::string>());
  body["lines"] = found;
}

void explain_why_not(const PlannedJob& planned, const std::string& constraint, Console& console,
                     Json& body) {
  const SearchProblem problem = search_problem(planned.job);
  const Strategy& strategy = planned.plan.strategy;
  const Candidate chosen =
      evaluate_strategy(problem.training_graph(strategy), strategy,
                        planned.plan.global_batch, make_search_models(problem));
  SearchLimits limits;
  limits.stop = [] { return was_interrupted(); };
  limits.progress = [&console](const std::string& line) { console.progress(line); };
  const WhyNot answer = why_not(problem, chosen, constraint, limits);
  console.end_progress();
  console.say(to_text(answer));
  Json terms = Json::array();
  for (const WhyNotTerm& term : answer.terms)
    terms.push_back({{"name", term.name},
                     {"unit", term.unit == WhyNotTerm::Unit::kSeconds ? "s" : "bytes"},
                     {"chosen", term.chosen},
                     {"constrained", term.constrained}});
  body["why_not"] = {
      {"constraint", constraint},
      {"strategy", answer.constrained ? Json(to_string(answer.constrained->strategy)) : Json()},
      {"terms", terms}};
}

}  // namespace

void run_explain(const ExplainArguments& arguments, const CommonOptions&, Console& console) {
  const PlannedJob planned = load_planned_job(arguments.job);
  Json body = {{"strategy", to_string(planned.plan.strategy)}};
  if (arguments.dump == "staged") {
    console.say(to_text(staged_graph(planned)));
    return console.document("explain", body);
  }
  require(arguments.dump.empty(), ErrorCode::kUsage, "--dump '{}' is not staged", arguments.dump);
  console.say(fmt::format("{} on {}: {}", planned.job.model.name, planned.job.cluster.name,
                          to_string(planned.plan.strategy)));
  if (arguments.name.empty())
    explain_boxing(planned, physical_graph(planned), console, body);
  else
    explain_name(planned, arguments.name, console, body);
  if (!arguments.why_not.empty()) explain_why_not(planned, arguments.why_not, console, body);
  console.document("explain", body);
}

}  // namespace sextant
