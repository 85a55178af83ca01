// Plan files as JSON: written in a fixed order of keys, read strictly.
#include "compiler/expand/plan.h"

#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

#include <nlohmann/json.hpp>

#include <limits>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPlanVersion = 1;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string_view to_string(SlotLifetime lifetime) {
  switch (lifetime) {
    case SlotLifetime::kIssueOrder:
      return "issue_order";
    case SlotLifetime::kModelled:
      return "modelled";
  }
  return "?";
}

SlotLifetime slot_lifetime_from(const JsonCursor& value) {
  for (const SlotLifetime lifetime : {SlotLifetime::kIssueOrder, SlotLifetime::kModelled})
    if (value.text() == to_string(lifetime)) return lifetime;
  value.refuse(fmt::format("'{}' is unknown, wanted issue_order or modelled", value.text()));
}

std::string_view to_string(TransferOrder order) {
  switch (order) {
    case TransferOrder::kEarly:
      return "early";
    case TransferOrder::kLate:
      return "late";
  }
  return "?";
}

TransferOrder transfer_order_from(const JsonCursor& value) {
  for (const TransferOrder order : {TransferOrder::kEarly, TransferOrder::kLate})
    if (value.text() == to_string(order)) return order;
  value.refuse(fmt::format("'{}' is unknown, wanted early or late", value.text()));
}

Json expand_to_json(const ExpandOptions& options) {
  return {{"slot_lifetime", to_string(options.slot_lifetime)},
          {"transfer_order", to_string(options.transfer_order)},
          {"launch_groups", options.launch_groups},
          {"bucket_bytes", options.buckets.bytes.value},
          {"bucket_operations", options.buckets.operations},
          {"join_runs", options.join_runs},
          {"fusion", options.fusion},
          {"plan_memory", options.plan_memory},
          {"in_place", options.in_place},
          {"symmetric", options.symmetric}};
}

std::int64_t limit_from(const JsonCursor& value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t limit = value.integer();
  if (limit < 0 || limit > kMost)
    value.refuse(fmt::format("{} is no limit of a bucket, wanted 0 (off) to {}", limit, kMost));
  return limit;
}

ExpandOptions expand_from(const JsonCursor& value, const Strategy& strategy) {
  value.allow_only({"slot_lifetime", "transfer_order", "launch_groups", "bucket_bytes",
                    "bucket_operations", "join_runs", "fusion", "plan_memory", "in_place",
                    "symmetric"});
  ExpandOptions options;
  options.schedule = strategy.schedule;
  options.slot_lifetime = slot_lifetime_from(value.at("slot_lifetime"));
  // Plans from before this choice sent early.
  if (const auto order = value.find("transfer_order"))
    options.transfer_order = transfer_order_from(*order);
  options.launch_groups = value.at("launch_groups").boolean();
  // Plans from before bucket fusion ran without it.
  options.buckets = {Bytes(0), 0};
  if (const auto bytes = value.find("bucket_bytes"))
    options.buckets.bytes = Bytes(limit_from(*bytes));
  if (const auto operations = value.find("bucket_operations"))
    options.buckets.operations = static_cast<std::int32_t>(limit_from(*operations));
  // Plans from before a pass ran without it.
  const auto is_on = [&](const char* pass) {
    const auto found = value.find(pass);
    return found && found->boolean();
  };
  options.fusion = is_on("fusion");
  options.plan_memory = value.at("plan_memory").boolean();
  options.in_place = is_on("in_place");
  options.symmetric = is_on("symmetric");
  options.join_runs = is_on("join_runs");
  return options;
}

// Plans from before there was more than AdamW hold its numbers.
OptimizerOptions adamw_from(const JsonCursor& value) {
  value.allow_only({"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"});
  OptimizerOptions options;
  options.learning_rate = value.at("learning_rate").real();
  options.beta1 = value.at("beta1").real();
  options.beta2 = value.at("beta2").real();
  options.epsilon = value.at("epsilon").real();
  options.weight_decay = value.at("weight_decay").real();
  validate(options);
  return options;
}

OptimizerOptions optimizer_from(const JsonCursor& value) {
  try {
    return value.is_object() ? adamw_from(value) : parse_optimizer(value.text());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kBadInput) throw;
    value.refuse(error.message());  // the place of the value names the key
  }
}

Strategy strategy_from(const JsonCursor& value) {
  try {
    return parse_strategy(value.text());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kBadInput) throw;
    value.refuse(error.message());
  }
}

DType dtype_from(const JsonCursor& value) {
  try {
    return parse_dtype(value.text());
  } catch (const Error& error) {
    value.refuse(error.what());
  }
}

void require_intact(const JsonCursor& root, const char* key, const std::string& text,
                    const std::string& hash) {
  if (text_hash(text) == hash) return;
  root.at(key).refuse(
      fmt::format("the text has the hash {}, the plan says {}: it was changed "
                  "after the plan was made",
                  text_hash(text), hash));
}

void require_version(const JsonCursor& root) {
  const JsonCursor version = root.at("version");
  if (version.integer() == kPlanVersion) return;
  const bool is_newer = version.integer() > kPlanVersion;
  version.refuse(fmt::format("plan version {} is {} than version {}, which this program reads",
                             version.integer(), is_newer ? "newer" : "older", kPlanVersion));
}

constexpr std::pair<const char*, std::int64_t SearchCertificate::*> kFates[] = {
    {"counted", &SearchCertificate::counted},
    {"simulated", &SearchCertificate::simulated},
    {"cut_by_memory", &SearchCertificate::cut_by_memory},
    {"cut_by_bound", &SearchCertificate::cut_by_bound},
    {"refused", &SearchCertificate::refused},
    {"open", &SearchCertificate::open}};

Json certificate_to_json(const SearchCertificate& certificate) {
  Json json = {{"lower_bound_s", certificate.lower_bound_s}, {"gap", certificate.gap}};
  for (const auto& [name, count] : kFates) json[name] = certificate.*count;
  return json;
}

SearchCertificate certificate_from(const JsonCursor& cursor) {
  cursor.allow_only({"lower_bound_s", "gap", "counted", "simulated", "cut_by_memory",
                     "cut_by_bound", "refused", "open"});
  SearchCertificate certificate;
  certificate.lower_bound_s = cursor.at("lower_bound_s").real();
  certificate.gap = cursor.at("gap").real();
  for (const auto& [name, count] : kFates)
    certificate.*count = cursor.at(name).integer_between(0, kMost);
  return certificate;
}

void require_same(const char* what, std::string_view plan_name, std::string_view plan_hash,
                  std::string_view name, std::string_view text) {
  require(text_hash(text) == plan_hash, ErrorCode::kBadInput,
          "the plan was made for the {0} '{1}' (hash {2}), not for '{3}' (hash {4})", what,
          plan_name, plan_hash, name, text_hash(text));
}

}  // namespace

std::string text_hash(std::string_view text) {
  return fmt::format("{:016x}", Fnv1a().add(text).value());
}

std::string to_json_text(const Plan& plan) {
  Json json = {{"version", plan.version},
               {"strategy", to_string(plan.strategy)},
               {"global_batch", plan.global_batch},
               {"sequence", plan.sequence},
               {"compute_dtype", to_string(plan.compute_dtype)},
               {"predicted_step_time_s", plan.predicted_step_time_s},
               {"model", plan.model},
               {"model_hash", plan.model_hash},
               {"cluster", plan.cluster},
               {"cluster_hash", plan.cluster_hash},
               {"expand", expand_to_json(plan.expand)},
               {"optimizer", to_string(plan.optimizer)},
               {"model_text", plan.model_text},
               {"cluster_text", plan.cluster_text}};
  if (!plan.assumptions.empty()) json["assumptions"] = plan.assumptions;
  if (plan.memory) json["memory_bytes"] = plan.memory->value;
  if (plan.certificate) json["certificate"] = certificate_to_json(*plan.certificate);
  return to_readable_text(json);
}

Plan plan_from_json(std::string_view text, std::string_view file_name) {
  const JsonDocument document(text, std::string(file_name));
  const JsonCursor root = document.root();
  // Before the keys: another version may have others.
  require_version(root);
  root.allow_only({"version", "strategy", "global_batch", "sequence", "compute_dtype",
                   "predicted_step_time_s", "model", "model_hash", "cluster", "cluster_hash",
                   "expand", "optimizer", "model_text", "cluster_text", "assumptions",
                   "memory_bytes", "certificate"});
  Plan plan;
  plan.strategy = strategy_from(root.at("strategy"));
  plan.global_batch = root.at("global_batch").integer_between(1, kMost);
  plan.sequence = root.at("sequence").integer_between(0, kMost);
  plan.compute_dtype = dtype_from(root.at("compute_dtype"));
  plan.predicted_step_time_s = root.at("predicted_step_time_s").real();
  if (const auto certificate = root.find("certificate"))
    plan.certificate = certificate_from(*certificate);
  if (const auto memory = root.find("memory_bytes"))
    plan.memory = Bytes(memory->integer_between(1, kMost));
  plan.model = root.at("model").text();
  plan.model_hash = root.at("model_hash").text();
  plan.cluster = root.at("cluster").text();
  plan.cluster_hash = root.at("cluster_hash").text();
  plan.expand = expand_from(root.at("expand"), plan.strategy);
  plan.optimizer = optimizer_from(root.at("optimizer"));
  plan.model_text = root.at("model_text").text();
  plan.cluster_text = root.at("cluster_text").text();
  if (const auto assumptions = root.find("assumptions"))
    for (const JsonCursor& line : assumptions->elements()) plan.assumptions.push_back(line.text());
  require_intact(root, "model_text", plan.model_text, plan.model_hash);
  require_intact(root, "cluster_text", plan.cluster_text, plan.cluster_hash);
  return plan;
}

void require_same_model(const Plan& plan, std::string_view model, std::string_view model_text) {
  require_same("model", plan.model, plan.model_hash, model, model_text);
}

void require_same_cluster(const Plan& plan, std::string_view cluster,
                          std::string_view cluster_text) {
  require_same("cluster", plan.cluster, plan.cluster_hash, cluster, cluster_text);
}

}  // namespace sextant
