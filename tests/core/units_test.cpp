// Quantities: text for people and the reverse.
#include "core/base/units.h"

#include "core/base/error.h"
#include "core/text/quantity_text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace sextant::units_test {
namespace {

TEST_CASE("sizes print with three significant digits in the largest unit that is at least one") {
  CHECK(to_text(Bytes(0)) == "0 B");
  CHECK(to_text(Bytes(512)) == "512 B");
  CHECK(to_text(Bytes(1024)) == "1.00 KiB");
  CHECK(to_text(Bytes(3 * 512 * 1024 * 1024LL)) == "1.50 GiB");
  // 80 GiB less one byte rounds to 80.0 GiB.
  CHECK(to_text(Bytes((80LL << 30) - 1)) == "80.0 GiB");
}

TEST_CASE("a number that rounds up to the next unit is printed in it") {
  CHECK(to_text(Duration(999'999'999)) == "1.00 ms");  // not 1000 us
  CHECK(to_text(Bytes(1024 * 1024 - 1)) == "1.00 MiB");
}

TEST_CASE("times print from picoseconds to hours") {
  CHECK(to_text(Duration(0)) == "0 s");
  CHECK(to_text(Duration(7)) == "7 ps");
  CHECK(to_text(Duration(12'345'000'000)) == "12.3 ms");
  CHECK(to_text(Duration(90 * kPicosecondsPerSecond)) == "1.50 min");
  CHECK(to_text(Duration(7200 * kPicosecondsPerSecond)) == "2.00 h");
  CHECK(to_text(Duration(-1'500'000)) == "-1.50 us");
}

TEST_CASE("rates print with their own units") {
  CHECK(flops_rate_to_text(312e12) == "312 TFLOP/s");
  CHECK(bandwidth_to_text(25e9) == "25.0 GB/s");
  CHECK(bandwidth_to_text(3.35e12) == "3.35 TB/s");
}

TEST_CASE("sizes are read with units of 1024 and of 1000") {
  CHECK(parse_bytes("64MiB") == Bytes(64LL << 20));
  CHECK(parse_bytes("1.5 GiB") == Bytes(3LL << 29));
  CHECK(parse_bytes("1GB") == Bytes(1'000'000'000));
  CHECK(parse_bytes(" 512 B ") == Bytes(512));
  CHECK(parse_bytes("2KB") == parse_bytes("2kB"));
  CHECK(parse_bytes("3EiB") == Bytes(std::int64_t{3} << 60));
  // 2^53 + 1 is no double: integers are read exactly.
  CHECK(parse_bytes("9007199254740993B") == Bytes(9007199254740993LL));
}

TEST_CASE("a bit is an eighth of a byte, in sizes and in rates") {
  CHECK(parse_bytes("16b") == Bytes(2));
  CHECK(parse_bytes("1Gb") == Bytes(125'000'000));
  CHECK(parse_bytes("1Kibit") == Bytes(128));
  for (const char* const text : {"200Gb/s", "200 Gbit/s", "0.2Tb/s", "25GB/s"})
    CHECK(parse_quantity(text, QuantityKind::kBytesPerSecond) == 25e9);
  CHECK(parse_quantity("8Mib/s", QuantityKind::kBytesPerSecond) == 1048576.0);
}

TEST_CASE("the same prefixes stand before every unit") {
  const std::pair<const char*, double> prefixes[] = {
      {"", 1},        {"k", 1e3},     {"K", 1e3},    {"M", 1e6},     {"G", 1e9},
      {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}};
  for (const auto& [prefix, size] : prefixes) {
    const auto read = [&](const char* unit, QuantityKind kind) {
      return parse_quantity(std::string("4 ") + prefix + unit, kind);
    };
    CHECK(read("B", QuantityKind::kBytes) == 4 * size);
    CHECK(read("b", QuantityKind::kBytes) == size / 2);
    CHECK(read("B/s", QuantityKind::kBytesPerSecond) == 4 * size);
    CHECK(read("bit/s", QuantityKind::kBytesPerSecond) == size / 2);
    CHECK(read("FLOP/s", QuantityKind::kFlopsPerSecond) == 4 * size);
  }
}

// Every magnitude that is printed, three numbers in each: one digit before the point, two, three.
TEST_CASE("what is printed reads back, and prints the same again") {
  for (int exponent = 0; exponent < 63; ++exponent)
    for (const std::int64_t more : {0, 1, 7}) {
      const std::int64_t value = (std::int64_t{1} << exponent) / 8 * (8 + more);
      if (value <= 0) continue;
      const std::string bytes = to_text(Bytes(value)), time = to_text(Duration(value));
      CHECK(to_text(parse_bytes(bytes)) == bytes);
      CHECK(to_text(parse_duration(time)) == time);
      const auto rate = static_cast<double>(value);
      const std::string bandwidth = bandwidth_to_text(rate), flops = flops_rate_to_text(rate);
      const double read = parse_quantity(bandwidth, QuantityKind::kBytesPerSecond);
      CHECK(bandwidth_to_text(read) == bandwidth);
      CHECK(std::abs(read / rate - 1) <= 0.005);  // half a unit of the third digit
      CHECK(flops_rate_to_text(parse_quantity(flops, QuantityKind::kFlopsPerSecond)) == flops);
    }
  CHECK(parse_bytes(to_text(Bytes(0))) == Bytes(0));
  CHECK(parse_duration(to_text(Duration(0))) == Duration(0));
}

TEST_CASE("a number without a unit is refused, a mistyped unit with the nearest") {
  const auto message = [](const char* text, QuantityKind kind) -> std::string {
    try {
      parse_quantity(text, kind);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(message("40", QuantityKind::kBytes)
            .starts_with("'40' has no unit: write a number with one "
                         "of B, kB, MB, GB, TB, KiB, MiB, GiB"));
  CHECK(message("30", QuantityKind::kSeconds).starts_with("'30' has no unit"));
  CHECK(message("25 GB", QuantityKind::kBytesPerSecond)
            .starts_with("'25 GB' is not a quantity in B/s, did you mean 'GB/s'?"));
  CHECK(message("1 gib", QuantityKind::kBytes)
            .starts_with("'1 gib' is not a quantity in B, did you mean 'GiB'?"));
  CHECK(parse_quantity("4", QuantityKind::kCount) == 4);
}

TEST_CASE("times are read with their unit") {
  CHECK(parse_duration("30s") == Duration(30 * kPicosecondsPerSecond));
  CHECK(parse_duration("1.5ms") == Duration(1'500'000'000));
  CHECK(parse_duration("2h") == Duration(7200 * kPicosecondsPerSecond));
}

TEST_CASE("what is no size or no time is refused") {
  for (const char* const text : {"", "GiB", "-1", "1.5 GiBs", "1 gib", "nan", "inf", "1e3", "0x10",
                                 "99999999999 GiB", "12 34"})
    CHECK_THROWS_AS(parse_bytes(text), Error);
  // A time without a unit could be seconds or milliseconds.
  for (const char* const text : {"", "30", "s", "-1s", "1 m", "200 d"})
    CHECK_THROWS_AS(parse_duration(text), Error);
}

TEST_CASE("seconds become the nearest picosecond") {
  CHECK(duration_from_seconds(1.4e-12) == Duration(1));
  CHECK(duration_from_seconds(1.6e-12) == Duration(2));
  CHECK(to_seconds(duration_from_seconds(0.25)) == 0.25);
  CHECK_THROWS_AS(duration_from_seconds(-1e-9), Error);
  CHECK_THROWS_AS(duration_from_seconds(1e7), Error);  // 116 days
  CHECK_THROWS_AS(duration_from_seconds(0.0 / 0.0), Error);
}

}  // namespace
}  // namespace sextant::units_test
