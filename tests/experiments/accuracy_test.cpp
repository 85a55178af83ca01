// The accuracy report: what is read, what is refused, what is left out, and how far we are off.
#include "core/base/error.h"
#include "core/text/json_reader.h"
#include "experiments/accuracy/csv_table.h"
#include "experiments/accuracy/laboratory.h"
#include "experiments/accuracy/report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace sextant::accuracy_test {
namespace {

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
  CHECK(problem_of(with_row("r1", "1f1b", "2", "fp8")) ==
        "precision is 'fp8': products of 8 and 4 bits are not modelled");
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

// ---------------------------------------------------------------- reports

TEST_CASE("calibration rows and refused plans count in no average") {
  // Five micro-batches of two samples do not fill a batch of eight; r0024 calibrates.
  std::string text = with_row("r9998", "1f1b", "2", "fp16");
  text += with_row("r0024", "1f1b", "2", "fp16").substr(kHeader.size());
  text += with_row("r9999", "1f1b", "5", "fp16").substr(kHeader.size());
  const auto rows = compare(read_published(text, "runs.csv"), {});
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
  const std::string lines = to_jsonl(rows);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 3);
  CHECK(lines.find("\"comparable\":false,\"reason\":") != std::string::npos);
}

TEST_CASE("a prediction does not depend on what else is predicted") {
  const std::string one = with_row("r9998", "1f1b", "2", "fp16");
  const std::string both = one + with_row("r9997", "1f1b", "4", "fp16").substr(kHeader.size());
  const auto alone = compare(read_published(one, "runs.csv"), {});
  const auto beside = compare(read_published(both, "runs.csv"), {});
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
  const auto rows = compare(read_published(row, "runs.csv"), {});
  REQUIRE(rows.at(0).prediction.has_value());
  CHECK(std::abs(rows[0].prediction->step_s / 9.399 - 1) < 0.06);
}

// ---------------------------------------------------------------- the shared collection

std::string shared_folder() {
  const char* shared = std::getenv("SEXTANT_SHARED");
  return (shared != nullptr ? std::string(shared) : std::string("../shared")) + "/data/";
}
bool has_shared_data() { return std::filesystem::exists(shared_folder() + "published_runs.csv"); }

TEST_CASE("Megatron runs on A100s are predicted within 10 %, memory never 3 % too small" *
          doctest::skip(!has_shared_data())) {
  auto runs = read_published(read_text_file(shared_folder() + "published_runs.csv"), "runs.csv");
  std::erase_if(runs, [](const Observation& run) { return !run.is_megatron_a100; });
  const auto groups = summarize_groups(compare(std::move(runs), {}));
  const GroupReport& all = groups.back();
  REQUIRE(all.name == kMegatronGroup);
  CHECK(all.time.rows >= 90);
  CHECK(all.time.mape < 0.10);
  CHECK(all.memory.rows > 0);
  CHECK(all.most_underestimated_memory >= -0.03);
}

}  // namespace
}  // namespace sextant::accuracy_test
