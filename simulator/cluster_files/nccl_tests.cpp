// nccl-tests, JSON of version 1 and 2: one collective over one group, by size.
#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "simulator/cluster_files/nccl_measurement.h"

#include <fmt/core.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace sextant {

namespace {

const NcclTest& test_of(const JsonCursor& args) {
  const auto words = args.elements();
  if (words.empty()) args.refuse("is empty: wanted the program's name first");
  const std::string& path = words.front().text();
  if (const NcclTest* const test = nccl_test_of(path)) return *test;
  words.front().refuse(fmt::format("'{}' is none of {}", path.substr(path.find_last_of('/') + 1),
                                   nccl_test_names()));
}

// One entry per process, each with nthreads x ngpus ranks.
void read_group(const JsonCursor& config, NcclMeasurement& measured) {
  const JsonCursor devices = config.at("devices");
  const auto processes = devices.elements();
  if (processes.empty()) devices.refuse("is empty");
  std::set<std::string> hosts;
  for (const JsonCursor& process : processes) hosts.insert(process.at("hostname").text());
  const std::int64_t each =
      config.at("nthreads").integer_between(1, 4096) * config.at("ngpus").integer_between(1, 4096);
  const auto count = static_cast<std::int64_t>(processes.size());
  if (each * count > (std::int64_t{1} << 20)) devices.refuse("more than 2^20 ranks");
  measured.ranks = each * count;
  measured.hosts = static_cast<std::int64_t>(hosts.size());
  measured.device_name = processes.front().at("device_info").text();
}

double positive(const JsonCursor& cursor) {
  const double value = cursor.real();
  if (!(value > 0) || !std::isfinite(value))
    cursor.refuse(fmt::format("found {}, wanted a number above zero", value));
  return value;
}

// In microseconds, out of place where both were measured. Sizes of zero say nothing of bandwidth.
std::optional<TimedSize> timed_size(const JsonCursor& row, double factor) {
  const double bytes = static_cast<double>(row.at("size").integer_between(0, INT64_MAX));
  if (bytes == 0) return std::nullopt;
  const auto apart = row.find_value("out_of_place");
  const JsonCursor timing = apart ? *apart : row.at("in_place");
  if (timing.contains("cpu_time"))
    timing.at("cpu_time").refuse("is the host's time (-C), wanted 'time'");
  const double microseconds = positive(timing.at("time"));
  const double bus = positive(timing.at("bus_bw")), whole = positive(timing.at("alg_bw"));
  // Printed with six digits behind the point, so small ones are rough.
  if (whole > 0.01 && std::abs(bus / whole - factor) > 0.02 * factor)
    timing.at("bus_bw").refuse(fmt::format(
        "is {:.4g} times alg_bw, wanted {:.4g} for this many ranks", bus / whole, factor));
  return TimedSize{bytes, microseconds * 1e-6};
}

std::vector<TimedSize> sizes_of(const JsonCursor& results, double factor) {
  std::vector<TimedSize> sizes;
  for (const JsonCursor& row : results.elements()) {
    const auto size = timed_size(row, factor);
    if (!size) continue;
    if (!sizes.empty() && size->bytes < sizes.back().bytes)
      row.at("size").refuse("is smaller than the one before");
    sizes.push_back(*size);
  }
  if (sizes.size() < 2 || sizes.front().bytes == sizes.back().bytes)
    results.refuse("wanted two sizes or more");
  return sizes;
}

std::string lower(std::string text) {
  for (char& letter : text)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

// "NCCL_ALGO=Ring" among the environment.
std::string setting(const JsonCursor& root, std::string_view name) {
  const auto env = root.find_value("env");
  if (!env) return "";
  for (const JsonCursor& entry : env->elements())
    if (entry.text().starts_with(fmt::format("{}=", name)))
      return lower(entry.text().substr(name.size() + 1));
  return "";
}

NcclMeasurement read(const JsonCursor& root) {
  NcclMeasurement measured;
  const std::int64_t version = root.at("version").integer();
  if (version < 1 || version > 2)
    root.at("version").refuse(fmt::format("found {}, wanted 1 or 2", version));
  measured.test = &test_of(root.at("args"));
  read_group(root.at("config"), measured);
  const auto when = root.find_value("start_time");
  finish_measurement(measured, root.at("config").place(), when ? when->text() : "");
  measured.sizes = sizes_of(root.at("results"), measured.test->factor(measured.ranks));
  measured.algorithm = setting(root, "NCCL_ALGO");
  measured.protocol = setting(root, "NCCL_PROTO");
  return measured;
}

}  // namespace

ImportedCluster import_nccl_tests(const ImportSource& source) {
  const JsonDocument document(source.text, source.file);
  return calibrate_by(read(document.root()), source);
}

}  // namespace sextant
