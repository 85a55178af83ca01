// The loader works from layouts alone: which box of [batch, sequence] a rank holds decides which
// samples and places it fills.
#include "io/training_host.h"

#include "core/base/check.h"

#include <algorithm>
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

// Of what a host actor fills.
const TensorType& global_type(const PhysicalGraph& graph, const Block& block, const Actor& input) {
  const Register& reg = block.registers[static_cast<std::size_t>(input.out.front())];
  return graph.layouts[reg.layout].global;
}

// What a graph has of an input.
struct FoundInput {
  std::string name;
  TensorType type;                 // global
  std::int64_t micro_batches = 1;  // of a step
  Bytes of_batch() const { return micro_batches * size_of(type); }
};

std::vector<FoundInput> inputs_of(const PhysicalGraph& graph) {
  std::vector<FoundInput> inputs;
  for (const RankProgram& program : graph.programs)
    for (const Instance& instance : program.instances) {
      const Block& block = graph.block_of(instance);
      for (std::size_t a = 0; a < block.actors.size(); ++a) {
        if (block.actors[a].kind != "input") continue;
        const TensorType& type = global_type(graph, block, block.actors[a]);
        inputs.push_back({graph.actor_name(instance, static_cast<std::int32_t>(a)), type,
                          instance.acts_per_step});
      }
    }
  return inputs;
}

// By name, what a global batch of an input without a file of the user's takes.
std::map<std::string, Bytes> sizes_of_synthetic(const PhysicalGraph& graph,
                                                const SampleData* data) {
  std::map<std::string, Bytes> sizes;
  for (const FoundInput& input : inputs_of(graph))
    if (data == nullptr || !data->fills(input.name, input.type))
      sizes[input.name] = input.of_batch();
  return sizes;
}

}  // namespace

bool reads(const PhysicalGraph& graph, const SampleData& data) {
  const std::vector<FoundInput> inputs = inputs_of(graph);
  return std::any_of(inputs.begin(), inputs.end(), [&](const FoundInput& input) {
    return input.name == data.main_input() && data.fills(input.name, input.type);
  });
}

void require_enough(const PhysicalGraph& graph, const SampleData& data) {
  for (const FoundInput& input : inputs_of(graph))
    if (input.name == data.main_input() && data.fills(input.name, input.type))
      data.check(input.type, input.micro_batches * input.type.shape[0]);
}

bool has_input(const PhysicalGraph& graph, std::string_view name) {
  const std::vector<FoundInput> inputs = inputs_of(graph);
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const FoundInput& input) { return input.name == name; });
}

std::vector<std::string> synthetic_inputs(const PhysicalGraph& graph, const SampleData* data) {
  std::vector<std::string> names;
  for (const auto& [name, size] : sizes_of_synthetic(graph, data)) names.push_back(name);
  return names;
}

Bytes synthetic_bytes(const PhysicalGraph& graph, const SampleData* data) {
  Bytes sum;
  for (const auto& [name, size] : sizes_of_synthetic(graph, data)) sum += size;
  return sum;
}

double StepMetrics::loss() const {
  const double tokens = values.at("token_count");
  return tokens > 0 ? values.at("loss_sum") / tokens : 0.0;
}

void TrainingHost::act(const HostAct& act) {
  if (act.actor->kind == "input") return load(act);
  if (act.actor->kind != "metrics" && data_ != nullptr) return act_on_samples(act);
  require(act.actor->kind == "metrics", ErrorCode::kInternal, "unknown host actor kind '{}'",
          act.actor->kind);
  collect(act);
}

void TrainingHost::load(const HostAct& act) {
  const Block& block = act.graph->block_of(*act.instance);
  const TensorType& type = global_type(*act.graph, block, *act.actor);
  if (!act.inputs.empty())
    staged_input(act).stages->deliver(content_of(act), act.outputs.front());
  else if (data_ != nullptr && data_->fills(act.actor->name, type))
    load_data(act, type);
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

void TrainingHost::load_data(const HostAct& act, const TensorType& type) const {
  const std::span<std::byte> bytes = act.outputs.front();
  if (bytes.empty()) return;
  const Block& block = act.graph->block_of(*act.instance);
  const Register& reg = block.registers[static_cast<std::size_t>(act.actor->out.front())];
  const Shard box = shard_of(*act.graph, reg.layout, act.rank);
  data_->fill(part_of(act, *act.actor, type, box), bytes);
}

std::int64_t TrainingHost::content_of(const HostAct& act) const {
  return (act.step - first_step_) * act.instance->acts_per_step + act.act;
}

InputPart TrainingHost::part_of(const HostAct& act, const Actor& input, const TensorType& type,
                                const Shard& box) const {
  return {.input = input,
          .type = type,
          .box = box,
          .first_position = first_sample_ + content_of(act) * type.shape[0],
          .global_batch = act.instance->acts_per_step * type.shape[0],
          .seed = seed_};
}

// Of the input itself, or of the chain that leads to it.
TrainingHost::StagedInput& TrainingHost::staged_input(const HostAct& act) {
  const RankProgram& program = act.graph->program_of(act.rank);
  const Instance* reader = act.instance;
  for (const Link& link : program.links)
    if (&program.instances[link.from] == act.instance && act.actor->kind != "input")
      reader = &program.instances[link.to];
  const std::lock_guard lock(mutex_);
  std::unique_ptr<StagedInput>& staged = staged_inputs_[{act.rank, reader}];
  if (staged) return *staged;
  const Block& block = act.graph->block_of(*reader);
  const Register& reg = block.registers[static_cast<std::size_t>(block.actors.front().out.front())];
  staged = std::make_unique<StagedInput>(StagedInput{
      data_->stages(num_registers_), named_actor(*act.graph, *reader, 0),
      act.graph->layouts[reg.layout].global, shard_of(*act.graph, reg.layout, act.rank)});
  require(staged->stages != nullptr, ErrorCode::kInternal, "'{}' is not made in stages",
          staged->input.name);
  return *staged;
}

void TrainingHost::act_on_samples(const HostAct& act) {
  StagedInput& staged = staged_input(act);
  staged.stages->act(act.actor->kind, part_of(act, staged.input, staged.type, staged.box),
                     content_of(act));
}

// Every rank of the last stage has the sums; the first of them speaks.
void TrainingHost::collect(const HostAct& act) {
  if (act.graph->ranks[act.rank].index_in_placement != 0) return;
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
