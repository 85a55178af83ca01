// The loader works from layouts alone: which box of [batch, sequence] a rank holds decides which
// samples and places it fills.
#include "io/training_host.h"

#include "core/base/check.h"
#include "core/operators/movement/sources.h"

#include <cstring>

namespace sextant {
namespace {

double to_double(DType dtype, std::span<const std::byte> bytes, const std::string& name) {
  if (dtype == DType::kF64) {
    double value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  require(dtype == DType::kF32, ErrorCode::kInternal, "metric '{}' is {}, not f32 or f64", name,
          to_string(dtype));
  float value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names(1);
  for (const char letter : text) {
    if (letter == ',')
      names.emplace_back();
    else
      names.back() += letter;
  }
  return names;
}

// What the model accepts from this input.
void check_range(std::int64_t id, const Actor& input, std::int64_t sample, std::int64_t place) {
  const Attributes& attributes = input.attributes;
  if (!attributes.contains("limit")) return;
  const std::int64_t limit = attributes.integer("limit");
  if (id >= 0 && id < limit) return;
  if (attributes.contains("ignore_index") && id == attributes.integer("ignore_index")) return;
  fail(ErrorCode::kBadInput, "{}: sample {}, place {}: id {} is outside the vocabulary 0 to {}",
       input.name, sample, place, id, limit - 1);
}

// Of what a host actor fills.
const TensorType& global_type(const PhysicalGraph& graph, const Block& block, const Actor& input) {
  const Register& reg = block.registers[static_cast<std::size_t>(input.out.front())];
  return graph.layouts[reg.layout.index()].global;
}

// By name, what a global batch of an input without a file of the user's takes.
std::map<std::string, Bytes> sizes_of_synthetic(const PhysicalGraph& graph, bool has_token_data) {
  std::map<std::string, Bytes> sizes;
  for (const RankProgram& program : graph.programs)
    for (const Instance& instance : program.instances) {
      const Block& block = graph.block_of(instance);
      for (std::size_t a = 0; a < block.actors.size(); ++a) {
        if (block.actors[a].kind != "input") continue;
        const std::string& name = graph.actor_name(instance, static_cast<std::int32_t>(a));
        const TensorType& type = global_type(graph, block, block.actors[a]);
        if (!has_token_data || !takes_token_data(name, type))
          sizes[name] = instance.acts_per_step * size_of(type);
      }
    }
  return sizes;
}

}  // namespace

std::vector<std::string> synthetic_inputs(const PhysicalGraph& graph, bool has_token_data) {
  std::vector<std::string> names;
  for (const auto& [name, size] : sizes_of_synthetic(graph, has_token_data)) names.push_back(name);
  return names;
}

Bytes synthetic_bytes(const PhysicalGraph& graph, bool has_token_data) {
  Bytes sum;
  for (const auto& [name, size] : sizes_of_synthetic(graph, has_token_data)) sum += size;
  return sum;
}

double StepMetrics::loss() const {
  const double tokens = values.at("token_count");
  return tokens > 0 ? values.at("loss_sum") / tokens : 0.0;
}

void TrainingHost::act(const HostAct& act) {
  if (act.actor->kind == "input") return load(act);
  require(act.actor->kind == "metrics", ErrorCode::kInternal, "unknown host actor kind '{}'",
          act.actor->kind);
  collect(act);
}

void TrainingHost::load(const HostAct& act) {
  const Block& block = act.graph->block_of(*act.instance);
  const TensorType& type = global_type(*act.graph, block, *act.actor);
  if (data_ != nullptr && takes_token_data(act.actor->name, type))
    load_tokens(act, type);
  else
    synthetic_.fill(act);
  count(act);
}

void TrainingHost::count(const HostAct& act) {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t>& of_rank = loaded_bytes_[act.rank];
  const auto step = static_cast<std::size_t>(act.step - first_step_);
  if (of_rank.size() <= step) of_rank.resize(step + 1);
  for (const std::span<std::byte> bytes : act.outputs)
    of_rank[step] += static_cast<std::int64_t>(bytes.size());
}

std::map<Rank, std::vector<std::int64_t>> TrainingHost::loaded_bytes() const {
  const std::lock_guard lock(mutex_);
  return loaded_bytes_;
}

void TrainingHost::load_tokens(const HostAct& act, const TensorType& type) const {
  const Actor& input = *act.actor;
  const std::span<std::byte> bytes = act.outputs.front();
  if (bytes.empty()) return;
  const Block& block = act.graph->block_of(*act.instance);
  const Register& reg = block.registers[static_cast<std::size_t>(input.out.front())];
  const Shape& global = type.shape;
  const Shard box = shard_of(*act.graph, reg.layout, act.rank);
  const std::int64_t first_sample =
      first_sample_ +
      ((act.step - first_step_) * act.instance->acts_per_step + act.act) * global[0] +
      box.dims[0].offset;
  const std::int64_t shift = input.name == "labels" ? 1 : 0;
  std::vector<std::int32_t> ids;
  for (std::int64_t row = 0; row < box.dims[0].extent; ++row) {
    const std::int64_t sample = first_sample + row;
    const std::int64_t start = data_->sample_start(seed_, sample, global[1]) + shift;
    for (std::int64_t place = box.dims[1].offset; place < box.dims[1].end(); ++place) {
      const std::int32_t id = data_->ids()[static_cast<std::size_t>(start + place)];
      check_range(id, input, sample, place);
      ids.push_back(id);
    }
  }
  require(bytes.size() == ids.size() * sizeof(std::int32_t), ErrorCode::kInternal,
          "input '{}': {} bytes for {} ids", input.name, bytes.size(), ids.size());
  std::memcpy(bytes.data(), ids.data(), bytes.size());
}

// Every rank of the last stage has the sums; the first of them speaks.
void TrainingHost::collect(const HostAct& act) {
  if (act.graph->ranks[act.rank.index()].index_in_placement != 0) return;
  const std::vector<std::string> names = split_names(act.actor->attributes.text("names"));
  StepMetrics metrics;
  metrics.step = act.step;
  for (std::size_t i = 0; i < act.inputs.size(); ++i) {
    if (act.inputs[i].empty()) return;
    const DType dtype = act.inputs[i].size() == sizeof(double) ? DType::kF64 : DType::kF32;
    metrics.values[names.at(i)] = to_double(dtype, act.inputs[i], names[i]);
  }
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back(metrics);
  }
  if (callback_) callback_(metrics);
}

std::vector<StepMetrics> TrainingHost::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

}  // namespace sextant
