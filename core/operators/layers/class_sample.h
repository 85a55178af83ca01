// Sampled classes for model builders ("partial FC", arXiv 2010.05222): the classifier of a step has
// the classes of its labels and some others by chance, so that its logits, and what they cost, are
// a share of all classes.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>

namespace sextant {

// Classes lie in buckets of equal size, and the same number is taken of each: a split of the
// classes between buckets splits the sample too, and the sample depends on no split.
struct ClassSample {
  std::int64_t classes = 0, buckets = 1, taken = 0;  // taken: of all buckets together

  std::int64_t bucket() const { return classes / buckets; }
  std::int64_t taken_of_bucket() const { return taken / buckets; }
};

// Throws Error(kBadInput) with `prefix` unless buckets divide classes and taken, and 1 <= taken <=
// classes.
void validate(const ClassSample& sample, const std::string& prefix);

struct SampledLogits {
  TensorId logits;  // [n, taken]
  TensorId labels;  // [n] i32: places of the labels among the taken classes, or `ignore_index`
};

// x [n, f], labels [n] integer, weight [classes, f] of any floating type. Operators are named
// `name`.sample, .rows, .rows.cast where the types differ, and `name`. A label whose bucket has
// more labels of the micro-batch than are taken of it counts nothing. `ignore_index` is negative.
SampledLogits sampled_logits(LogicalGraph& graph, TensorId x, TensorId labels, TensorId weight,
                             const ClassSample& sample, const std::string& name, int layer,
                             std::int64_t ignore_index);

}  // namespace sextant
