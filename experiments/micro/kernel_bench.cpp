// The kernels of a training step against what the card can do at best, both measured in this run:
// which operator to make faster. Definitions: METRICS.md.
//
// `kernel_bench [--json FILE] [MODEL:BATCHxSEQUENCE[:LAYERS] ...]`, MODEL as everywhere; without
// models GPT-2 medium and xl with a vocabulary of 50,304 and two layers of Llama 2 7B.
#include "backends/cuda/machine/cuda_bench.h"
#include "compiler/expand/expand.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/base/check.h"
#include "experiments/step_text.h"
#include "experiments/step_timing.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <string_view>

namespace {

using namespace sextant;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kPaddedVocab = 50304;  // of both peers

struct Workload {
  std::string name;
  ModelConfig model;
  std::int64_t batch = 1, sequence = 1;
};

struct Ceilings {
  double bytes_per_second = 0;  // read and written, of a large copy
  double flops_per_second = 0;  // of the fastest large bf16 product
  Json json;
};

ModelConfig padded(std::string_view name) {
  ModelConfig model = load_model(name);
  model.vocab = kPaddedVocab;
  return model;
}

ModelConfig shortened(ModelConfig model, std::int64_t layers) {
  if (layers > 0) model.layers = layers;
  return model;
}

std::vector<Workload> default_workloads() {
  return {{"gpt2-medium 16x1024", padded("gpt2-medium"), 16, 1024},
          {"gpt2-xl 8x1024", padded("gpt2-xl"), 8, 1024},
          {"llama2-7b 2x2048, 2 layers", shortened(load_model("llama2-7b"), 2), 2, 2048}};
}

Workload workload_of(std::string_view text) {
  const StepText step = parse_step(text);
  return {.name = std::string(text),
          .model = shortened(load_model(step.model), step.layers),
          .batch = step.batch,
          .sequence = step.sequence};
}

Ceilings measure_ceilings(CudaBench& bench) {
  Ceilings ceilings;
  const Bytes size(std::int64_t{1} << 30);
  const KernelTiming copy = bench.copy(size);
  ceilings.bytes_per_second = 2 * static_cast<double>(size.value) / copy.median_s;
  ceilings.json["copy_1gib_bytes_per_second"] = ceilings.bytes_per_second;
  fmt::print("copy of 1 GiB: {} read and written\n", bandwidth_to_text(ceilings.bytes_per_second));
  // Two cubes, and one like those of GPT-2: the card lowers its clock in the largest.
  const std::int64_t sizes[][3] = {{8192, 8192, 8192}, {4096, 4096, 4096}, {16384, 1024, 4096}};
  for (const auto& [m, n, k] : sizes) {
    const double rate =
        2.0 * static_cast<double>(m * n * k) / bench.matmul(m, n, k, DType::kBF16).median_s;
    ceilings.flops_per_second = std::max(ceilings.flops_per_second, rate);
    ceilings.json[fmt::format("matmul_bf16_{}x{}x{}_flops_per_second", m, n, k)] = rate;
    fmt::print("bf16 product of {}x{}x{}: {}\n", m, n, k, flops_rate_to_text(rate));
  }
  ceilings.json["launch_s"] = bench.launch_s();
  ceilings.json["kernel_overhead_s"] = bench.kernel_overhead_s();
  fmt::print("launch {:.2f} us on the host, {:.2f} us from kernel to kernel\n\n",
             1e6 * ceilings.json["launch_s"].get<double>(),
             1e6 * ceilings.json["kernel_overhead_s"].get<double>());
  return ceilings;
}

PhysicalGraph compile_workload(const Workload& workload) {
  const Cluster cluster = load_cluster("dgx-h100:nodes=1");
  const auto cost = make_roofline(cluster, DType::kBF16);
  const auto network = make_alpha_beta(cluster);
  const Strategy strategy = parse_strategy(fmt::format("dp=1 micro_batch={}", workload.batch));
  const LogicalGraph training = make_training_graph(
      build_graph(workload.model, workload.batch, workload.sequence, DType::kBF16), strategy);
  return compile(training, strategy, workload.batch, *cost, *network);
}

double bytes_of(const Work& work) {
  return static_cast<double>(work.read.value) + static_cast<double>(work.written.value);
}

// The time that the card needs at least: all bytes at the rate of a copy, or all FLOPs at that of
// the fastest product.
double floor_of(const Work& work, const Ceilings& ceilings) {
  return std::max(bytes_of(work) / ceilings.bytes_per_second,
                  work.flops / ceilings.flops_per_second);
}

bool is_memory_bound(const Work& work, const Ceilings& ceilings) {
  return bytes_of(work) / ceilings.bytes_per_second >= work.flops / ceilings.flops_per_second;
}

Json report(const TimedLaunch& launch, const Ceilings& ceilings) {
  Json json{{"kind", launch.kind},
            {"types", launch.types},
            {"count", launch.count},
            {"calls", launch.calls},
            {"member", launch.is_member},
            {"flops", launch.work.flops},
            {"bytes", bytes_of(launch.work)},
            {"kernel", launch.work.kernel}};
  const std::string kind = launch.kind + (launch.is_member ? " (member)" : "") +
                           (launch.calls > 1 ? fmt::format(" x{}", launch.calls) : "");
  if (!launch.timing) {
    fmt::print("{:<34} {:>5}  no kernel  {}\n", kind, launch.count, launch.types);
    return json;
  }
  const double seconds = launch.timing->median_s, share = floor_of(launch.work, ceilings) / seconds;
  const bool memory = is_memory_bound(launch.work, ceilings);
  const std::string rate = memory
                               ? fmt::format("{:.0f} GB/s", bytes_of(launch.work) / seconds / 1e9)
                               : fmt::format("{:.0f} TFLOP/s", launch.work.flops / seconds / 1e12);
  fmt::print("{:<34} {:>5} {:>10.1f} {:>9.3f} {:>13} {:>6.1f}  {}\n", kind, launch.count,
             1e6 * seconds, 1e3 * launch.seconds_per_step(), rate, 100 * share, launch.types);
  json["median_s"] = seconds;
  json["low_quartile_s"] = launch.timing->low_quartile_s;
  json["high_quartile_s"] = launch.timing->high_quartile_s;
  json["bound"] = memory ? "memory" : "compute";
  json["share"] = share;
  return json;
}

Json report(const Workload& workload, std::vector<TimedLaunch> launches, const Ceilings& ceilings) {
  std::stable_sort(launches.begin(), launches.end(), [](const auto& a, const auto& b) {
    return a.seconds_per_step() > b.seconds_per_step();
  });
  fmt::print("{}\n{:<34} {:>5} {:>10} {:>9} {:>13} {:>6}  {}\n", workload.name, "kind", "count",
             "us", "ms/step", "rate", "% max", "types");
  Json json{{"model", workload.name},
            {"batch", workload.batch},
            {"sequence", workload.sequence},
            {"launches", Json::array()}};
  double total = 0, floor = 0;
  std::map<std::string, std::pair<double, double>> by_kind;  // seconds, floor
  for (const TimedLaunch& launch : launches) {
    json["launches"].push_back(report(launch, ceilings));
    const double least = floor_of(launch.work, ceilings) * static_cast<double>(launch.count);
    total += launch.seconds_per_step();
    floor += launch.timing ? least : 0;
    by_kind[launch.kind].first += launch.seconds_per_step();
    by_kind[launch.kind].second += least;
  }
  std::vector<std::pair<std::string, std::pair<double, double>>> kinds(by_kind.begin(),
                                                                       by_kind.end());
  std::sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return a.second.first - a.second.second > b.second.first - b.second.second;
  });
  fmt::print("\nwhat a faster kernel could gain, at most (ms per step):\n");
  for (const auto& [kind, seconds] : kinds)
    fmt::print("{:<34} {:>8.3f} of {:>8.3f}\n", kind, 1e3 * (seconds.first - seconds.second),
               1e3 * seconds.first);
  fmt::print("sum of kernels: {:.2f} ms, floor {:.2f} ms\n\n", 1e3 * total, 1e3 * floor);
  std::fflush(stdout);
  json["total_s"] = total;
  json["floor_s"] = floor;
  return json;
}

void run(const std::vector<std::string>& arguments) {
  std::string path;
  std::vector<Workload> workloads;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--json" && i + 1 < arguments.size())
      path = arguments[++i];
    else
      workloads.push_back(workload_of(arguments[i]));
  }
  if (workloads.empty()) workloads = default_workloads();
  CudaOptions options;
  options.tune_matmuls = true;
  CudaBench bench(options);
  const CudaCard card = bench.card();
  fmt::print("{}, driver {}, CUDA {}\n", card.name, card.driver, card.runtime);
  Json json{{"schema", "sextant.kernel_bench/1"},
            {"card", card.name},
            {"driver", card.driver},
            {"cuda", card.runtime}};
  const Ceilings ceilings = measure_ceilings(bench);
  json["ceilings"] = ceilings.json;
  json["workloads"] = Json::array();
  for (const Workload& workload : workloads) {
    bench.set_id_limit(workload.model.vocab);
    json["workloads"].push_back(
        report(workload, time_step(compile_workload(workload), bench), ceilings));
    // What a killed run has measured so far is not lost.
    if (!path.empty()) std::ofstream(path) << json.dump(1) << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (num_cuda_devices() == 0) {
    fmt::print("skipped: no GPU ({})\n", why_no_cuda_device());
    return 0;
  }
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_bench: {}\n", error.what());
    return 1;
  }
}
