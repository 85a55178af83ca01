// Plan files: read what was written, refuse what was not.
#include "compiler/expand/plan.h"

#include "core/base/error.h"
#include "tests/support/unknown_keys.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::plan_test {
namespace {

Plan example() {
  Plan plan;
  plan.model = "gpt:layers=2";
  plan.model_text = "{\"layers\": 2}";
  plan.model_hash = text_hash(plan.model_text);
  plan.cluster = "cpu:ranks=4";
  plan.cluster_text = "{\"nodes\": 1}";
  plan.cluster_hash = text_hash(plan.cluster_text);
  plan.strategy = parse_strategy("dp=2 pp=2 schedule=zb-h1 zero=1");
  plan.global_batch = 8;
  plan.sequence = 64;
  plan.expand.schedule = plan.strategy.schedule;
  plan.expand.slot_lifetime = SlotLifetime::kModelled;
  plan.expand.launch_groups = true;
  plan.expand.plan_memory = false;
  plan.expand.buckets = {.bytes = Bytes(4096), .operations = 7};
  plan.optimizer = parse_optimizer("lamb lr=0.1 warmup=7 clip=0.5 loss_scale=dynamic:8");
  plan.assumptions = {"experts have places for 1.25 times the even share"};
  plan.predicted_step_time_s = 0.125;
  plan.memory = Bytes(1 << 30);
  return plan;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto place = text.find(what);
  REQUIRE(place != std::string::npos);
  return text.replace(place, what.size(), by);
}

std::string refusal(const std::string& text) {
  try {
    plan_from_json(text, "plan.json");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a plan carries what was assumed of its model; older plans assumed nothing") {
  const Plan plan = example();
  CHECK(plan_from_json(to_json_text(plan), "plan.json").assumptions == plan.assumptions);
  Plan silent = plan;
  silent.assumptions.clear();
  CHECK_FALSE(contains(to_json_text(silent), "assumptions"));
  CHECK(plan_from_json(to_json_text(silent), "plan.json").assumptions.empty());
}

TEST_CASE("a plan from before bucket fusion runs without it, and limits are no negative numbers") {
  const std::string text = to_json_text(example());
  std::string old = replaced(text, "\"bucket_bytes\": 4096,", "");
  old = replaced(old, "\"bucket_operations\": 7,", "");
  CHECK(plan_from_json(old, "plan.json").expand.buckets.operations == 0);
  CHECK(contains(refusal(replaced(text, "\"bucket_operations\": 7", "\"bucket_operations\": -7")),
                 "-7 is no limit of a bucket, wanted 0 (off) to 2147483647"));
}

TEST_CASE("a key that nobody knows is refused in a plan and in its options") {
  const std::vector<std::string> texts = with_unknown_key(to_json_text(example()));
  CHECK(texts.size() == 2);
  for (const std::string& text : texts)
    CHECK_THROWS_WITH_AS(plan_from_json(text, "plan.json"),
                         doctest::Contains("unknown key 'no_such_key'"), Error);
}

TEST_CASE("a plan says whether transfers go early or late; those from before say nothing: early") {
  Plan plan = example();
  plan.expand.transfer_order = TransferOrder::kLate;
  const std::string text = to_json_text(plan);
  CHECK(plan_from_json(text, "plan.json").expand.transfer_order == TransferOrder::kLate);
  const std::string old = replaced(text, "\"transfer_order\": \"late\",", "");
  CHECK(plan_from_json(old, "plan.json").expand.transfer_order == TransferOrder::kEarly);
  CHECK(contains(refusal(replaced(text, "\"late\"", "\"never\"")), "wanted early or late"));
}

TEST_CASE("a plan survives the way through its file byte for byte") {
  const std::string text = to_json_text(example());
  const Plan read = plan_from_json(text, "plan.json");
  CHECK(to_json_text(read) == text);
  CHECK(read.strategy == example().strategy);
  CHECK(read.expand == example().expand);
  CHECK(read.optimizer == example().optimizer);
  CHECK(read.predicted_step_time_s == 0.125);
}

TEST_CASE(
    "a plan from before there was more than AdamW still reads, and bad optimizers have a place") {
  const std::string text = to_json_text(example());
  const std::string written = "\"" + to_string(example().optimizer) + "\"";
  const std::string numbers =
      R"({"learning_rate": 0.5, "beta1": 0.5, "beta2": 0.75, "epsilon": 1e-6, "weight_decay": 0})";
  const Plan old = plan_from_json(replaced(text, written, numbers), "plan.json");
  CHECK(to_string(old.optimizer) == "adamw lr=0.5 beta1=0.5 beta2=0.75 eps=1e-06 decay=0");
  CHECK(contains(refusal(replaced(text, written, replaced(numbers, "0.75", "1"))),
                 "plan.json: optimizer: beta2=1, wanted from 0 to below 1"));
  CHECK(contains(refusal(replaced(text, written, "\"lamb clib=1\"")),
                 "plan.json: optimizer: unknown key 'clib', did you mean 'clip'?"));
  CHECK(contains(refusal(replaced(text, written, "7")), "plan.json: optimizer"));
}

TEST_CASE("a plan of another version is refused by number, whatever its keys") {
  const std::string text = refusal("{\"version\": 2, \"placements\": []}");
  CHECK(contains(text, "version 2"));
  CHECK(contains(text, "version 1"));
}

TEST_CASE("a plan with an unknown key, strategy or broken text is refused with its place") {
  const std::string text = to_json_text(example());
  CHECK(contains(refusal(replaced(text, "\"sequence\"", "\"sequense\"")), "sequense"));
  CHECK(contains(refusal(replaced(text, "schedule=zb-h1", "schedule=zb-h9")),
                 "plan.json: strategy: schedule=zb-h9 is unknown"));
  CHECK(contains(refusal(replaced(text, "lamb lr", "lamb lrr")), "plan.json: optimizer: "));
  CHECK(!contains(refusal(replaced(text, "lamb lr", "lamb lrr")), "optimizer: optimizer"));
  CHECK(contains(refusal(text.substr(0, text.size() / 2)), "plan.json"));
  CHECK(contains(refusal(replaced(text, "\"modelled\"", "\"model\"")), "slot_lifetime"));
  CHECK(contains(refusal(replaced(text, "\"global_batch\": 8", "\"global_batch\": 0")),
                 "global_batch"));
}

TEST_CASE("a plan whose model text was edited is refused") {
  const std::string text = replaced(to_json_text(example()), "layers\\\": 2", "layers\\\": 3");
  CHECK(contains(refusal(text), "model_text"));
}

TEST_CASE("a plan of another model or cluster is refused naming both") {
  const Plan plan = example();
  CHECK_NOTHROW(require_same_model(plan, "elsewhere.json", plan.model_text));
  CHECK_NOTHROW(require_same_cluster(plan, "elsewhere.json", plan.cluster_text));
  CHECK_THROWS_WITH_AS(require_same_model(plan, "other.json", "{\"layers\": 3}"),
                       doctest::Contains("gpt:layers=2"), Error);
  CHECK_THROWS_WITH_AS(require_same_cluster(plan, "other.json", "{\"nodes\": 2}"),
                       doctest::Contains("other.json"), Error);
}

TEST_CASE("the hash of a text is its 64-bit FNV-1a") {
  // Offset basis for the empty text; for "a": (basis xor 0x61) * 0x100000001b3 modulo 2^64, the
  // published test vector.
  CHECK(text_hash("") == "cbf29ce484222325");
  CHECK(text_hash("a") == "af63dc4c8601ec8c");
}

}  // namespace
}  // namespace sextant::plan_test
