// Reads and writes the devices of cluster files.
#include "simulator/cluster_files/device_json.h"

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/graphs/fused_kinds.h"
#include "core/text/quantity_text.h"
#include "simulator/cluster_files/sourced_json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

namespace {

using Json = nlohmann::ordered_json;

Bytes read_memory(const JsonCursor& cursor) {
  Bytes memory;
  try {
    memory = cursor.is_text() ? parse_bytes(cursor.text()) : Bytes(cursor.integer());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUsage) cursor.refuse(error.what());
    throw;
  }
  const std::string fault =
      fault_of(static_cast<double>(memory.value), ValueRange::kPositive, QuantityKind::kBytes);
  if (!fault.empty()) cursor.refuse(fmt::format("{} B is {}", memory.value, fault));
  return memory;
}

PeakRate read_peak(const JsonCursor& cursor) {
  cursor.allow_only({"dtype", "flops_per_second"});
  return {read_dtype(cursor.at("dtype")),
          read_number(cursor.at("flops_per_second"), ValueRange::kPositive,
                      QuantityKind::kFlopsPerSecond)};
}

std::vector<PeakRate> read_peaks(const JsonCursor& cursor) {
  std::vector<PeakRate> peaks;
  for (const JsonCursor& element : cursor.elements()) {
    peaks.push_back(read_peak(element));
    for (std::size_t i = 0; i + 1 < peaks.size(); ++i)
      if (peaks[i].dtype == peaks.back().dtype)
        element.refuse(fmt::format("{} has a peak already", to_string(peaks[i].dtype)));
  }
  if (peaks.empty()) cursor.refuse("no peak rate: wanted at least one dtype");
  return peaks;
}

std::vector<std::string> read_fused(const JsonCursor& cursor) {
  std::vector<std::string> kinds;
  for (const JsonCursor& element : cursor.elements()) {
    const std::string& kind = element.text();
    if (find_fused_kind(kind) == nullptr)
      element.refuse(fmt::format("'{}' is no fused kind{}; known: {}", kind,
                                 did_you_mean(kind, fused_kind_names()),
                                 comma_list(fused_kind_names())));
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
      element.refuse(fmt::format("'{}' is listed twice", kind));
    kinds.push_back(kind);
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

std::vector<KernelRate> read_rates(const JsonCursor& cursor) {
  std::vector<std::string_view> known = {"kernel", "dtype"};
  for (const auto& field : kRateFields) known.push_back(field.key);
  std::vector<KernelRate> rates;
  for (const JsonCursor& element : cursor.elements()) {
    element.allow_only(known);
    KernelRate& rate = rates.emplace_back();
    rate.kernel = read_name(element.at("kernel"));
    if (const auto dtype = element.find("dtype")) rate.dtype = read_dtype(*dtype);
    read_fields(element, rate, kRateFields);
  }
  return rates;
}

MeasuredKernel read_measured_kernel(const JsonCursor& cursor) {
  cursor.allow_only({"kernel", "flops", "bytes", "seconds"});
  return {.kernel = read_name(cursor.at("kernel")),
          .flops = cursor.at("flops").real(),
          .bytes = Bytes(cursor.at("bytes").integer()),
          .seconds = cursor.at("seconds").real()};
}

MeasuredKernels read_measured(const JsonCursor& cursor) {
  cursor.allow_only({"dtype", "provenance", "source", "kernels", "expected_error"});
  MeasuredKernels measured;
  measured.dtype = read_dtype(cursor.at("dtype"));
  measured.provenance = read_provenance(cursor.at("provenance"));
  measured.source = cursor.at("source").text();
  for (const JsonCursor& element : cursor.at("kernels").elements())
    measured.kernels.push_back(read_measured_kernel(element));
  if (const auto error = cursor.find("expected_error")) {
    measured.expected_error = error->real();
    if (measured.expected_error < 0 || measured.expected_error > 1)
      error->refuse(fmt::format("{} is no share from 0 to 1", measured.expected_error));
  }
  return measured;
}

LibraryMemory read_library_memory(const JsonCursor& cursor) {
  std::vector<std::string_view> known;
  for (const auto& field : kLibraryFields) known.push_back(field.key);
  cursor.allow_only(known);
  LibraryMemory memory;
  read_fields(cursor, memory, kLibraryFields);
  return memory;
}

Json to_json(const LibraryMemory& memory) {
  Json json;
  for (const auto& field : kLibraryFields) json[field.key] = sextant::to_json(memory.*field.member);
  return json;
}

// What is zero and says nothing is left out.
Json to_json(const KernelRate& rate) {
  Json json = {{"kernel", rate.kernel}};
  if (rate.dtype) json["dtype"] = to_string(*rate.dtype);
  for (const auto& field : kRateFields)
    if (const Sourced& number = rate.*field.member; number.value != 0 || !number.source.empty())
      json[field.key] = sextant::to_json(number);
  return json;
}

Json to_json(const MeasuredKernels& measured) {
  Json json = {{"dtype", to_string(measured.dtype)},
               {"provenance", to_string(measured.provenance)},
               {"source", measured.source}};
  if (measured.expected_error != 0) json["expected_error"] = measured.expected_error;
  json["kernels"] = Json::array();
  for (const MeasuredKernel& kernel : measured.kernels)
    json["kernels"].push_back({{"kernel", kernel.kernel},
                               {"flops", kernel.flops},
                               {"bytes", kernel.bytes.value},
                               {"seconds", kernel.seconds}});
  return json;
}

}  // namespace

DeviceKind read_device(const JsonCursor& cursor) {
  std::vector<std::string_view> known = {"name",  "memory",   "memory_source",  "peaks",
                                         "fused", "measured", "library_memory", "rates"};
  for (const auto& field : kDeviceFields) known.push_back(field.key);
  cursor.allow_only(known);
  DeviceKind device;
  device.name = read_name(cursor.at("name"));
  device.memory = read_memory(cursor.at("memory"));
  if (const auto source = cursor.find("memory_source")) device.memory_source = source->text();
  device.peaks = read_peaks(cursor.at("peaks"));
  read_fields(cursor, device, kDeviceFields);
  if (const auto memory = cursor.find("library_memory"))
    device.library_memory = read_library_memory(*memory);
  if (const auto fused = cursor.find("fused")) device.fused = read_fused(*fused);
  if (const auto rates = cursor.find("rates")) device.rates = read_rates(*rates);
  if (const auto measured = cursor.find("measured")) device.measured = read_measured(*measured);
  return device;
}

Json to_json(const DeviceKind& device) {
  Json json = {{"name", device.name}, {"memory", device.memory.value}};
  if (!device.memory_source.empty()) json["memory_source"] = device.memory_source;
  json["peaks"] = Json::array();
  for (const PeakRate& peak : device.peaks)
    json["peaks"].push_back(
        {{"dtype", to_string(peak.dtype)}, {"flops_per_second", to_json(peak.flops_per_second)}});
  for (const auto& field : kDeviceFields) json[field.key] = to_json(device.*field.member);
  json["library_memory"] = to_json(device.library_memory);
  if (!device.fused.empty()) json["fused"] = device.fused;
  for (const KernelRate& rate : device.rates) json["rates"].push_back(to_json(rate));
  if (device.measured) json["measured"] = to_json(*device.measured);
  return json;
}

}  // namespace sextant
