// The accuracy report: what is read, what is refused, what is left out, and how far we are off.
#include "core/base/error.h"
#include "core/text/json_reader.h"
#include "experiments/accuracy/accuracy_sweep.h"
#include "experiments/accuracy/csv_table.h"
#include "experiments/accuracy/laboratory.h"
#include "experiments/accuracy/peer_models.h"
#include "experiments/accuracy/report.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace sextant::accuracy_test {
namespace {

std::vector<ComparedRow> compare(const std::vector<Observation>& runs) {
  const Experiment experiment = accuracy_experiment(runs);
  return compared_rows(
      runs, run_sweep({experiment.name, experiment.points(false), experiment.evaluate}, {}).rows);
}

// ---------------------------------------------------------------- tables

TEST_CASE("cells may be quoted, and a row knows its line") {
  const CsvTable table("a,b\n\"1,5\",\"say \"\"x\"\"\"\n\n\"two\nlines\",3\n", "t.csv", {"a"});
  REQUIRE(table.size() == 2);
  CHECK(table.row(0).text("a") == "1,5");
  CHECK(table.row(0).text("b") == "say \"x\"");
  CHECK(table.row(1).text("a") == "two\nlines");
  CHECK(table.row(1).place() == "t.csv:4");
  CHECK(table.row(1).number("b") == 3);
}

TEST_CASE("a table that cannot be read is refused with file and line") {
  const auto refusal = [](const char* text) {
    try {
      const CsvTable table(text, "t.csv", {"a"});
      return std::string("read");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      return std::string(error.what());
    }
  };
  CHECK(refusal("") == "t.csv:1: empty, wanted a header");
  CHECK(refusal("b,c\n1,2\n") == "t.csv:1: column 'a' is missing");
  CHECK(refusal("a,a\n1,2\n") == "t.csv:1: column 'a' is there more than once");
  CHECK(refusal("a,b\n1,2\n1\n") == "t.csv:3: 1 cells, the header has 2");
  CHECK(refusal("a,b\n1,\"2\n3\n") == "t.csv:2: a quote that is never closed");
  CHECK(refusal("a,b\n\"1\"x,2\n") ==
        "t.csv:2: text behind a closed quote, wanted a comma or the end of the line");
}

TEST_CASE("a cell that is no count says which") {
  const CsvTable table("a,b,c,d\n,x,1.5,8.0\n", "t.csv", {});
  const CsvTable::Row row = table.row(0);
  CHECK_THROWS_WITH(row.number("a"), "a is not given");
  CHECK_THROWS_WITH(row.number("b"), "b is 'x', wanted a number");
  CHECK_THROWS_WITH(row.count("c"), "c is '1.5', wanted a count from 1");
  CHECK(row.count("d") == 8);
  CHECK(row.count_or("a", 3) == 3);
}

// ---------------------------------------------------------------- laboratories

// 8 x 200 Gb/s for 8 GPUs are 25 GB/s each.
TEST_CASE("a network in words becomes bytes per second and GPU") {
  CHECK(bandwidth_per_gpu("8x HDR200 IB per node (Selene)") == 25e9);
  CHECK(bandwidth_per_gpu("4x OmniPath100 per node") == 6.25e9);
  CHECK(bandwidth_per_gpu("8x200G, 3-tier CLOS") == 25e9);
  CHECK(bandwidth_per_gpu("800Gb/s per node") == 12.5e9);
  CHECK(bandwidth_per_gpu("RoCE 1600Gb/s per node") == 25e9);
  CHECK(bandwidth_per_gpu("RoCE (up to 4 nodes)") == 0);
  CHECK(bandwidth_per_gpu("") == 0);
  CHECK(laboratory("A100-SXM", "800Gb/s per node", 12).nodes == 2);
  CHECK(laboratory("DGX-GB200", "", 256).nodes == 4);  // racks of 72
  CHECK_THROWS_WITH(laboratory("Z80", "", 1), "gpu_type is 'Z80', there is no cluster of it");
}

// ---------------------------------------------------------------- rows

const std::string kHeader =
    "id,set,model,arch,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu_type,precision,"
    "inter_node,gbs_seqs,mbs,tp,cp,ep,pp,dp,vpp,schedule,zero_stage,recompute,seq_par,iter_time_s,"
    "tflops_per_gpu,tflops_kind,mem_gib,note\n";

std::string with_row(std::string id, std::string schedule, std::string micro_batch,
                     std::string precision) {
  return kHeader + id + ",vtrain-multi,tiny,gpt,4,256,4,4,1024,1024,128,2,A100-SXM," + precision +
         ",,8," + micro_batch + ",1,1,1,2,1,1," + schedule + ",0,full,0,0.5,,,,\n";
}

std::string problem_of(const std::string& text) {
  return read_published(text, "runs.csv").at(0).problem;
}

TEST_CASE("a row becomes model, strategy and cluster") {
  const Observation run = read_published(with_row("r9999", "1f1b", "2", "fp16"), "runs.csv").at(0);
  CHECK(run.problem.empty());
  CHECK(run.place == "runs.csv:2");
  CHECK(run.model.layers == 4);
  CHECK(run.model.head_size == 64);
  CHECK(to_string(run.strategy) ==
        "dp=1 tp=1 pp=2 micro_batch=2 schedule=1f1b zero=0 recompute=full");
  CHECK(run.dtype == DType::kF16);
  CHECK(run.software.written_attention);
  CHECK(run.is_megatron_a100);
  CHECK(*run.step_s == 0.5);
}

TEST_CASE("a row that cannot be understood keeps its place, with the reason") {
  CHECK(problem_of(with_row("r1", "ZB-2p", "2", "fp16")) ==
        "schedule is 'ZB-2p', which no strategy has");
  CHECK(problem_of(with_row("r1", "1f1b", "", "fp16")) == "mbs is not given");
  CHECK(problem_of(with_row("r1", "1f1b", "two", "fp16")) == "mbs is 'two', wanted a number");
  CHECK(problem_of(with_row("r1", "1f1b", "2", "NVFP4")) ==
        "precision is 'NVFP4': products of 4 bits are not modelled");
}

// A row of Megatron-Bridge's tables: neither recomputation nor sequence parallelism is in them.
std::string bridge_row(const std::string& precision, const std::string& gpu) {
  return kHeader +
         "r9995,megatron-bridge 26.02 NeMo Container,tiny,llama,14,256,4,4,512,1024,128,16," + gpu +
         "," + precision +
         ",,32,1.0,2,1,1,4,2,2.0,interleaved-1f1b,1(distributed optimizer),,,0.5,"
         ",,,\n";
}

TEST_CASE("what a source leaves out is known of its program") {
  const Observation run = read_published(bridge_row("FP8-CS", "DGX-H100"), "runs.csv").at(0);
  REQUIRE(run.problem.empty());
  CHECK(run.group == "megatron-bridge DGX-H100, 8-bit products");
  CHECK(run.eight_bit_products);
  CHECK(run.dtype == DType::kBF16);
  // 14 blocks over 8 chunks: embedding and head count as layers.
  CHECK(to_string(run.strategy) ==
        "dp=2 tp=2 pp=4 micro_batch=1 schedule=interleaved zero=1 sp=on virtual=2 "
        "layers=1,*,*,*,*,*,*,1");
  CHECK(run.assumptions == std::vector<std::string>{"nothing is recomputed"});
  CHECK(problem_of(bridge_row("NVFP4", "DGX-H100")) ==
        "precision is 'NVFP4': products of 4 bits are not modelled");
}

TEST_CASE("products of 8 bits are faster, and refused where a card has none") {
  const auto step = [](const std::string& precision) {
    return compare(read_published(bridge_row(precision, "DGX-H100"), "runs.csv")).at(0);
  };
  const ComparedRow narrow = step("FP8"), wide = step("BF16");
  REQUIRE(narrow.prediction.has_value());
  REQUIRE(wide.prediction.has_value());
  CHECK(narrow.prediction->kernels_s.at("attention") == wide.prediction->kernels_s.at("attention"));
  const auto ampere = compare(read_published(bridge_row("FP8", "A100-SXM"), "runs.csv"));
  CHECK(ampere.at(0).run.problem == "device 'A100-SXM4-80GB' has no products of 8 bits");
}

// Kinds of kernels add up to what ranks compute and update; nothing else runs beside.
TEST_CASE("kinds of kernels add up to the compute of a step") {
  const auto rows = compare(read_published(with_row("r9994", "1f1b", "2", "fp16"), "runs.csv"));
  REQUIRE(rows.at(0).prediction.has_value());
  const Prediction& prediction = *rows[0].prediction;
  double sum = 0;
  for (const auto& [kind, seconds] : prediction.kernels_s) sum += seconds;
  CHECK(sum == doctest::Approx(prediction.parts.compute.mean_s + prediction.parts.optimizer.mean_s)
                   .epsilon(0.001));
  CHECK(prediction.kernels_s.contains("attention"));
  CHECK(prediction.kernels_s.contains("optimizer"));
}

TEST_CASE("a file without a column is refused") {
  CHECK_THROWS_WITH(read_published("id,set\nr1,x\n", "runs.csv"),
                    "runs.csv:1: column 'model' is missing");
  CHECK_THROWS_WITH(read_single_node("GPUs\n1\n", "v.csv"),
                    "v.csv:1: column 'global batch' is missing");
  CHECK_THROWS_WITH_AS(read_pytorch("{\"world\": 1}\n{\"world\"", "p.jsonl"),
                       doctest::Contains("p.jsonl:2"), Error);
}

TEST_CASE("the vocabulary is padded for tensor parallelism as Megatron pads it") {
  CHECK(padded_vocab(50257, 1) == 50304);
  CHECK(padded_vocab(50257, 8) == 51200);
  CHECK(padded_vocab(51200, 4) == 51200);
}

// ---------------------------------------------------------------- programs

TEST_CASE("products of layers have 8-bit operands, those of the head have not") {
  const auto device = make_cost_model(load_cluster("dgx-h100:nodes=1"), DType::kBF16);
  const Software software = megatron_bridge();
  const EightBitLayers layers{.tokens = 8192, .classes = 16032, .use = {.speedup = 2}};
  const PeerCosts wide(*device, software, 1, Duration());
  const PeerCosts narrow(*device, software, 1, Duration(), 1, {}, layers);
  const auto ratio = [&](double m, double n, double k) {
    const Work work{2 * m * n * k, Bytes(1), Bytes(1),
                    fmt::format("matmul:{:.0f}x{:.0f}x{:.0f}", m, n, k)};
    return to_seconds(narrow.duration(work)) / to_seconds(wide.duration(work));
  };
  CHECK(ratio(8192, 16032, 4096) == 1);
  CHECK(ratio(16032, 4096, 8192) == 1);
  // Of the weight's gradient both operands are there in 8 bits; a forward product makes one.
  CHECK(ratio(4096, 4096, 8192) < 0.55);
  CHECK(ratio(8192, 4096, 4096) > ratio(4096, 4096, 8192));
  CHECK(ratio(8192, 4096, 4096) < 1);
}

TEST_CASE("under ZeRO 1 a program may sum whole gradients on all replicas") {
  const Cluster cluster = load_cluster("dgx-a100:nodes=1");
  const auto network = make_network_model(cluster);
  Communication part;
  part.primitive = Primitive::kReduceScatter;
  const std::vector<Rank> members = {Rank(0), Rank(1), Rank(2), Rank(3)};
  CollectiveCost cost;
  cost.communication = &part;
  cost.members = members;
  cost.global_bytes = cost.largest_volume = Bytes(1 << 30);
  const double parts = to_seconds(WithFlat(*network, {&part}, false).duration(cost));
  const double whole = to_seconds(WithFlat(*network, {&part}, true).duration(cost));
  CHECK(parts > 0);
  CHECK(whole > 1.7 * parts);
  CHECK(whole < 2.3 * parts);
}

// ---------------------------------------------------------------- reports

TEST_CASE("calibration rows and refused plans count in no average") {
  // Five micro-batches of two samples do not fill a batch of eight; r0024 calibrates.
  std::string text = with_row("r9998", "1f1b", "2", "fp16");
  text += with_row("r0024", "1f1b", "2", "fp16").substr(kHeader.size());
  text += with_row("r9999", "1f1b", "5", "fp16").substr(kHeader.size());
  const auto rows = compare(read_published(text, "runs.csv"));
  REQUIRE(rows.size() == 3);
  REQUIRE(rows[0].prediction);
  CHECK(rows[0].prediction->step_s > 0);
  CHECK(rows[0].prediction->arena > Bytes(0));
  CHECK_FALSE(rows[2].prediction);
  CHECK_FALSE(rows[2].run.problem.empty());
  const auto groups = summarize_groups(rows);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].name == "vtrain-multi tiny x2");
  CHECK(groups[0].rows == 3);
  CHECK(groups[0].comparable == 2);
  CHECK(groups[0].calibration == 1);
  CHECK(groups[0].time.rows == 1);
  CHECK(groups[1].name == kMegatronGroup);
}

TEST_CASE(
    "a run is a point with what was measured beside it, and one that cannot be is an answer") {
  std::string text = with_row("r9998", "1f1b", "2", "fp16");
  text += with_row("r9999", "1f1b", "5", "fp16").substr(kHeader.size());
  const std::vector<Observation> runs = read_published(text, "runs.csv");
  const Experiment experiment = accuracy_experiment(runs);
  const SweepOutcome found =
      run_sweep({experiment.name, experiment.points(false), experiment.evaluate}, {});
  REQUIRE(found.rows.size() == 2);
  const SweepRow& row = found.rows[0];
  CHECK(row.point.name == "r9998");
  CHECK(number_of(row.point.reference, "step_s") == runs[0].step_s);
  CHECK_FALSE(word_of(row.point.parameters, "strategy").empty());
  double kernels = 0;
  for (const auto& [name, value] : row.result.values)
    if (name.starts_with("kernels.")) kernels += std::get<double>(value);
  CHECK(kernels > 0);
  REQUIRE(found.rows[1].error.has_value());
  CHECK(found.rows[1].error->is_answer());
  // A second sweep computes neither, and says the same.
  const SweepOutcome again = run_sweep(
      {experiment.name, experiment.points(false), experiment.evaluate}, {}, {.kept = found.rows});
  CHECK(again.reused == 2);
  const std::vector<ShapeClaim> claims = experiment.shapes(ResultRows(again.rows));
  REQUIRE(claims.size() == 2);
  CHECK(claims[0].holds.has_value());
  CHECK_FALSE(claims[1].holds.has_value());
}

TEST_CASE("a prediction does not depend on what else is predicted") {
  const std::string one = with_row("r9998", "1f1b", "2", "fp16");
  const std::string both = one + with_row("r9997", "1f1b", "4", "fp16").substr(kHeader.size());
  const auto alone = compare(read_published(one, "runs.csv"));
  const auto beside = compare(read_published(both, "runs.csv"));
  CHECK(alone[0].prediction->step_s == beside[0].prediction->step_s);
  CHECK(beside[1].prediction->step_s != beside[0].prediction->step_s);
}

// Megatron reduces behind backward. Our reductions share starts, and what a bucket takes counts
// once.
TEST_CASE("GPT 18.4B on 256 A100s takes the 9.4 s that Megatron-LM published, to 6 %") {
  const std::string row =
      kHeader +
      "r9996,megatron-sc21-t1,GPT-18.4B,gpt,40,6144,48,48,24576,51200,2048,256,A100-SXM,fp16,"
      "8x HDR200 IB per node (Selene),1024,8,8,1,1,1,32,1,none,0,full-uniform,0,9.399,,,,\n";
  const auto rows = compare(read_published(row, "runs.csv"));
  REQUIRE(rows.at(0).prediction.has_value());
  CHECK(std::abs(rows[0].prediction->step_s / 9.399 - 1) < 0.06);
}

// ---------------------------------------------------------------- the shared collection

std::string shared_folder() {
  const char* shared = std::getenv("SEXTANT_SHARED");
  return (shared != nullptr ? std::string(shared) : std::string("../shared")) + "/data/";
}
bool has_shared_data() { return std::filesystem::exists(shared_folder() + "published_runs.csv"); }

TEST_CASE("Megatron runs on A100s are predicted within 8 %, memory never 3 % too small" *
          doctest::skip(!has_shared_data())) {
  auto runs = read_published(read_text_file(shared_folder() + "published_runs.csv"), "runs.csv");
  std::erase_if(runs, [](const Observation& run) { return !run.is_megatron_a100; });
  const auto groups = summarize_groups(compare(std::move(runs)));
  const GroupReport& all = groups.back();
  REQUIRE(all.name == kMegatronGroup);
  CHECK(all.time.rows >= 90);
  CHECK(all.time.mape < 0.08);
  CHECK(all.memory.rows > 0);
  CHECK(all.most_underestimated_memory >= -0.03);
}

}  // namespace
}  // namespace sextant::accuracy_test
