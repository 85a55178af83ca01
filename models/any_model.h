// MODEL of any architecture, as the verbs of the program take it.
#pragma once

#include "core/files/logical_graph_json.h"
#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/face_net.h"
#include "models/model.h"
#include "models/wide_deep.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sextant {

// A graph that the user wrote down has its batch and its types in it.
using AnyModel = std::variant<ModelConfig, ConvNetConfig, WideDeepConfig, ClassHeadConfig,
                              FaceNetConfig, GraphDocument>;

// What load_model takes, and besides it: a graph in a file (sextant.graph/1), the built-ins of the
// other architectures and their one-word forms, "conv:blocks=2x2,channels=16x32,height=32".
AnyModel load_any_model(std::string_view model);
std::vector<std::string> all_builtin_names();

const std::string& name_of(const AnyModel& model);
// What was read and has no effect, and what is assumed.
std::vector<std::string> notes_of(const AnyModel& model);
// Of these, what a plan has to state because the model itself says otherwise or nothing.
std::vector<std::string> planning_assumptions(const AnyModel& model);

// Tokens of a sample when the user says nothing; 1 where a sample is no sequence.
std::int64_t default_sequence(const AnyModel& model);
// What throughput is counted in: tokens where the model reads the ids of a text, images where it
// reads these, else samples.
enum class SampleUnit : std::uint8_t { kTokens, kImages, kSamples };
SampleUnit unit_of(const AnyModel& model);
// So many units a sample has, of `sequence` tokens where the model does not say itself.
std::int64_t units_per_sample(const AnyModel& model, std::int64_t sequence);
std::string_view to_string(SampleUnit unit);  // "tokens"

// Throws Error(kUsage) for a sequence that the model cannot have.
void require_sequence(const AnyModel& model, std::int64_t sequence);

// One micro-batch of `samples`. Throws Error(kBadInput) when a graph in a file has no loss or
// another type than `dtype`; whether its batch fits is the strategy's to say.
LogicalGraph build_graph(const AnyModel& model, std::int64_t samples, std::int64_t sequence,
                         DType dtype);
// The type in which a model computes if it has one of its own.
std::optional<DType> own_dtype(const AnyModel& model);

// False for parameters that the model itself updates, as running statistics.
bool is_trained(const LogicalGraph& forward, const LogicalOp& parameter);
// Trained parameters, once per logical element.
std::int64_t count_parameters(const AnyModel& model);
std::int64_t count_parameters(const LogicalGraph& forward);
// Forward and backward of one sample. Decoders by the formula of their sizes, others 3 times the
// products and convolutions of their forward graph.
double model_flops_per_sample(const AnyModel& model, std::int64_t sequence);

// Canonical JSON and back; what plan files carry.
std::string to_json_text(const AnyModel& model);
AnyModel any_model_from_json(std::string_view text, std::string_view origin = "model");

}  // namespace sextant
