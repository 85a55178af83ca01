// Orders of samples: every record once an epoch, the same whoever asks, exact at any position.
#include "io/data/sample_order.h"

#include "core/base/error.h"
#include "io/data/token_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace sextant::sample_order_test {
namespace {

using Records = std::vector<std::int64_t>;

// -1: a place that is filled up.
Records epoch(const SampleOrder& order, std::int64_t number) {
  Records records;
  const std::int64_t first = number * order.positions_per_epoch();
  for (std::int64_t i = 0; i < order.positions_per_epoch(); ++i)
    records.push_back(order.record_at(first + i).value_or(-1));
  return records;
}

Records sorted(Records records) {
  std::sort(records.begin(), records.end());
  return records;
}

Records all_below(std::int64_t count) {
  Records records(static_cast<std::size_t>(count));
  std::iota(records.begin(), records.end(), 0);
  return records;
}

SampleOrder made(const std::string& order, std::int64_t records, std::int64_t batch,
                 std::uint64_t seed = 3) {
  return {parse_order(order), seed, records, batch, "data"};
}

}  // namespace

TEST_CASE("every count has permutations, and keys have different ones") {
  for (std::int64_t count = 1; count <= 130; ++count) {
    for (const std::uint64_t key : {1U, 2U}) {
      Records images;
      for (std::int64_t i = 0; i < count; ++i) images.push_back(permuted(i, count, key));
      CHECK(sorted(images) == all_below(count));
    }
  }
  Records one, other;
  for (std::int64_t i = 0; i < 100; ++i) {
    one.push_back(permuted(i, 100, 1));
    other.push_back(permuted(i, 100, 2));
  }
  CHECK(one != other);
  CHECK(one != all_below(100));
}

// Of a thousand orders of five records, each record stands in each place 200 times, give or take:
// the deviation of a count is sqrt(1000 * 0.2 * 0.8) = 12.6, and six of them are 76.
TEST_CASE("no place of an order prefers a record") {
  std::vector<std::vector<int>> counts(5, std::vector<int>(5, 0));
  for (std::uint64_t key = 0; key < 1000; ++key)
    for (std::int64_t i = 0; i < 5; ++i)
      ++counts[static_cast<std::size_t>(i)][static_cast<std::size_t>(permuted(i, 5, key))];
  for (const auto& of_place : counts)
    for (const int count : of_place) CHECK(std::abs(count - 200) < 76);
}

TEST_CASE("an epoch has every record once, in another order each time") {
  const SampleOrder order = made("shuffled", 37, 5);
  CHECK(order.positions_per_epoch() == 37);
  CHECK(sorted(epoch(order, 0)) == all_below(37));
  CHECK(sorted(epoch(order, 9)) == all_below(37));
  CHECK(epoch(order, 0) != epoch(order, 1));
  CHECK(epoch(order, 0) == epoch(made("shuffled", 37, 8), 0));
  CHECK(epoch(order, 0) != epoch(made("shuffled", 37, 5, 4), 0));
  CHECK(epoch(made("file", 37, 5), 2) == all_below(37));
}

TEST_CASE("records stay in their window") {
  const SampleOrder order = made("shuffled window=10", 37, 5);
  const Records records = epoch(order, 1);
  CHECK(sorted(records) == all_below(37));
  CHECK(records != all_below(37));
  for (std::size_t i = 0; i < records.size(); ++i)
    CHECK(records[i] / 10 == static_cast<std::int64_t>(i) / 10);
  CHECK(epoch(made("shuffled window=1", 37, 5), 1) == all_below(37));
}

TEST_CASE("the rest of an epoch is left out, or filled up, or followed by the next epoch") {
  const SampleOrder drop = made("shuffled last_batch=drop", 10, 4);
  CHECK(drop.positions_per_epoch() == 8);
  Records kept = sorted(epoch(drop, 0));
  CHECK(std::adjacent_find(kept.begin(), kept.end()) == kept.end());
  CHECK(sorted(epoch(drop, 0)) != sorted(epoch(drop, 1)));
  const SampleOrder pad = made("shuffled last_batch=pad", 10, 4);
  CHECK(pad.positions_per_epoch() == 12);
  const Records padded = epoch(pad, 1);
  CHECK(sorted(Records(padded.begin(), padded.begin() + 10)) == all_below(10));
  CHECK(Records(padded.begin() + 10, padded.end()) == Records{-1, -1});
  CHECK(made("shuffled last_batch=pad", 8, 4).positions_per_epoch() == 8);
  const SampleOrder wrap = made("file", 10, 4);
  CHECK(wrap.record_at(9) == 9);
  CHECK(wrap.record_at(10) == 0);
}

TEST_CASE("data without a sample, or too few for one batch, are refused with both numbers") {
  CHECK_THROWS_WITH_AS(made("file", 0, 4), "data: there is no sample", Error);
  CHECK_THROWS_WITH_AS(made("file last_batch=drop", 3, 4),
                       "data: 3 samples, a global batch has 4: with last_batch=drop none is left",
                       Error);
}

TEST_CASE("orders are read and written, and what means nothing is refused") {
  for (const char* text : {"places", "file", "shuffled window=7", "shuffled last_batch=pad",
                           "shuffled window=7 last_batch=drop"})
    CHECK(to_string(parse_order(text)) == text);
  CHECK(parse_order("  file   last_batch=wrap ") == parse_order("file"));
  for (const char* text :
       {"", "sorted", "places window=3", "places last_batch=drop", "file window=3",
        "shuffled window=0", "shuffled window=-1", "shuffled window=x", "shuffled window",
        "shuffled last_batch=stop", "shuffled windows=3"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_order(text), Error);
  }
}

TEST_CASE("samples of tokens begin at multiples of the sequence, with a token more for the label") {
  // 13 tokens make three samples of 4: the label of the last is token 12. A fourth has none.
  std::vector<std::int32_t> ids(13, 1);
  const TokenData data(std::make_shared<TokenList>(ids), "data", parse_order("file"));
  Records starts;
  for (std::int64_t i = 0; i < 4; ++i) starts.push_back(data.sample_start(0, i, 4).value_or(-1));
  CHECK(starts == Records{0, 4, 8, 0});
  CHECK(data.sample_start(0, 0, 12) == 0);
  CHECK_THROWS_AS(data.sample_start(0, 0, 13), Error);
}

TEST_CASE("whoever goes on at a position reads what follows") {
  // 30 + 30 positions of three epochs of 20 are the 60 of one reader: a position is all it takes.
  const SampleOrder one = made("shuffled window=6", 20, 5),
                    other = made("shuffled window=6", 20, 5);
  Records whole, halves;
  for (std::int64_t i = 0; i < 60; ++i) whole.push_back(one.record_at(i).value_or(-1));
  for (std::int64_t i = 30; i < 60; ++i) halves.push_back(other.record_at(i).value_or(-1));
  CHECK(Records(whole.begin() + 30, whole.end()) == halves);
}

}  // namespace sextant::sample_order_test
