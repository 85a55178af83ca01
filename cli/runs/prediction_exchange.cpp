// JSON whose numbers are read as they were written.
#include "cli/runs/prediction_exchange.h"

#include "simulator/reports/named_parts.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

Json prediction_json(const Prediction& prediction) {
  Json parts = Json::array(), library = Json::array();
  for (const NamedPart& named : kNamedParts) {
    const StepParts::Spread& part = prediction.parts.*named.part;
    parts.push_back({part.mean_s, part.min_s, part.max_s});
  }
  for (const LibraryUse& use : prediction.library)
    library.push_back({use.name, use.bytes.value, static_cast<int>(use.provenance), use.source});
  return {{"step_s", prediction.step_s},   {"parts", std::move(parts)},
          {"added_s", prediction.added_s}, {"arena", prediction.arena.value},
          {"library", std::move(library)}, {"naive_s", prediction.naive_s}};
}

Prediction prediction_from(const Json& json) {
  Prediction prediction;
  prediction.step_s = json.at("step_s");
  std::size_t place = 0;
  for (const NamedPart& named : kNamedParts) {
    const Json& part = json.at("parts").at(place++);
    prediction.parts.*named.part = {part.at(0), part.at(1), part.at(2)};
  }
  prediction.added_s = json.at("added_s");
  prediction.arena = Bytes(json.at("arena").get<std::int64_t>());
  for (const Json& use : json.at("library"))
    prediction.library.push_back({use.at(0), Bytes(use.at(1).get<std::int64_t>()),
                                  static_cast<Provenance>(use.at(2).get<int>()), use.at(3)});
  prediction.naive_s = json.at("naive_s");
  return prediction;
}

}  // namespace

bool is_own_row(const RunProcesses& processes, std::size_t row) {
  return !processes.are_several() ||
         row % processes.group().size() == processes.group().rank().index();
}

void gather_predictions(RunProcesses& processes, std::vector<ComparedRow>& rows) {
  if (!processes.are_several()) return;
  Json own = Json::array();
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (is_own_row(processes, row))
      own.push_back(
          {{"row", row},
           {"problem", rows[row].run.problem},
           {"prediction", rows[row].prediction ? prediction_json(*rows[row].prediction) : Json()}});
  for (const std::string& text : processes.gather(own.dump()))
    for (const Json& told : Json::parse(text)) {
      ComparedRow& row = rows.at(told.at("row").get<std::size_t>());
      row.run.problem = told.at("problem").get<std::string>();
      const Json& prediction = told.at("prediction");
      row.prediction.reset();
      if (!prediction.is_null()) row.prediction = prediction_from(prediction);
    }
}

}  // namespace sextant
