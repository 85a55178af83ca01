// JSON whose numbers are integers, or doubles that are read as they were.
#include "search/problem/evaluation.h"

#include "compiler/strategy/strategy.h"
#include "core/text/json_text.h"
#include "simulator/reports/exact_json.h"

#include <nlohmann/json.hpp>

#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Candidate& candidate) {
  Json classes = Json::array();
  for (const Bytes bytes : candidate.memory_by_class) classes.push_back(bytes.value);
  return {{"strategy", to_string(candidate.strategy)},
          {"step_time", candidate.step_time.value},
          {"peak_memory", candidate.peak_memory.value},
          {"needed_memory", candidate.needed_memory.value},
          {"most_needed", candidate.most_needed.value},
          {"capacity", candidate.capacity.value},
          {"libraries", exact_json(candidate.libraries)},
          {"parts", exact_json(candidate.parts)},
          {"classes", std::move(classes)},
          {"lower_bound", candidate.lower_bound.value}};
}

Candidate candidate_from(const Json& json) {
  const auto whole = [&json](const char* key) { return json.at(key).get<std::int64_t>(); };
  Candidate candidate;
  candidate.strategy = parse_strategy(json.at("strategy").get<std::string>());
  candidate.step_time = Duration(whole("step_time"));
  candidate.peak_memory = Bytes(whole("peak_memory"));
  candidate.needed_memory = Bytes(whole("needed_memory"));
  candidate.most_needed = Bytes(whole("most_needed"));
  candidate.capacity = Bytes(whole("capacity"));
  candidate.libraries = libraries_from(json.at("libraries"));
  candidate.parts = step_parts_from(json.at("parts"));
  for (const Json& bytes : json.at("classes"))
    candidate.memory_by_class.push_back(Bytes(bytes.get<std::int64_t>()));
  candidate.lower_bound = Duration(whole("lower_bound"));
  return candidate;
}

}  // namespace

Candidate taken(Evaluation evaluation) {
  if (const Error* refusal = std::get_if<Error>(&evaluation)) throw *refusal;
  return std::get<Candidate>(std::move(evaluation));
}

std::string evaluation_text(const Evaluation& evaluation) {
  if (const Error* refusal = std::get_if<Error>(&evaluation))
    return json_text({{"code", static_cast<int>(refusal->code())},
                      {"message", refusal->what()},
                      {"hints", refusal->hints()}});
  return json_text(json_of(std::get<Candidate>(evaluation)));
}

Evaluation evaluation_from(std::string_view text) {
  const Json json = json_of_text(text);
  if (!json.contains("code")) return candidate_from(json);
  return Error(static_cast<ErrorCode>(json.at("code").get<int>()),
               json.at("message").get<std::string>(),
               json.at("hints").get<std::vector<std::string>>());
}

}  // namespace sextant
