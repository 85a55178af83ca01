// Shares to tokens to places.

#include "simulator/costs/expert_routing.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>

namespace sextant {

namespace {

constexpr std::string_view kZipf = "zipf=";
constexpr double kMostExponent = 10;

bool parse_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) &&
         value >= 0;
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r,";
  line = line.substr(0, line.find('#'));
  const std::size_t first = line.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kSpace) + 1 - first);
}

std::vector<double> counts_of(std::string_view text, std::string_view file) {
  std::vector<double> counts;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view word = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    double value = 0;
    require(parse_number(word, value), ErrorCode::kBadInput,
            "{}: line {}: '{}' is not a number of tokens, 0 or more", file, line, word);
    counts.push_back(value);
  }
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  require(sum > 0 && std::isfinite(sum), ErrorCode::kBadInput,
          "{}: {} experts get {} tokens together, wanted a finite number above 0", file,
          counts.size(), sum);
  return counts;
}

std::vector<double> shares_of(const ExpertRouting& routing, const ExpertSizes& sizes) {
  std::vector<double> shares = routing.counts;
  require(shares.empty() || static_cast<std::int64_t>(shares.size()) == sizes.experts,
          ErrorCode::kUsage, "routing '{}' has {} experts, the model {}", routing.text,
          shares.size(), sizes.experts);
  for (std::int64_t e = static_cast<std::int64_t>(shares.size()); e < sizes.experts; ++e)
    shares.push_back(std::pow(static_cast<double>(e + 1), -routing.exponent));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  const double most = 1.0 / static_cast<double>(sizes.top_k);
  for (std::size_t e = 0; e < shares.size(); ++e)
    require(shares[e] <= most * (1 + 1e-9), ErrorCode::kUsage,
            "routing '{}': expert {} would get {:.1f} % of the choices; each token makes {} and "
            "none twice, so {:.1f} % is the most",
            routing.text, e, 100 * shares[e], sizes.top_k, 100 * most);
  return shares;
}

}  // namespace

ExpertRouting parse_expert_routing(std::string_view text) {
  ExpertRouting routing;
  routing.text = text;
  if (text == "uniform") return routing;
  if (text.starts_with(kZipf)) {
    require(parse_number(text.substr(kZipf.size()), routing.exponent) &&
                routing.exponent <= kMostExponent,
            ErrorCode::kUsage, "routing '{}': wanted an exponent from 0 to {}", text,
            kMostExponent);
    return routing;
  }
  require(std::filesystem::is_regular_file(std::filesystem::path(text)), ErrorCode::kUsage,
          "routing '{}' is no file; wanted uniform, zipf=1.1, or a file with one number per expert",
          text);
  routing.counts = counts_of(read_text_file(routing.text), text);
  routing.provenance = Provenance::kMeasured;
  return routing;
}

double ExpertLoad::filled_between(std::int64_t first, std::int64_t last) const {
  if (last <= first) return 0;
  const double sum = std::accumulate(filled.begin() + first, filled.begin() + last, 0.0);
  return sum / static_cast<double>(last - first);
}

double ExpertLoad::capacity_factor_without_drops() const {
  return *std::max_element(share.begin(), share.end()) * static_cast<double>(sizes.experts);
}

ExpertLoad expert_load(const ExpertRouting& routing, const ExpertSizes& sizes) {
  ExpertLoad load;
  load.sizes = sizes;
  load.share = shares_of(routing, sizes);
  const double choices = static_cast<double>(sizes.tokens) * static_cast<double>(sizes.top_k);
  const auto places = static_cast<double>(sizes.places);
  for (const double share : load.share) {
    const double wanted = share * choices;
    load.filled.push_back(std::min(wanted, places) / places);
    load.dropped += std::max(wanted - places, 0.0) / choices;
  }
  return load;
}

}  // namespace sextant
