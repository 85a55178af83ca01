// Files with something changed at random: each is a valid cluster, or refused by name. Never a
// crash, never a cluster that breaks a rule.
#include "core/base/error.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/cluster_files/cluster_import.h"
#include "tests/simulator/clusters/import_samples.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace sextant::cluster_fuzz_test {
namespace {

using namespace testing;

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : engine_(seed) {}

  // One to three changes: a byte, a piece taken out or doubled, a number or a word replaced.
  std::string changed(std::string text) {
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return engine_() % bound; }

  void change(std::string& text) {
    if (text.empty()) return;
    const std::size_t at = below(text.size()), length = 1 + below(20);
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        return;
      case 1:
        text.erase(at, length);
        return;
      case 2:
        text.insert(at, text.substr(at, length));
        return;
      default:
        replace_number(text, at);
    }
  }

  // The first number behind `at`.
  void replace_number(std::string& text, std::size_t at) {
    static const std::vector<std::string> kValues = {"0",      "-1",      "1",
                                                     "2",      "3",       "1e999",
                                                     "-1e300", "1e300",   "9223372036854775808",
                                                     "1e-300", "NaN",     "null",
                                                     "\"x\"",  "\"900\"", "1048577",
                                                     "0.5",    "[]",      "{}"};
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const std::size_t end = text.find_first_not_of("0123456789.", begin);
    text.replace(begin, std::min(end, text.size()) - begin, kValues[below(kValues.size())]);
  }

  std::mt19937 engine_;
};

struct Counts {
  int accepted = 0, refused = 0;
};

// The oracle: the rules that stand in cluster_rules.h, and reading what is written.
void try_text(const std::string& text, Counts& counts) {
  try {
    const Cluster cluster = import_cluster(text, "lab.txt").cluster;
    const std::string written = to_json_text(cluster);
    CHECK(validate(cluster).empty());
    CHECK(to_json_text(cluster_from_json(written, "again")) == written);
    ++counts.accepted;
  } catch (const Error& error) {
    CAPTURE(std::string(error.what()));
    CHECK(error.code() == ErrorCode::kBadInput);
    CHECK(std::string(error.what()).starts_with("lab.txt"));
    ++counts.refused;
  }
}

void fuzz(const std::vector<std::string>& texts, int tries) {
  Mutator mutator(7);
  Counts counts;
  for (int i = 0; i < tries; ++i) {
    const std::string text = mutator.changed(texts[static_cast<std::size_t>(i) % texts.size()]);
    CAPTURE(text);
    try_text(text, counts);
  }
  // Both happen, or nothing was tried.
  CHECK(counts.accepted > tries / 100);
  CHECK(counts.refused > tries / 10);
}

TEST_CASE("a cluster file with something changed is valid, or refused by name") {
  fuzz({to_json_text(load_cluster("dgx1-v100:nodes=4")),
        to_json_text(load_cluster("hgx-h200:nodes=8,leaf=2,oversubscription=2")),
        to_json_text(load_cluster("tpu-v4:x=2,y=2,z=4"))},
       10'000);
}

TEST_CASE("files of other programs with something changed are valid, or refused by name") {
  std::vector<std::string> texts = {
      system_of(gpu(0, to_switches()) + gpu(1, to_switches()) + nic()),
      system_of(gpu(0, to_gpu(1, 2)) + gpu(1, to_gpu(0, 2)) + nic()), switched_matrix(),
      text_of(MadeTest{}), calculon_system()};
  if (reads_yaml()) texts.push_back(astra_network());
  fuzz(texts, 10'000);
}

}  // namespace
}  // namespace sextant::cluster_fuzz_test
