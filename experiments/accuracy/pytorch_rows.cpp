// The steps of ../peers/torch_gpt.py, one JSON object per line.
#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "experiments/accuracy/laboratory.h"
#include "experiments/accuracy/observation.h"

#include <map>

namespace sextant {
namespace {

constexpr std::int64_t kVocab = 50304;

struct Sizes {
  std::int64_t layers, hidden, heads;
};

Sizes sizes_of(const std::string& model) {
  static const std::map<std::string, Sizes> sizes = {
      {"small", {12, 768, 12}}, {"medium", {24, 1024, 16}}, {"large", {36, 1280, 20}},
      {"xl", {48, 1600, 25}},   {"2.7b", {32, 2560, 32}},   {"6.7b", {32, 4096, 32}}};
  const auto found = sizes.find(model);
  require(found != sizes.end(), ErrorCode::kBadInput, "model '{}' is no decoder of the peer",
          model);
  return found->second;
}

ModelConfig model_of(const JsonCursor& row) {
  const Sizes sizes = sizes_of(row.at("model").text());
  ModelConfig model;
  model.name = "gpt " + row.at("model").text();
  model.layers = sizes.layers;
  model.hidden = sizes.hidden;
  model.heads = model.kv_heads = sizes.heads;
  model.head_size = sizes.hidden / sizes.heads;
  model.ffn = 4 * sizes.hidden;
  model.vocab = kVocab;
  model.sequence = row.at("seq").integer();
  const std::string& strategy = row.at("strategy").text();
  model.tied_embeddings = strategy == "single" || strategy == "ddp";
  return model;
}

Strategy strategy_of(const JsonCursor& row) {
  const std::string& name = row.at("strategy").text();
  const std::int64_t world = row.at("world").integer();
  Strategy strategy;
  strategy.tp = row.at("tp").integer();
  strategy.micro_batch = row.at("mbs").integer();
  if (row.at("ckpt").integer() != 0) strategy.recompute.kind = Recompute::Kind::kFull;
  if (name == "pp")
    strategy.pp = world;
  else
    strategy.dp = world / strategy.tp;
  if (name == "fsdp" || (name == "tp" && strategy.dp > 1)) strategy.zero = 3;
  // The peer splits blocks alone: every device reads all of the vocabulary's matrices, which FSDP
  // spreads over dp between two uses.
  if (strategy.tp > 1)
    for (const char* reader : {"embedding", "head"}) {
      WordPin pin{.name = reader, .input = 1, .words = {Sbp{}, Sbp{}}};
      if (strategy.dp == 1) pin = {reader + std::string(".weight"), std::nullopt, pin.words};
      strategy.pins.push_back(pin);
    }
  return strategy;
}

void fill(const JsonCursor& row, Observation& run) {
  run.model = model_of(row);
  require(row.at("compile").integer() != 0, ErrorCode::kBadInput,
          "without torch.compile: every operator of the peer is a kernel of its own");
  run.strategy = strategy_of(row);
  run.sequence = row.at("seq").integer();
  run.global_batch =
      run.strategy.dp * run.strategy.micro_batch * row.at("micro").integer_between(1, 1 << 20);
  run.dtype = DType::kBF16;
  run.software = run.strategy.pp > 1   ? pytorch_pipelined()
                 : run.strategy.tp > 1 ? pytorch_tensor_parallel()
                                       : pytorch_compiled();
  run.cluster = laboratory("H200", "", run.strategy.ranks());
  run.step_s = row.at("step_ms").real() / 1e3;
  run.memory_gib = row.at("peak_gib").real();
  require(*run.step_s > 0, ErrorCode::kBadInput, "step_ms is not positive");
}

}  // namespace

std::vector<Observation> read_pytorch(std::string_view text, const std::string& file) {
  std::vector<Observation> runs;
  int line = 0;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view one = text.substr(begin, end - begin);
    begin = end + 1;
    if (one.empty()) continue;
    Observation& run = runs.emplace_back();
    run.place = fmt::format("{}:{}", file, line + 1);
    run.id = fmt::format("p{:04}", line + 1);
    const JsonDocument document(one, run.place);  // a line that is no JSON refuses the file
    run.group = fmt::format("pytorch-h200 x{}", document.root().at("world").integer());
    run.is_calibration = run.id == "p0004" || run.id == "p0006";
    try {
      fill(document.root(), run);
    } catch (const Error& error) {
      run.problem = error.what();
    }
  }
  return runs;
}

}  // namespace sextant
