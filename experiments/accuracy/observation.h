// One measured training run, as a job that we can predict: or the reason why we cannot.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/base/dtype.h"
#include "core/costs/cluster.h"
#include "experiments/accuracy/software.h"
#include "models/model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct Observation {
  std::string id, place;  // "r0024", "published_runs.csv:12"
  std::string group;      // rows of one source on one kind of machine
  // Rows that run one model with one batch on the same devices: a choice between plans. Empty: the
  // row is no such choice.
  std::string choice;
  bool is_calibration = false;  // a parameter of the model was set with this row
  bool is_megatron_a100 = false;

  ModelConfig model;
  Strategy strategy;
  bool eight_bit_products = false;  // of layers; all else in `dtype`
  bool keeps_products = false;      // recomputation by operator (kept_products.h)
  std::int64_t global_batch = 1, sequence = 1;
  DType dtype = DType::kBF16;
  Software software;
  Cluster cluster;
  std::vector<std::string> assumptions;  // what the row leaves open

  std::optional<double> step_s, memory_gib;  // measured
  std::string problem;                       // not empty: not comparable, and why
};

// Each throws Error(kBadInput) with file and line when the file cannot be read as a table; a row
// that cannot be understood gets a problem instead.
std::vector<Observation> read_published(std::string_view text, const std::string& file);
std::vector<Observation> read_single_node(std::string_view text, const std::string& file);
std::vector<Observation> read_pytorch(std::string_view text, const std::string& file);

// The vocabulary that Megatron-LM makes of one: a multiple of 128 for every part.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp);

}  // namespace sextant
