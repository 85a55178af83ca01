// The two CSV collections: one training run per row.
#include "experiments/accuracy/observation.h"

#include "core/base/check.h"
#include "experiments/accuracy/csv_table.h"
#include "experiments/accuracy/laboratory.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace sextant {
namespace {

using Row = CsvTable::Row;

// Rows with which parameters of the A100 were set, of products of CUDA 11.8 on an H100, and of
// 8-bit products on a GB200; none of them counts in an average.
constexpr std::array kCalibrationRows = {"r0024", "r0025", "r0117", "r0123",
                                         "r0173", "r0229", "r0618"};

// Of Megatron-LM where a row does not say.
constexpr std::int64_t kUsualVocab = 51200;

struct Source {
  std::string_view set;  // begin of the column `set`
  Software (*software)();
  bool is_megatron_a100 = false;
};
constexpr Source kSources[] = {
    {"megatron-sc21", megatron_2021, true},  {"megatron-2205.05198", megatron_2022, true},
    {"bloom176b", megatron_deepspeed, true}, {"zero-bubble", megatron_2022, true},
    {"vtrain", megatron_2021, true},         {"megatron-jan2021", megatron_2021, false},
    {"megascale", megatron_core, false},     {"mcore-llama-fp8", megatron_bridge, false},
    {"mcore", megatron_core, false},         {"megatron-bridge", megatron_bridge, false},
    {"nemo", megatron_core, false},          {"llama3", megatron_core, false},
    {"torchtitan", torchtitan, false},       {"mosaic", pytorch_fsdp, false},
};

const Source& source_of(const std::string& set) {
  for (const Source& source : kSources)
    if (set.starts_with(source.set)) return source;
  fail(ErrorCode::kBadInput, "set is '{}', whose program is not known here", set);
}

ModelConfig::Mlp mlp_of(const std::string& arch) {
  if (arch == "gpt" || arch == "mpt(gpt)" || arch == "bloom(alibi)") return ModelConfig::Mlp::kGelu;
  if (arch == "llama") return ModelConfig::Mlp::kSwiGlu;
  fail(ErrorCode::kBadInput, "arch is '{}', wanted gpt, mpt(gpt), bloom(alibi) or llama", arch);
}

void make_llama(ModelConfig& model) {
  model.mlp = ModelConfig::Mlp::kSwiGlu;
  model.norm = ModelConfig::Norm::kRmsNorm;
  model.positions = ModelConfig::Positions::kRotary;
  model.attention_bias = model.output_bias = model.mlp_bias = model.tied_embeddings = false;
}

ModelConfig model_of(const Row& row, std::int64_t tp, std::vector<std::string>& assumptions) {
  ModelConfig model;
  model.name = row.text("model");
  const bool is_llama = mlp_of(row.text("arch")) == ModelConfig::Mlp::kSwiGlu;
  model.layers = row.count("layers");
  model.hidden = row.count("hidden");
  model.heads = row.count("heads");
  model.kv_heads = row.count_or("kv_heads", model.heads);
  model.head_size = model.hidden / model.heads;
  model.ffn = row.count("ffn");
  model.sequence = row.count("seq");
  if (!row.has("vocab")) assumptions.push_back(fmt::format("vocabulary {}", kUsualVocab));
  model.vocab = padded_vocab(row.count_or("vocab", kUsualVocab), tp);
  if (is_llama) make_llama(model);
  return model;
}

// "fp8", "amp_fp8", "FP8-CS (FP8-MX)", "MXFP8".
bool is_eight_bit(const std::string& precision) {
  return precision.find("fp8") != std::string::npos || precision.find("FP8") != std::string::npos;
}

// Of all but 8-bit products.
DType dtype_of(const std::string& precision) {
  if (precision == "fp16") return DType::kF16;
  if (precision == "bf16" || precision == "amp_bf16" || precision == "BF16" ||
      is_eight_bit(precision))
    return DType::kBF16;
  fail(ErrorCode::kBadInput, "precision is '{}': products of 4 bits are not modelled", precision);
}

// torchtitan's "selective" is by operator unless a row says otherwise: so is its configuration of
// Llama 3 8B.
bool is_by_operator(const std::string& text) {
  return text == "selective" || text == "selective per op";
}

Recompute recompute_of(const Row& row, const Software& software,
                       std::vector<std::string>& assumptions) {
  const std::string& text = row.text("recompute");
  if (text.empty() && software.recomputes_nothing) {
    assumptions.push_back("nothing is recomputed");
    return {};
  }
  if (text.starts_with("full")) return {.kind = Recompute::Kind::kFull};
  if (text == "selective(attn core)") return {.kind = Recompute::Kind::kSelective};
  if (text == "none") return {};
  if (is_by_operator(text)) {
    if (text == "selective") assumptions.push_back("selective by operator");
    return {.kind = Recompute::Kind::kFull};
  }
  require(!text.empty(), ErrorCode::kBadInput, "recompute is not given");
  fail(ErrorCode::kBadInput, "recompute is '{}', which no strategy says", text);
}

int zero_of(const std::string& text) {
  if (text.empty()) return 0;
  require(text[0] >= '0' && text[0] <= '3', ErrorCode::kBadInput, "zero_stage is '{}', wanted 0-3",
          text);
  return text[0] - '0';
}

void set_schedule(const Row& row, Strategy& strategy, std::vector<std::string>& assumptions) {
  const std::string& text = row.text("schedule");
  strategy.virtual_stages = row.count_or("vpp", 1);
  if (strategy.pp == 1) return;
  if (text.starts_with("1f1b") || text == "1F1B") {
    if (text.find("not stated") != std::string::npos) assumptions.push_back("not interleaved");
    return;
  }
  if (text == "ZB-1p") {
    assumptions.push_back("ZB-1p as zb-h1");
    strategy.schedule = Schedule::kZeroBubbleH1;
    return;
  }
  const bool is_interleaved =
      text == "interleaved-1f1b" || text == "1F1B-I" || text == "Interleaved1F1B";
  require(is_interleaved, ErrorCode::kBadInput, "schedule is '{}', which no strategy has", text);
  if (!row.has("vpp")) {
    assumptions.push_back("2 chunks per stage");
    strategy.virtual_stages = 2;
  }
  if (strategy.virtual_stages > 1) strategy.schedule = Schedule::kInterleaved;
}

// Embedding and head count as layers of the first and of the last chunk: "stage layout
// [embed+5][6]x10[5+embed]", "first and last stage hold one layer less", or there is no other way
// to share them evenly.
void set_layout(const Row& row, std::int64_t layers, Strategy& strategy) {
  const std::string& note = row.text("note");
  const std::int64_t chunks = strategy.pp * strategy.virtual_stages;
  const bool is_named = note.find("one layer less") != std::string::npos ||
                        note.find("[embed+5]") != std::string::npos;
  const bool is_only_way = layers % chunks != 0 && (layers + 2) % chunks == 0;
  if (strategy.pp < 3 || (!is_named && !is_only_way)) return;
  const auto outer = static_cast<int>((layers + 2) / chunks - 1);
  require(outer > 0, ErrorCode::kBadInput, "chunks without a layer, beside embedding or head");
  strategy.layers.assign(static_cast<std::size_t>(chunks), kEvenShare);
  strategy.layers.front() = strategy.layers.back() = outer;
}

void split_micro_batch(Strategy& strategy) {
  require(strategy.micro_batch % strategy.pp == 0, ErrorCode::kBadInput,
          "mbs is {}, a local batch that {} stages cannot share evenly", strategy.micro_batch,
          strategy.pp);
  strategy.micro_batch /= strategy.pp;
}

Strategy strategy_of(const Row& row, std::int64_t layers, const Software& software,
                     std::vector<std::string>& assumptions) {
  Strategy strategy;
  strategy.dp = row.count("dp");
  strategy.tp = row.count("tp");
  strategy.pp = row.count("pp");
  strategy.cp = row.count_or("cp", 1);
  strategy.ep = row.count_or("ep", 1);
  strategy.micro_batch = row.count("mbs");
  strategy.zero = strategy.dp > 1 ? zero_of(row.text("zero_stage")) : 0;
  strategy.recompute = recompute_of(row, software, assumptions);
  const std::string& sp = row.text("seq_par");
  strategy.sequence_parallel =
      strategy.tp > 1 && (sp == "1" || sp == "likely" || software.hides_tensor_sums);
  if (software.splits_micro_batches && strategy.pp > 1) split_micro_batch(strategy);
  set_schedule(row, strategy, assumptions);
  set_layout(row, layers, strategy);
  require(strategy.ranks() == row.count("gpus"), ErrorCode::kBadInput,
          "the plan has {} ranks, gpus is {}", strategy.ranks(), row.count("gpus"));
  return strategy;
}

// The published rate of a GPU as a time, by the formula of its kind.
std::optional<double> seconds_of_rate(const Row& row, const Observation& run) {
  const std::string& kind = row.text("tflops_kind");
  if (!row.has("tflops_per_gpu")) return std::nullopt;
  const bool counts_recompute = kind.starts_with("hardware");
  if (!counts_recompute && !kind.starts_with("model")) return std::nullopt;
  const double per_token = megatron_flops_per_token(run.model, run.sequence);
  const double flops = per_token * (counts_recompute ? 4.0 / 3.0 : 1.0) *
                       static_cast<double>(run.global_batch * run.sequence);
  return flops / (row.number("tflops_per_gpu") * 1e12 * static_cast<double>(run.strategy.ranks()));
}

void measure(const Row& row, Observation& run) {
  if (row.has("iter_time_s")) {
    run.step_s = row.number("iter_time_s");
  } else if ((run.step_s = seconds_of_rate(row, run))) {
    run.assumptions.push_back("time from TFLOP/s by " + row.text("tflops_kind"));
  }
  if (row.has("mem_gib")) run.memory_gib = row.number("mem_gib");
  require(run.step_s || run.memory_gib, ErrorCode::kBadInput, "neither a time nor memory is given");
  require(!run.step_s || *run.step_s > 0, ErrorCode::kBadInput, "iter_time_s is not positive");
}

std::string group_of(const Row& row) {
  const std::string& set = row.text("set");
  if (set == "vtrain-multi")
    return fmt::format("{} {} x{}", set, row.text("model"), row.text("gpus"));
  const char* const bits = is_eight_bit(row.text("precision")) ? ", 8-bit products" : "";
  if (set.starts_with("megatron-bridge"))
    return fmt::format("megatron-bridge {}{}", row.text("gpu_type"), bits);
  if (set == "mosaic-mpt" || set.starts_with("torchtitan"))
    return fmt::format("{} {}{}", set, row.text("gpu_type"), bits);
  return set;
}

void fill_published(const Row& row, Observation& run) {
  const Source& source = source_of(row.text("set"));
  run.is_megatron_a100 = source.is_megatron_a100;
  run.software = source.software();
  run.dtype = dtype_of(row.text("precision"));
  run.eight_bit_products = is_eight_bit(row.text("precision"));
  if (run.eight_bit_products && row.text("set") == "torchtitan")
    run.software = torchtitan_compiled();
  run.global_batch = row.count("gbs_seqs");
  run.sequence = row.count("seq");
  run.model = model_of(row, row.count_or("tp", 1), run.assumptions);
  run.strategy = strategy_of(row, run.model.layers, run.software, run.assumptions);
  run.keeps_products = is_by_operator(row.text("recompute"));
  run.cluster = laboratory(row.text("gpu_type"), row.text("inter_node"), run.strategy.ranks());
  run.choice = fmt::format("{} {} x{} batch {} x {}", row.text("set"), row.text("model"),
                           row.text("gpus"), run.global_batch, run.sequence);
  measure(row, run);
  // Of compiled graphs, what is kept for backward is their partitioner's choice.
  if (run.eight_bit_products && run.step_s && run.memory_gib) {
    run.memory_gib.reset();
    run.assumptions.push_back("memory of a compiled graph is not compared");
  }
}

void fill_single_node(const Row& row, Observation& run) {
  const std::int64_t hidden = row.count("hidden size"), tp = row.count("tensor parallelism");
  run.software = vtrain_single_node();
  run.dtype = DType::kF16;
  run.model.name = fmt::format("GPT {}x{}", row.count("# layers"), hidden);
  run.model.layers = row.count("# layers");
  run.model.hidden = hidden;
  run.model.heads = run.model.kv_heads = row.count("attention heads");
  run.model.head_size = hidden / run.model.heads;
  run.model.ffn = 4 * hidden;
  run.model.sequence = run.sequence = row.count("sequence length");
  run.model.vocab = padded_vocab(50257, tp);
  run.global_batch = row.count("global batch");
  run.strategy.tp = tp;
  run.strategy.dp = row.count("data parallelism");
  run.strategy.pp = row.count("pipeline parallelism");
  run.strategy.micro_batch = row.count("micro batch");
  run.strategy.recompute.kind = Recompute::Kind::kFull;
  require(run.strategy.ranks() == row.count("GPUs"), ErrorCode::kBadInput,
          "the plan has {} ranks, GPUs is {}", run.strategy.ranks(), row.count("GPUs"));
  run.cluster = laboratory("A100-SXM", "", run.strategy.ranks());
  run.choice =
      fmt::format("{} on {} batch {}", run.model.name, row.count("GPUs"), run.global_batch);
  run.step_s = row.number("iteration time (ms)") / 1e3;
  require(*run.step_s > 0, ErrorCode::kBadInput, "iteration time (ms) is not positive");
}

// A row that `fill` refuses stays in the report, with the reason.
void fill_or_say_why(const Row& row, Observation& run,
                     const std::function<void(const Row&, Observation&)>& fill) {
  try {
    fill(row, run);
  } catch (const Error& error) {
    run.problem = error.what();
  }
}

}  // namespace

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp) {
  const std::int64_t multiple = 128 * tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

std::vector<Observation> read_published(std::string_view text, const std::string& file) {
  const CsvTable table(text, file,
                       {"id",
                        "set",
                        "model",
                        "arch",
                        "layers",
                        "hidden",
                        "heads",
                        "kv_heads",
                        "ffn",
                        "vocab",
                        "seq",
                        "gpus",
                        "gpu_type",
                        "precision",
                        "inter_node",
                        "gbs_seqs",
                        "mbs",
                        "tp",
                        "cp",
                        "ep",
                        "pp",
                        "dp",
                        "vpp",
                        "schedule",
                        "zero_stage",
                        "recompute",
                        "seq_par",
                        "iter_time_s",
                        "tflops_per_gpu",
                        "tflops_kind",
                        "mem_gib",
                        "note"});
  std::vector<Observation> runs;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Row row = table.row(i);
    Observation& run = runs.emplace_back();
    run.id = row.text("id");
    run.place = row.place();
    run.group = group_of(row);
    run.is_calibration = std::find(kCalibrationRows.begin(), kCalibrationRows.end(), run.id) !=
                         kCalibrationRows.end();
    fill_or_say_why(row, run, fill_published);
  }
  return runs;
}

std::vector<Observation> read_single_node(std::string_view text, const std::string& file) {
  const CsvTable table(text, file,
                       {"GPUs", "global batch", "micro batch", "hidden size", "attention heads",
                        "# layers", "sequence length", "tensor parallelism", "data parallelism",
                        "pipeline parallelism", "iteration time (ms)"});
  std::vector<Observation> runs;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Row row = table.row(i);
    Observation& run = runs.emplace_back();
    run.id = fmt::format("v{:04}", row.line());
    run.place = row.place();
    run.is_calibration = run.id == "v0059" || run.id == "v0102";  // of the launch cost
    run.group = fmt::format("vtrain-single x{}", row.text("GPUs"));
    fill_or_say_why(row, run, fill_single_node);
  }
  return runs;
}

}  // namespace sextant
