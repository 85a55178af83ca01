// Sentences of --dry-run.
#include "cli/dry_run.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace sextant {

void say_dry_run(const std::string& verb, const std::string& would,
                 const std::vector<std::string>& files, const Console& console) {
  nlohmann::ordered_json writes = nlohmann::ordered_json::array();
  console.say("dry run: would " + would);
  for (const std::string& file : files) {
    if (file.empty()) continue;
    console.say("  and write " + file);
    writes.push_back(file);
  }
  console.document(verb, {{"dry_run", true}, {"would", would}, {"writes", writes}});
}

std::vector<std::string> in_results(const CommonOptions& common,
                                    const std::vector<std::string>& files) {
  if (common.out.empty()) return {};
  std::vector<std::string> paths;
  for (const std::string& file : files) paths.push_back(fmt::format("{}/{}", common.out, file));
  return paths;
}

}  // namespace sextant
