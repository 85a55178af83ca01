// The numbers of the built-in devices, each with its source text.
#include "simulator/clusters/builtin_devices.h"

#include "core/graphs/fused_kinds.h"
#include "core/graphs/kernel_names.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace sextant {

namespace {

// What data sheets do not say, alike for the devices here. Their memory is what CUDA reports where
// that is known, as the refusals of programs that ran out of it print it (the least of several
// reports: 79.10 GiB of an H100 and 79.15 of an A100 "80GB", 39.39 of one of 40; one H200 of ours
// was asked): data sheets round.
DeviceKind with_assumed_overheads(std::string name, std::int64_t memory) {
  DeviceKind device;
  device.name = std::move(name);
  device.memory = Bytes(memory);
  device.matmul_efficiency = assumed(0.80, "large bf16 matmuls of cuBLASLt, no measurement here");
  device.memory_efficiency = assumed(0.85, "large copies, no measurement here");
  device.launch_overhead = assumed(4 * kMicro, "one asynchronous launch on the host");
  device.kernel_overhead = assumed(2 * kMicro, "start and drain of one kernel");
  device.matmul_tile = assumed(128, "edge of a common cuBLAS output tile");
  device.fused = fused_kind_names();
  return device;
}

// Multiprocessors by GHz of the highest clock.
constexpr double kH200Clocks = 132 * 1.98;

// Of the peak of products of 8-bit operands, on an H200.
constexpr double kScaledEfficiency = 0.69;

// What a process of ours holds on a GPU beside its arena.
void set_library_memory(DeviceKind& device, std::int64_t workspace) {
  constexpr auto kUnit = static_cast<double>(kMebibyte);
  device.library_memory.context =
      assumed(500 * kUnit, "CUDA context and loaded kernels of cuBLAS, cuDNN and NCCL");
  device.library_memory.communicator =
      assumed(256 * kUnit, "NCCL buffers of the channels of one communicator");
  device.library_memory.workspace =
      assumed(static_cast<double>(workspace) * kUnit, "workspace that cuBLAS recommends");
}

// What `device` can do in place of an H200, which our kernels were measured on.
using Scale = std::function<Sourced(double on_h200, double factor)>;

Scale measured_on_h200() {
  return [](double value, double) {
    return Sourced{value, Provenance::kMeasured,
                   "launches within steps of seven decoders on one H200, driver 580.159"};
  };
}

Scale scaled_from_h200() {
  return [](double value, double factor) {
    return assumed(value * factor, "as on H200, by units and clock; no measurement here");
  };
}

// Attention. A pair of a query and a key costs an exponential, of which every multiprocessor of
// these generations makes 16 a clock (CUDA C++ Programming Guide, arithmetic
// instructions): 3.33e-13 s on an H200 are 0.7 of that at its highest clock, which its power limit
// does not let it keep. `exponentials`: those of an H200 over those of the device. f32 and f64 have
// no tensor cores here.
void add_attention_rates(DeviceKind& device, const Scale& scale, double exponentials) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    device.rates.push_back({.kernel = "attention",
                            .dtype = dtype,
                            .flops_efficiency = scale(0.95, 1),
                            .overhead = scale(5 * kMicro, 1),
                            .lost_extent = scale(512, 1),
                            .pair_time = scale(3.33e-13, exponentials)});
    device.rates.push_back({.kernel = "attention_grad",
                            .dtype = dtype,
                            .flops_efficiency = scale(0.73, 1),
                            .overhead = scale(10 * kMicro, 1),
                            .lost_extent = scale(960, 1),
                            .pair_time = scale(8.0e-13, exponentials)});
  }
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    device.rates.push_back(
        {.kernel = "attention", .dtype = dtype, .flops_efficiency = scale(0.076, 1)});
    device.rates.push_back(
        {.kernel = "attention_grad", .dtype = dtype, .flops_efficiency = scale(0.072, 1)});
  }
}

// Memory-bound kernels one by one, and the start of products. Batch norms and places of experts are
// those of ResNet-50 and of a Mixtral of two layers, dispatch to experts that of one of four. Casts
// and updates of all tensors of a layer are one launch. Rows that do not begin at multiples of 16
// bytes slow tensor cores down, which f32 and f64 do not have. `has_bytes`: else the device's own
// efficiency of memory stands for all, and that of its products for convolutions in f32.
void add_kernel_rates(DeviceKind& device, const Scale& scale, bool has_bytes = true) {
  const auto rate = [&](std::string kernel, double bytes, double microseconds, double lost = 0) {
    KernelRate made{.kernel = std::move(kernel)};
    if (has_bytes && bytes > 0) made.bytes_efficiency = scale(bytes, 1);
    if (microseconds > 0) made.overhead = scale(microseconds * kMicro, 1);
    if (lost > 0) made.lost_extent = scale(lost, 1);
    device.rates.push_back(std::move(made));
  };
  rate("cast", 0.86, 0.2);
  rate("channel_grad", 0.60, 30);
  rate("channel_sum", 0.64, 13);
  rate("combination", 0.137, 3);
  rate("conv", 0, 4);
  device.rates.back().flops_efficiency = scale(0.65, 1);
  device.rates.push_back(
      {.kernel = "conv",
       .dtype = DType::kF32,
       .flops_efficiency =
           has_bytes ? scale(0.55, 1)
                     : assumed(device.matmul_efficiency.value, "as products; no measurement here"),
       .overhead = scale(4 * kMicro, 1)});
  rate("copy", 0.86, 3);
  rate("embedding", 0.72, 4);
  rate("matmul", 0, 4);
  rate("normalization", 0.95, 4.5, 190);
  rate("normalization_sum", 0.95, 12, 190);
  rate("optimizer", 0.855, 0.2);
  rate("pooling", 0.25, 4);
  rate("reduction", 0.88, 4);
  rate("routing", 0.163, 3);
  for (const DType dtype : {DType::kBF16, DType::kF16})
    device.rates.push_back({.kernel = std::string(kLooseProducts),
                            .dtype = dtype,
                            .flops_efficiency = scale(0.10, 1)});
}

// Of products of 8-bit operands, of generations that have them.
void add_scaled_rate(DeviceKind& device, const Sourced& peak, const Sourced& efficiency) {
  device.peaks.push_back({DType::kE4M3, peak});
  device.rates.push_back({.kernel = std::string(kScaledProducts),
                          .flops_efficiency = efficiency,
                          .overhead = assumed(4 * kMicro, "as other products")});
}

constexpr const char* kWholeEdge =
    "filling a tile and writing it: an edge each half, nothing of it beside other tiles";

// Ampere and before: the figure of H200 is of algorithms that were chosen by measurement.
void set_lost_extent_of_products(DeviceKind& device, const Sourced& lost) {
  for (KernelRate& rate : device.rates)
    if (rate.kernel == "matmul") rate.lost_extent = lost;
}

// Hopper's rates, which memory does not change: H100 and H200 are the same GH100. Products that go
// on for a second reach the power limit: 15 of them, of 1,024 to 50,304 wide, took 0.63 to 0.71 of
// the peak, tiles and waves taken out, at 683 W and 1,455 MHz; bursts of 20 reach 0.80 and more at
// 1,980 MHz, but steps are no bursts.
void set_hopper_rates(DeviceKind& device, const std::string& sheet) {
  device.matmul_efficiency = {0.75, Provenance::kCalibrated,
                              "155 products within steps of seven decoders on one H200, at its "
                              "power limit"};
  device.memory_efficiency = {0.80, Provenance::kCalibrated,
                              "median of our memory-bound kernels on one H200 (kernel_bench); "
                              "copies of 64 MiB and more reach 0.89"};
  device.launch_overhead = {4.6 * kMicro, Provenance::kMeasured,
                            "kernel_bench on one H200, driver 580.159"};
  device.peaks = {{DType::kBF16, published(989.4 * kTera, sheet + ", dense")},
                  {DType::kF16, published(989.4 * kTera, sheet + ", dense")},
                  {DType::kF32, published(67 * kTera, sheet + ", no tensor cores")},
                  {DType::kF64, published(67 * kTera, sheet + ", tensor cores")}};
}

// XLA runs a whole program: the host enqueues one launch for all of it.
DeviceKind tpu(std::string name, std::int64_t memory, std::string sheet, double peak,
               double bandwidth) {
  DeviceKind device = with_assumed_overheads(std::move(name), memory);
  device.peaks = {{DType::kBF16, published(peak, sheet)},
                  {DType::kF32, assumed(peak / 6, "bf16 products, six for one of f32")}};
  device.memory_bandwidth = published(bandwidth, std::move(sheet));
  device.matmul_efficiency = assumed(0.80, "large bf16 matmuls of XLA, no measurement here");
  device.launch_overhead = assumed(0, "one compiled program per step");
  device.kernel_overhead = assumed(1 * kMicro, "start and drain of one fusion");
  device.matmul_units = assumed(0, "not modelled");
  device.matmul_tile = assumed(0, "not modelled");
  return device;
}

}  // namespace

DeviceKind h100_sxm() {
  const std::string sheet = "NVIDIA H100 SXM5 data sheet";
  DeviceKind device = with_assumed_overheads("H100-SXM5-80GB", 80'998 * kMebibyte);
  set_hopper_rates(device, sheet);
  device.memory_bandwidth = published(3350 * kGiga, sheet);
  device.matmul_units = published(132, "streaming multiprocessors of H100 SXM5");
  set_library_memory(device, 32);
  add_kernel_rates(device, scaled_from_h200());
  add_attention_rates(device, scaled_from_h200(), 1);
  add_scaled_rate(device, published(1978.9 * kTera, sheet + ", fp8, dense"),
                  assumed(kScaledEfficiency, "as on H200, whose die it has; no measurement here"));
  return device;
}

DeviceKind h200_sxm() {
  const std::string sheet = "NVIDIA H200 SXM data sheet";
  DeviceKind device = with_assumed_overheads("H200-SXM5-141GB", 143'156 * kMebibyte);
  set_hopper_rates(device, sheet + " (1,979 TFLOP/s bf16 with sparsity)");
  device.memory_bandwidth = published(4800 * kGiga, sheet);
  device.matmul_units = published(132, "streaming multiprocessors of H200 SXM");
  set_library_memory(device, 32);
  add_kernel_rates(device, measured_on_h200());
  add_attention_rates(device, measured_on_h200(), 1);
  add_scaled_rate(device, published(1978.9 * kTera, sheet + " (3,958 TFLOP/s fp8 with sparsity)"),
                  {kScaledEfficiency, Provenance::kMeasured,
                   "products of a step of a Llama of 3.2 billion parameters, 4 x 2048 tokens: 107 "
                   "ms, tiles and "
                   "waves taken out; 0.62 for a second of one product, at the power limit"});
  return device;
}

DeviceKind gb200() {
  const std::string sheet = "NVIDIA GB200 NVL72 data sheet, a 72nd of the rack";
  DeviceKind device = with_assumed_overheads("GB200-186GB", 186 * kGigabyte);
  device.peaks = {
      {DType::kBF16, published(2500 * kTera, sheet + " (360 PFLOP/s with sparsity), dense")},
      {DType::kF16, published(2500 * kTera, sheet + " (360 PFLOP/s with sparsity), dense")},
      {DType::kF32, published(80 * kTera, sheet + " (5,760 TFLOP/s), no tensor cores")},
      {DType::kF64, published(40 * kTera, sheet + " (2,880 TFLOP/s)")}};
  device.memory_bandwidth = published(8000 * kGiga, sheet + " (576 TB/s)");
  device.matmul_efficiency = assumed(0.75, "as on H200 at its power limit; no measurement here");
  device.matmul_units = assumed(148, "streaming multiprocessors that CUDA reports for B200");
  set_library_memory(device, 32);
  add_kernel_rates(device, scaled_from_h200());
  add_attention_rates(device, scaled_from_h200(), kH200Clocks / (148 * 1.965));
  add_scaled_rate(device,
                  published(5000 * kTera, sheet + " (720 PFLOP/s fp8 with sparsity), dense"),
                  assumed(kScaledEfficiency, "as on H200; no measurement here"));
  return device;
}

DeviceKind a100_sxm_80gb() {
  const std::string sheet = "NVIDIA A100 80GB SXM data sheet";
  DeviceKind device = with_assumed_overheads("A100-SXM4-80GB", 81'049 * kMebibyte);
  device.peaks = {{DType::kBF16, published(312 * kTera, sheet + ", dense")},
                  {DType::kF16, published(312 * kTera, sheet + ", dense")},
                  {DType::kF32, published(19.5 * kTera, sheet + ", no tensor cores")},
                  {DType::kF64, published(19.5 * kTera, sheet + ", tensor cores")}};
  device.memory_bandwidth = published(2039 * kGiga, sheet);
  device.matmul_units = published(108, "streaming multiprocessors of A100");
  // One factor for all of them: rows of arXiv 2205.05198 table 5 (22B, full and selective
  // recomputation) and arXiv 2401.10241 table 4 (1F1B, 6.2B on 8 and 28.3B on 32).
  const std::string rows = "published runs r0024, r0025, r0117, r0123 (experiments/accuracy)";
  device.matmul_efficiency = calibrated(0.725, "products within steps: " + rows);
  device.memory_efficiency = calibrated(0.80, "element-wise kernels: " + rows);
  set_library_memory(device, 8);
  add_kernel_rates(device, scaled_from_h200(), false);
  set_lost_extent_of_products(device, assumed(128, kWholeEdge));
  add_attention_rates(device, scaled_from_h200(), kH200Clocks / (108 * 1.41));
  return device;
}

DeviceKind a100_sxm_40gb() {
  DeviceKind device = a100_sxm_80gb();
  device.name = "A100-SXM4-40GB";
  device.memory = Bytes(40'335 * kMebibyte);
  device.memory_bandwidth = published(1555 * kGiga, "NVIDIA A100 40GB SXM data sheet");
  return device;
}

DeviceKind v100_sxm2(std::int64_t gigabytes) {
  const std::string sheet = "NVIDIA V100 SXM2 data sheet";
  DeviceKind device = with_assumed_overheads("V100-SXM2-" + std::to_string(gigabytes) + "GB",
                                             gigabytes * kGigabyte);
  device.peaks = {{DType::kF16, published(125 * kTera, sheet + ", tensor cores")},
                  {DType::kF32, published(15.7 * kTera, sheet)},
                  {DType::kF64, published(7.8 * kTera, sheet)}};
  device.memory_bandwidth = published(900 * kGiga, sheet);
  device.matmul_units = published(80, "streaming multiprocessors of V100");
  set_library_memory(device, 8);
  add_kernel_rates(device, scaled_from_h200(), false);
  set_lost_extent_of_products(device, assumed(128, kWholeEdge));
  add_attention_rates(device, scaled_from_h200(), kH200Clocks / (80 * 1.53));
  return device;
}

DeviceKind tpu_v4() {
  return tpu("TPU-v4", std::int64_t{32} << 30, "TPU v4, ISCA 2023 (arXiv 2304.01433), table 4",
             275 * kTera, 1200 * kGiga);
}

DeviceKind tpu_v5p() {
  return tpu("TPU-v5p", std::int64_t{95} << 30, "Google Cloud documentation, TPU v5p", 459 * kTera,
             2765 * kGiga);
}

CoreShare core_share(std::int64_t ranks, std::int64_t cores) {
  if (cores == 0 || cores >= ranks) return {};
  return {static_cast<double>(cores) / static_cast<double>(ranks),
          ", " + std::to_string(cores) + " cores for " + std::to_string(ranks) + " ranks"};
}

// What is available changes by the second. Rounding lets two calls mostly say the same, and the
// text has no number that would differ.
MemoryShare memory_share(const MachineMemory& machine, std::int64_t ranks) {
  const auto share = static_cast<std::uint64_t>(machine.available.value / ranks);
  const std::uint64_t step = std::max<std::uint64_t>(std::bit_floor(share) / 16, 1);
  const std::string limited =
      machine.limit.empty() ? "" : " under the limit of control group " + machine.limit;
  return {Bytes(static_cast<std::int64_t>(std::max<std::uint64_t>(share / step * step, 1))),
          fmt::format("what this machine had available{}, shared by {} rank{}; memory=SIZE says "
                      "otherwise",
                      limited, ranks, ranks == 1 ? "" : "s")};
}

DeviceKind cpu_core(const CoreShare& core, const MemoryShare& memory) {
  DeviceKind device;
  device.name = "cpu-core";
  device.memory = memory.bytes;
  device.memory_source = memory.source;
  const std::string peak = "one core at 3 GHz with two 8-wide f32 multiply-adds per cycle";
  device.peaks = {
      {DType::kF32, assumed(96 * kGiga * core.share, peak + core.text)},
      {DType::kF64, assumed(48 * kGiga * core.share, "half of f32" + core.text)},
      {DType::kE4M3, assumed(64 * kGiga * core.share,
                             "f32 products of operands that are widened before" + core.text)}};
  device.memory_bandwidth =
      assumed(15 * kGiga * core.share, "one core streaming through caches and memory" + core.text);
  device.matmul_efficiency = assumed(0.60, "BLAS on small f32 matrices");
  device.memory_efficiency = assumed(0.50, "element-wise loops, some with exp and tanh in them");
  device.launch_overhead = assumed(1 * kMicro, "one entry of a queue");
  device.kernel_overhead = assumed(1 * kMicro, "one call of a kernel");
  device.matmul_tile = assumed(0, "not modelled");
  device.matmul_units = assumed(0, "not modelled");
  return device;
}

}  // namespace sextant
