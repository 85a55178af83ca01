// Small JSON texts.
#include "cli/training/run_exchange.h"

#include <nlohmann/json.hpp>

#include <bit>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// To the bit, whatever the values are.
std::string metrics_text(const StepMetrics& metrics) {
  Json values = Json::object();
  for (const auto& [name, value] : metrics.values)
    values[name] = std::bit_cast<std::uint64_t>(value);
  return Json{{"step", metrics.step}, {"values", values}}.dump();
}

StepMetrics metrics_from(const std::string& text) {
  const Json json = Json::parse(text);
  StepMetrics metrics;
  metrics.step = json.at("step").get<std::int64_t>();
  for (const auto& [name, bits] : json.at("values").items())
    metrics.values[name] = std::bit_cast<double>(bits.get<std::uint64_t>());
  return metrics;
}

// Times of a rank, in picoseconds.
Json stamps_json(std::size_t rank, const std::vector<Stamp>& stamps) {
  Json list = Json::array();
  for (const Stamp& stamp : stamps)
    list.push_back({stamp.run.value, stamp.step, stamp.begin.value, stamp.end.value});
  return {{"rank", rank}, {"stamps", list}};
}

Stamp stamp_from(const Json& json) {
  Stamp stamp;
  stamp.run = RunId(json.at(0).get<std::int32_t>());
  stamp.step = json.at(1).get<std::int64_t>();
  stamp.begin = Duration(json.at(2).get<std::int64_t>());
  stamp.end = Duration(json.at(3).get<std::int64_t>());
  return stamp;
}

}  // namespace

MetricsWay::MetricsWay(RunProcesses& processes, TrainingHost& host, RunRecorder& recorder,
                       std::int64_t steps, std::function<void()> behind_step) {
  const auto add = [&recorder](const StepMetrics& metrics) { recorder.add(metrics); };
  if (!processes.are_several()) {
    host.on_step([add, behind_step = std::move(behind_step)](const StepMetrics& metrics) {
      add(metrics);
      behind_step();
    });
    return;
  }
  host.on_step([&processes, behind_step = std::move(behind_step)](const StepMetrics& metrics) {
    processes.send_metrics(metrics_text(metrics));
    behind_step();
  });
  if (!processes.is_first()) return;
  receiver_ = std::thread([&processes, add, steps, this] {
    try {
      processes.receive_metrics(steps, [&](const std::string& text) { add(metrics_from(text)); });
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

MetricsWay::~MetricsWay() {
  if (receiver_.joinable()) receiver_.join();
}

void MetricsWay::finish() {
  if (receiver_.joinable()) receiver_.join();
  if (failure_) std::rethrow_exception(failure_);
}

void gather_times(RunProcesses& processes, RunRecord& record) {
  if (processes.are_several()) {
    const Json own = {{"operators", record.operator_time_s}, {"kinds", record.kind_time_s}};
    record.operator_time_s.clear();
    record.kind_time_s.clear();
    for (const std::string& text : processes.gather(own.dump())) {
      const Json times = Json::parse(text);
      for (const auto& [name, seconds] : times.at("operators").items())
        record.operator_time_s[name] += seconds.get<double>();
      for (const auto& [name, seconds] : times.at("kinds").items())
        record.kind_time_s[name] += seconds.get<double>();
    }
  }
  // Times of a part would stand beside predictions of the whole.
  if (record.kind_time_s.contains("")) record.kind_time_s.clear();
}

std::vector<std::vector<Stamp>> gather_stamps(RunProcesses& processes,
                                              const std::vector<Device*>& devices) {
  std::vector<std::vector<Stamp>> stamps(devices.size());
  Json own = Json::array();
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank] == nullptr) continue;
    const auto of_rank = devices[rank]->stamps();
    stamps[rank].assign(of_rank.begin(), of_rank.end());
    if (processes.are_several()) own.push_back(stamps_json(rank, stamps[rank]));
  }
  if (!processes.are_several()) return stamps;
  for (const std::string& text : processes.gather(own.dump()))
    for (const Json& told : Json::parse(text)) {
      std::vector<Stamp>& of_rank = stamps[told.at("rank").get<std::size_t>()];
      of_rank.clear();
      for (const Json& stamp : told.at("stamps")) of_rank.push_back(stamp_from(stamp));
    }
  return stamps;
}

std::vector<IssueHash> gather_hashes(RunProcesses& processes, std::vector<IssueHash> hashes) {
  if (!processes.are_several()) return hashes;
  Json own = Json::array();
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (!hashes[rank].per_queue.empty())
      own.push_back(
          {{"rank", rank}, {"queues", hashes[rank].per_queue}, {"edges", hashes[rank].edges}});
  for (const std::string& text : processes.gather(own.dump()))
    for (const Json& entry : Json::parse(text))
      hashes[entry.at("rank").get<std::size_t>()] = {
          entry.at("queues").get<std::vector<std::uint64_t>>(),
          entry.at("edges").get<std::uint64_t>()};
  return hashes;
}

std::vector<std::vector<std::int64_t>> gather_loaded_bytes(RunProcesses& processes,
                                                           const TrainingHost& host,
                                                           std::size_t ranks, std::int64_t steps) {
  Json own = Json::array();
  for (const auto& [rank, bytes] : host.loaded_bytes()) own.push_back({rank.value, bytes});
  std::vector<std::vector<std::int64_t>> loaded(static_cast<std::size_t>(steps),
                                                std::vector<std::int64_t>(ranks));
  for (const std::string& text : processes.gather(own.dump()))
    for (const Json& told : Json::parse(text)) {
      const auto rank = told.at(0).get<std::size_t>();
      for (std::size_t step = 0; step < told.at(1).size(); ++step)
        loaded.at(step).at(rank) = told.at(1).at(step).get<std::int64_t>();
    }
  return loaded;
}

std::string with_loaded_bytes(const std::string& lines,
                              const std::vector<std::vector<std::int64_t>>& loaded) {
  std::istringstream in(lines);
  std::string text;
  std::size_t step = 0;
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line);
    if (step < loaded.size()) json["loaded_bytes"] = loaded[step++];
    text += json.dump() + "\n";
  }
  return text;
}

}  // namespace sextant
