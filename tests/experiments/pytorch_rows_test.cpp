// Rows of a script that measures two programs: what it leaves becomes values, what it skips an
// error with its reason.
#include "core/base/error.h"
#include "experiments/pytorch/pytorch.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sextant::pytorch_rows_test {
namespace {

// Answers as tools/gpu_bench.sh does: `both` has two sides, `ours` one, `four` needs four cards and
// `bad` fails.
constexpr const char* kScript = R"(#!/usr/bin/env bash
[ "$1" = --list ] && { printf 'both 1\nours 1\nfour 4\nbad 2\n'; exit 0; }
row="$2"
for logs; do :; done
case "$row" in
  both) torch=0.03 ;;
  ours) torch=null ;;
  four) echo "four   skipped: 4 GPUs are needed"; exit 0 ;;
  *) echo "out of memory"; exit 1 ;;
esac
mkdir -p "$logs"
echo "{\"step_s\": 0.02, \"spread\": 0.1, \"torch_step_s\": $torch, \"mfu\": 0.5, \"strategy\": \"dp=1\", \"gpu\": \"X\"}" >"$logs/$row.row.json"
)";

class ScriptFolder {
 public:
  ScriptFolder() {
    std::string name = std::filesystem::temp_directory_path() / "it's-bench-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(script()) << kScript;
  }
  ~ScriptFolder() { std::filesystem::remove_all(folder_); }
  ScriptFolder(const ScriptFolder&) = delete;
  ScriptFolder& operator=(const ScriptFolder&) = delete;

  std::string script() const { return folder_ + "/bench.sh"; }

 private:
  std::string folder_;
};

TEST_CASE("a row of a script has both sides, or ours alone, or the reason why it has none") {
  const ScriptFolder folder;
  const Experiment experiment = pytorch::experiment({.script = folder.script()});
  CHECK(experiment.points(false).size() == 4);
  CHECK(experiment.points(true).size() == 2);
  const SweepOutcome found =
      run_sweep({experiment.name, experiment.points(false), experiment.evaluate}, {});
  REQUIRE(found.rows.size() == 4);
  CHECK(number_of(found.rows[0].result.values, "ratio") == 0.03 / 0.02);
  CHECK(found.rows[0].result.spread == 0.1);
  CHECK(number_of(found.rows[1].result.values, "step_s") == 0.02);
  CHECK_FALSE(number_of(found.rows[1].result.values, "ratio").has_value());
  REQUIRE(found.rows[2].error.has_value());
  CHECK(found.rows[2].error->code == "device");
  CHECK(found.rows[2].error->text.find("4 GPUs are needed") != std::string::npos);
  REQUIRE(found.rows[3].error.has_value());
  CHECK(found.rows[3].error->code == "rank_failed");
  CHECK(found.rows[3].error->text.ends_with("ends with 1: out of memory"));
  const std::vector<ShapeClaim> claims = experiment.shapes(ResultRows(found.rows));
  CHECK(claims.at(0).holds == true);
}

TEST_CASE("a script that is not there is refused with what would name it") {
  CHECK_THROWS_WITH_AS(pytorch::experiment({.script = "no/such.sh"}),
                       doctest::Contains("--bench names it"), Error);
}

}  // namespace
}  // namespace sextant::pytorch_rows_test
