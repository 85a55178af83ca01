// JSON whose numbers are read as they were written.
#include "cli/runs/prediction_exchange.h"

#include "core/text/json_text.h"
#include "simulator/reports/exact_json.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace sextant {
namespace {

nlohmann::ordered_json prediction_json(const Prediction& prediction) {
  return {{"step_s", prediction.step_s},      {"parts", exact_json(prediction.parts)},
          {"added_s", prediction.added_s},    {"arena", prediction.arena.value},
          {"naive_s", prediction.naive_s},    {"library", exact_json(prediction.library)},
          {"kernels_s", prediction.kernels_s}};
}

Prediction prediction_from(const nlohmann::ordered_json& json) {
  Prediction prediction;
  prediction.step_s = json.at("step_s");
  prediction.parts = step_parts_from(json.at("parts"));
  prediction.added_s = json.at("added_s");
  prediction.arena = Bytes(json.at("arena").get<std::int64_t>());
  prediction.library = libraries_from(json.at("library"));
  prediction.naive_s = json.at("naive_s");
  prediction.kernels_s = json.at("kernels_s").get<std::map<std::string, double>>();
  return prediction;
}

}  // namespace

bool is_own_row(const RunProcesses& processes, std::size_t row) {
  return !processes.are_several() ||
         row % processes.group().size() == processes.group().rank().index();
}

void gather_predictions(RunProcesses& processes, std::vector<ComparedRow>& rows) {
  if (!processes.are_several()) return;
  nlohmann::ordered_json own = nlohmann::ordered_json::array();
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (is_own_row(processes, row))
      own.push_back({{"row", row},
                     {"problem", rows[row].run.problem},
                     {"prediction", rows[row].prediction ? prediction_json(*rows[row].prediction)
                                                         : nlohmann::ordered_json()}});
  for (const std::string& text : processes.gather(json_text(own)))
    for (const nlohmann::ordered_json& told : json_of_text(text)) {
      ComparedRow& row = rows.at(told.at("row").get<std::size_t>());
      row.run.problem = told.at("problem").get<std::string>();
      const nlohmann::ordered_json& prediction = told.at("prediction");
      row.prediction.reset();
      if (!prediction.is_null()) row.prediction = prediction_from(prediction);
    }
}

}  // namespace sextant
