// A unit is a prefix and a base; its size is a fraction, so that whole numbers stay exact.
#include "core/text/quantity_text.h"

#include "core/base/check.h"
#include "core/base/nearest.h"

#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {
namespace {

// In plain units: a millisecond is 1/1000.
struct Size {
  std::int64_t numerator = 1, denominator = 1;
};

struct Base {
  std::string_view name;
  Size size;
  bool takes_prefix = false;
};

constexpr Base kSizes[] = {{"B", {}, true}, {"bit", {1, 8}, true}, {"b", {1, 8}, true}};
constexpr Base kByteRates[] = {{"B/s", {}, true}, {"bit/s", {1, 8}, true}, {"b/s", {1, 8}, true}};
constexpr Base kFlopRates[] = {{"FLOP/s", {}, true}, {"FLOPS", {}, true}};
constexpr Base kTimes[] = {{"ps", {1, kPicosecondsPerSecond}},
                           {"ns", {1, 1'000'000'000}},
                           {"us", {1, 1'000'000}},
                           {"ms", {1, 1'000}},
                           {"s", {}},
                           {"min", {60, 1}},
                           {"h", {3600, 1}},
                           {"d", {86400, 1}}};
constexpr Base kShares[] = {{"%", {1, 100}}};

struct Prefix {
  std::string_view name;
  std::int64_t factor = 1;
};
constexpr Prefix kPrefixes[] = {{"", 1},
                                {"k", 1'000},
                                {"K", 1'000},
                                {"M", 1'000'000},
                                {"G", 1'000'000'000},
                                {"T", 1'000'000'000'000},
                                {"P", 1'000'000'000'000'000},
                                {"E", 1'000'000'000'000'000'000},
                                {"Ki", std::int64_t{1} << 10},
                                {"Mi", std::int64_t{1} << 20},
                                {"Gi", std::int64_t{1} << 30},
                                {"Ti", std::int64_t{1} << 40},
                                {"Pi", std::int64_t{1} << 50},
                                {"Ei", std::int64_t{1} << 60}};

std::span<const Base> bases_of(QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return kByteRates;
    case QuantityKind::kFlopsPerSecond:
      return kFlopRates;
    case QuantityKind::kSeconds:
      return kTimes;
    case QuantityKind::kShare:
      return kShares;
    case QuantityKind::kBytes:
      return kSizes;
    case QuantityKind::kCount:
      return {};
  }
  return {};
}

// Some of the units of a kind, each of another size.
std::vector<std::string> examples_of(QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return {"B/s",   "kB/s",  "MB/s",  "GB/s", "TB/s", "KiB/s",
              "MiB/s", "GiB/s", "TiB/s", "Mb/s", "Gb/s", "Gbit/s"};
    case QuantityKind::kFlopsPerSecond:
      return {"FLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
    case QuantityKind::kSeconds:
      return {"ps", "ns", "us", "ms", "s", "min", "h", "d"};
    case QuantityKind::kShare:
      return {"%"};
    case QuantityKind::kBytes:
      return {"B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "Mb", "Gb", "Gbit"};
    case QuantityKind::kCount:
      return {};
  }
  return {};
}

std::string understood(QuantityKind kind) {
  return kind == QuantityKind::kCount ? "no unit" : "one of " + comma_list(examples_of(kind));
}

std::optional<Size> find_unit(std::string_view name, QuantityKind kind) {
  for (const Base& base : bases_of(kind)) {
    if (!name.ends_with(base.name)) continue;
    const std::string_view before = name.substr(0, name.size() - base.name.size());
    if (!base.takes_prefix && !before.empty()) continue;
    for (const Prefix& prefix : kPrefixes) {
      if (prefix.name != before) continue;
      const std::int64_t common = std::gcd(prefix.factor, base.size.denominator);
      return Size{base.size.numerator * (prefix.factor / common), base.size.denominator / common};
    }
  }
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

struct Amount {
  double number = 0;
  std::optional<std::int64_t> integer;  // when the number was written without a fraction
  Size unit;
};

[[noreturn]] void refuse(std::string_view text, std::string_view unit, QuantityKind kind) {
  fail(ErrorCode::kUsage, "'{}' is not a quantity in {}{}: write a number with {}", text,
       unit_of(kind), unit.empty() ? "" : did_you_mean(unit, examples_of(kind)), understood(kind));
}

Amount parse_amount(std::string_view text, QuantityKind kind) {
  const std::string_view all = trimmed(text);
  const char* const end = all.data() + all.size();
  if (all.empty() || all.front() < '0' || all.front() > '9') refuse(text, "", kind);
  Amount amount;
  const auto [after, failure] = std::from_chars(all.data(), end, amount.number);
  if (failure != std::errc()) refuse(text, "", kind);
  std::int64_t integer = 0;
  const auto whole = std::from_chars(all.data(), end, integer);
  if (whole.ec == std::errc() && whole.ptr == after) amount.integer = integer;
  const std::string_view name = trimmed(all.substr(static_cast<std::size_t>(after - all.data())));
  if (name.empty() && kind == QuantityKind::kCount) return amount;
  require(!name.empty(), ErrorCode::kUsage, "'{}' has no unit: write a number with {}", text,
          understood(kind));
  const std::optional<Size> unit = find_unit(name, kind);
  if (!unit) refuse(text, name, kind);
  amount.unit = *unit;
  return amount;
}

// In parts of a plain unit, of which there are so many; nothing for what 64 bits do not hold.
std::optional<std::int64_t> in_parts(const Amount& amount, std::int64_t parts) {
  const Size unit = amount.unit;
  if (amount.integer && parts % unit.denominator == 0) {
    std::int64_t size = 0, product = 0;
    if (__builtin_mul_overflow(unit.numerator, parts / unit.denominator, &size) ||
        __builtin_mul_overflow(*amount.integer, size, &product))
      return std::nullopt;
    return product;
  }
  const double product = amount.number * static_cast<double>(unit.numerator) *
                         static_cast<double>(parts) / static_cast<double>(unit.denominator);
  if (!(product < 9.2e18)) return std::nullopt;
  return std::llround(product);
}

std::int64_t parse_in_parts(std::string_view text, QuantityKind kind, std::int64_t parts) {
  if (const auto value = in_parts(parse_amount(text, kind), parts)) return *value;
  fail(ErrorCode::kUsage, "'{}' is too large: more than 64 bits hold", text);
}

}  // namespace

std::string_view unit_of(QuantityKind kind) {
  switch (kind) {
    case QuantityKind::kBytesPerSecond:
      return "B/s";
    case QuantityKind::kFlopsPerSecond:
      return "FLOP/s";
    case QuantityKind::kSeconds:
      return "s";
    case QuantityKind::kShare:
      return "of 1";
    case QuantityKind::kBytes:
      return "B";
    case QuantityKind::kCount:
      return "(a count)";
  }
  return "?";
}

double parse_quantity(std::string_view text, QuantityKind kind) {
  const Amount amount = parse_amount(text, kind);
  // One of the two is 1, so that 1.5us is the nearest double.
  return amount.number * static_cast<double>(amount.unit.numerator) /
         static_cast<double>(amount.unit.denominator);
}

Bytes parse_bytes(std::string_view text) {
  return Bytes(parse_in_parts(text, QuantityKind::kBytes, 1));
}

Duration parse_duration(std::string_view text) {
  return Duration(parse_in_parts(text, QuantityKind::kSeconds, kPicosecondsPerSecond));
}

}  // namespace sextant
