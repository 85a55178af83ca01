// `sextant plan convert`: a plan file in the version and the form that this program writes.
#include "cli/verb.h"
#include "cli/verbs.h"
#include "compiler/expand/plan.h"
#include "core/text/json_reader.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

namespace sextant {
namespace {

struct ConvertArguments {
  std::string plan;
  std::string file;
};

// There has been one version so far: what can change is the form.
void run_plan_convert(const ConvertArguments& arguments, const CommonOptions&, Console& console) {
  require_different_files({{"the plan", arguments.plan}, {"--output", arguments.file}});
  const std::string text = read_text_file(arguments.plan);
  const Plan plan = plan_from_json(text, arguments.plan);
  const std::string canonical = to_json_text(plan);
  write_file_whole(arguments.file, canonical);
  const bool was_canonical = text == canonical;
  console.say(fmt::format(
      "{} is of version {}, the only one there is; {} {}; next: sextant plan diff {} {}",
      arguments.plan, plan.version, arguments.file,
      was_canonical ? "has the same bytes" : "has the same plan in the form that we write",
      arguments.plan, arguments.file));
  console.document("plan_convert", {{"from_version", plan.version},
                                    {"version", plan.version},
                                    {"was_canonical", was_canonical},
                                    {"plan_hash", text_hash(canonical)},
                                    {"file", arguments.file}});
}

}  // namespace

Verb plan_convert_verb() {
  const auto arguments = std::make_shared<ConvertArguments>();
  ConvertArguments& a = *arguments;
  return {.path = "plan convert",
          .text = "A plan file in the version that this program writes",
          .examples =
              "Examples:\n  sextant plan convert edited.json -o plan.json\n"
              "  sextant plan convert old.json -o plan.json --json",
          .options =
              {
                  {"plan", &a.plan, "plan file", true},
                  {"-o,--output", &a.file, "file to write", true},
              },
          .action = [arguments](const CommonOptions& common, Console& console) {
            run_plan_convert(*arguments, common, console);
          }};
}

}  // namespace sextant
