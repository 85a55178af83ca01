// Quantities: text for people and the reverse.
#include "core/units.h"

#include "core/error.h"

#include <doctest/doctest.h>

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
  CHECK(parse_bytes(" 512 ") == Bytes(512));
  // 2^53 + 1 is no double: integers are read exactly.
  CHECK(parse_bytes("9007199254740993") == Bytes(9007199254740993LL));
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
