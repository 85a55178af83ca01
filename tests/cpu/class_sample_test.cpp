// Sampled classes: the labels are among them, nothing is twice, a part of the buckets draws what
// the whole draws, and other acts draw other classes.
#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/error.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace sextant::class_sample_test {
namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kClasses = 120, kBuckets = 6, kTaken = 30, kIgnored = -1;
constexpr std::int64_t kBucket = kClasses / kBuckets, kOfBucket = kTaken / kBuckets;

struct Sample {
  Numbers ids, places;
};

// By a device that holds `buckets` from `first` on.
Sample sample(const Numbers& labels, std::int64_t first = 0, std::int64_t buckets = kBuckets,
              const ActPosition& act = {}) {
  const auto count = static_cast<std::int64_t>(labels.size());
  const auto results =
      KernelCall("class_sample", {{"classes", kClasses},
                                  {"buckets", kBuckets},
                                  {"taken", kTaken},
                                  {"stream", std::string("test")},
                                  {"ignore_index", kIgnored}})
          .input({{{count}, DType::kI32}, labels})
          .output({{{buckets * kOfBucket}, DType::kI32}, {}, {first * kOfBucket}, Shape{kTaken}})
          .output({{{count}, DType::kI32}, {}})
          .during(7, act)
          .run(reference_kernels());
  return {results[0], results[1]};
}

// The class that the `place`-th id of the whole sample means.
std::int64_t class_at(const Sample& sample, double place) {
  const auto at = static_cast<std::int64_t>(place);
  return at / kOfBucket * kBucket +
         static_cast<std::int64_t>(sample.ids[static_cast<std::size_t>(at)]);
}

TEST_CASE("every label is where its place says, and no class is taken twice") {
  const Numbers labels = {3, 119, 3, kIgnored, 40, 41, 0};
  const Sample all = sample(labels);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kIgnored)
      CHECK(all.places[i] == kIgnored);
    else
      CHECK(class_at(all, all.places[i]) == labels[i]);
  }
  for (std::int64_t bucket = 0; bucket < kBuckets; ++bucket) {
    std::set<double> of_bucket;
    for (std::int64_t i = 0; i < kOfBucket; ++i) {
      const double id = all.ids[static_cast<std::size_t>(bucket * kOfBucket + i)];
      CHECK(id >= 0);
      CHECK(id < kBucket);
      CHECK(of_bucket.insert(id).second);
    }
  }
}

TEST_CASE("labels that find no room in their bucket count nothing, the smallest have it") {
  // Seven of bucket 1, classes 20 to 39, for five places.
  const Sample all = sample({26, 25, 24, 23, 22, 21, 20});
  CHECK(all.places == Numbers{kIgnored, kIgnored, 9, 8, 7, 6, 5});
}

TEST_CASE("a part of the buckets is that part of the whole sample") {
  const Numbers labels = {3, 119, 40, 41, 77};
  const Sample whole = sample(labels);
  for (const std::int64_t parts : {2, 3, 6}) {
    Numbers ids, places(labels.size(), kIgnored);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t buckets = kBuckets / parts;
      const Sample own = sample(labels, part * buckets, buckets);
      ids.insert(ids.end(), own.ids.begin(), own.ids.end());
      for (std::size_t i = 0; i < labels.size(); ++i)
        places[i] = std::max(places[i], own.places[i]);
    }
    CHECK(ids == whole.ids);
    CHECK(places == whole.places);
  }
}

TEST_CASE("other acts draw other classes, and in time every class") {
  std::set<std::int64_t> drawn;
  for (std::int64_t step = 0; step < 60; ++step) {
    const Sample own = sample({kIgnored}, 0, kBuckets, {.step = step});
    for (std::int64_t place = 0; place < kTaken; ++place)
      drawn.insert(class_at(own, static_cast<double>(place)));
  }
  // Missed by 60 draws of a quarter: 120 x 0.75^60, 4e-6 classes.
  CHECK(drawn.size() == kClasses);
  CHECK(sample({5}, 0, kBuckets, {.step = 1}).ids != sample({5}).ids);
  CHECK(sample({5}).ids == sample({5}).ids);
}

TEST_CASE("a label that is no class is an error") {
  CHECK_THROWS_WITH_AS(sample({120}),
                       "the label 120 is neither a class, 0 to 119, nor "
                       "ignore_index -1",
                       Error);
}

}  // namespace
}  // namespace sextant::class_sample_test
