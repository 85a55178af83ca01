// Sizes by factors of four; lines by the fit that imported measurements have.
#include "experiments/link_measurement.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/graphs/primitives.h"
#include "experiments/operator_call.h"
#include "simulator/cluster_files/line_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

// How each is named in a cluster file, and how many dependent steps it has.
struct MeasuredPrimitive {
  Primitive primitive;
  std::string_view algorithm;
  double (*steps)(double ranks);
};

constexpr std::array<MeasuredPrimitive, 7> kMeasured = {{
    {Primitive::kAllReduce, "ring", [](double n) { return 2 * (n - 1); }},
    {Primitive::kAllGather, "ring", [](double n) { return n - 1; }},
    {Primitive::kReduceScatter, "ring", [](double n) { return n - 1; }},
    {Primitive::kBroadcast, "ring", [](double n) { return n - 1; }},
    {Primitive::kAllToAll, "pairwise", [](double n) { return n - 1; }},
    {Primitive::kShift, "pairwise", [](double) { return 1.0; }},
    {Primitive::kTransfer, "pairwise", [](double) { return 1.0; }},
}};

constexpr Bytes kCompanyBytes{std::int64_t{64} << 20};
constexpr int kMostLines = 3;
// All sizes were measured alike, so that a line more is worth little gain.
constexpr double kShareOfError = 0.95;

// For small sizes first: a line's place, not what NCCL ran.
std::string_view protocol_of(std::size_t line, std::size_t lines) {
  constexpr std::array<std::string_view, kMostLines> kProtocols = {"ll", "ll128", "simple"};
  return lines == 2 && line == 0 ? kProtocols[0] : kProtocols[kMostLines - lines + line];
}

void measure_sizes(LinkTimer& timer, const MeasuredPrimitive& measured, const LinkSetting& setting,
                   const LinkMeasurementOptions& options, LinkMeasurement& made) {
  for (Bytes bytes = options.least; bytes <= options.most; bytes = bytes * 4)
    made.points.push_back(
        {measured.primitive, setting, bytes, timer.time(measured.primitive, bytes, setting)});
}

// What training steps consist of: a product, a norm, attention and, since communication is mostly
// beside backward, its gradient; in bf16.
std::vector<std::unique_ptr<OperatorCall>> company_calls() {
  const auto type = [](std::vector<std::int64_t> extents) {
    return TensorType{.shape = Shape(std::move(extents)), .dtype = DType::kBF16};
  };
  const TensorType rows = type({16384, 1024}), weight = type({1024}), q = type({8, 1024, 16, 64});
  std::vector<std::unique_ptr<OperatorCall>> calls;
  const auto add = [&calls](const char* kind, const std::vector<TensorType>& inputs,
                            const Attributes& attributes) {
    calls.push_back(std::make_unique<OperatorCall>(kind, inputs, attributes));
  };
  add("matmul", {rows, type({1024, 4096})}, {});
  add("layer_norm", {rows, weight, weight}, {{"epsilon", 1e-5}});
  add("attention", {q, q, q}, {});
  const auto attention = builtin_operators().get("attention").infer(std::vector{q, q, q}, {});
  add("attention_grad", {q, q, q, attention[0], attention[1], attention[0]}, {});
  return calls;
}

std::vector<TimedSize> sizes_of(const LinkMeasurement& measured, Primitive primitive,
                                const LinkSetting& setting) {
  std::vector<TimedSize> sizes;
  for (const LinkPoint& point : measured.points)
    if (point.primitive == primitive && point.setting == setting)
      sizes.push_back({static_cast<double>(point.global_bytes.value), point.seconds});
  return sizes;
}

struct FittedWay {
  const MeasuredPrimitive* measured = nullptr;
  LineFit fit;

  double rate(std::size_t line, double ranks) const {
    return link_bytes_per_tensor_byte(measured->primitive, ranks) / fit.lines[line].per_byte;
  }
};

}  // namespace

double link_bytes_per_tensor_byte(Primitive primitive, double ranks) {
  switch (primitive) {
    case Primitive::kAllReduce:
      return 2 * (ranks - 1) / ranks;
    case Primitive::kAllGather:
    case Primitive::kReduceScatter:
      return (ranks - 1) / ranks;
    case Primitive::kAllToAll:
      return (ranks - 1) / (ranks * ranks);  // of one member
    case Primitive::kBroadcast:
    case Primitive::kTransfer:
      return 1;
    case Primitive::kShift:
      return 1 / ranks;
  }
  return 1;
}

LinkMeasurement measure_links(LinkTimer& timer, const LinkMeasurementOptions& options) {
  require(timer.ranks() > 1, ErrorCode::kUsage, "{} rank: nothing is sent", timer.ranks());
  LinkMeasurement made;
  for (const MeasuredPrimitive& measured : kMeasured) {
    options.say(fmt::format("{} by size", to_string(measured.primitive)));
    const LinkSetting usual = timer.usual(measured.primitive);
    measure_sizes(timer, measured, usual, options, made);
    for (const LinkSetting& setting : options.settings)
      if (setting != usual) measure_sizes(timer, measured, setting, options, made);
  }
  options.say("computation beside communication");
  for (const auto& call : company_calls())
    for (const MeasuredPrimitive& measured : kMeasured)
      if (const auto timing =
              timer.beside(measured.primitive, kCompanyBytes, std::span(&call->context(), 1)))
        made.companies.push_back(
            {measured.primitive, call->context().actor->kind, kCompanyBytes, *timing});
  return made;
}

FittedLink fit_link(const NetworkLink& base, const LinkTimer& timer,
                    const LinkMeasurement& measured, const std::string& source) {
  const auto sourced = [&source](double value, std::string_view more = "") {
    return Sourced{value, Provenance::kMeasured, source + std::string(more)};
  };
  const auto ranks = static_cast<double>(timer.ranks());
  FittedLink made{.link = base, .worst = 0};
  std::vector<FittedWay> ways;
  double best = 0;
  for (const MeasuredPrimitive& one : kMeasured) {
    const auto sizes = sizes_of(measured, one.primitive, timer.usual(one.primitive));
    require(sizes.size() >= 2, ErrorCode::kInternal, "{} has no two sizes",
            to_string(one.primitive));
    ways.push_back({&one, fit_lines(sizes, kMostLines, kShareOfError)});
    made.worst = std::max(made.worst, ways.back().fit.worst);
    require(ways.back().fit.lines.back().per_byte > 0, ErrorCode::kDevice,
            "{} of {} takes no longer than of {}: measure again", to_string(one.primitive),
            to_text(Bytes(static_cast<std::int64_t>(sizes.back().bytes))),
            to_text(Bytes(static_cast<std::int64_t>(sizes.front().bytes))));
    best = std::max(best, ways.back().rate(ways.back().fit.lines.size() - 1, ranks));
  }
  NetworkLink& link = made.link;
  link.bandwidth = sourced(best, ": the fastest primitive, large");
  link.latency = sourced(ways.back().fit.lines.front().fixed, ": a small transfer");
  link.efficiency =
      sourced(ways.front().rate(ways.front().fit.lines.size() - 1, ranks) / best, ": all_reduce");
  link.algorithms.clear();
  for (const FittedWay& way : ways) {
    const std::size_t lines = way.fit.lines.size();
    for (std::size_t i = 0; i < lines; ++i) {
      const TimeLine& line = way.fit.lines[i];
      link.algorithms.push_back(
          {.name = std::string(way.measured->algorithm),
           .protocol = std::string(protocol_of(i, lines)),
           .base_latency = sourced(line.fixed / 2, ": half of the fixed time"),
           .step_latency = sourced(line.fixed / 2 / way.measured->steps(ranks),
                                   ": the other half, shared by the steps"),
           .efficiency = sourced(std::min(way.rate(i, ranks) / best, 1.0)),
           .primitive = std::string(to_string(way.measured->primitive))});
    }
  }
  return made;
}

void set_company(const std::vector<LinkCompany>& companies, const std::string& source,
                 DeviceKind& device) {
  if (companies.empty()) return;
  double compute = 0, communication = 0;
  for (const auto& company : companies) {
    const BesideTiming& timing = company.timing;
    compute += std::min(timing.kernel_alone_s / timing.kernel_beside_s, 1.0);
    communication += std::min(timing.link_alone_s / timing.link_beside_s, 1.0);
  }
  const auto count = static_cast<double>(companies.size());
  const auto mean = [&](double sum) {
    return Sourced{sum / count, Provenance::kMeasured,
                   fmt::format("{}: mean of {} pairs of a kernel and a primitive", source, count)};
  };
  device.compute_beside_communication = mean(compute);
  device.communication_beside_compute = mean(communication);
}

}  // namespace sextant
