// Reference sample of classes: of each bucket the classes of the labels in their order, then others
// along a random walk that meets every class of the bucket once.
#include "backends/cpu/kernels/shared/families.h"
#include "backends/cpu/kernels/shared/id_check.h"
#include "backends/cpu/kernels/shared/reference.h"
#include "core/base/counter_rng.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace sextant {
namespace {

struct Sampled {
  std::int64_t classes, bucket, taken;  // taken: of a bucket
};

Sampled sampled_of(const Attributes& attributes) {
  const std::int64_t classes = attributes.integer("classes");
  const std::int64_t buckets = attributes.integer("buckets");
  return {classes, classes / buckets, attributes.integer("taken") / buckets};
}

// Distinct classes of the labels, ascending.
std::vector<std::int64_t> classes_of(std::span<const std::int64_t> labels, std::int64_t ignored,
                                     std::int64_t classes) {
  std::vector<std::int64_t> known;
  for (const std::int64_t label : labels) {
    require((label >= 0 && label < classes) || label == ignored, ErrorCode::kBadInput,
            "the label {} is neither a class, 0 to {}, nor ignore_index {}", label, classes - 1,
            ignored);
    if (label != ignored) known.push_back(label);
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return known;
}

// A step that meets every place of a ring of `size` before it comes back.
std::int64_t coprime_step(std::uint64_t bits, std::int64_t size) {
  auto step = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(size));
  while (std::gcd(step, size) != 1) step = (step + 1) % size;
  return step;
}

// Ids inside the bucket, ascending labels first; two draws of the stream belong to each bucket.
std::vector<std::int64_t> sample_bucket(const Sampled& sampled, std::int64_t bucket,
                                        std::span<const std::int64_t> labels,
                                        const CounterRng& random) {
  const std::int64_t begin = bucket * sampled.bucket;
  const auto first = std::lower_bound(labels.begin(), labels.end(), begin);
  const auto last = std::lower_bound(first, labels.end(), begin + sampled.bucket);
  const auto wanted = static_cast<std::size_t>(sampled.taken);
  std::vector<std::int64_t> ids;
  for (auto label = first; label != last && ids.size() < wanted; ++label)
    ids.push_back(*label - begin);
  const std::size_t positives = ids.size();
  const auto draw = 2 * static_cast<std::uint64_t>(bucket);
  const auto size = static_cast<std::uint64_t>(sampled.bucket);
  auto id = static_cast<std::int64_t>(random.bits(draw) % size);
  const std::int64_t step = coprime_step(random.bits(draw + 1), sampled.bucket);
  while (ids.size() < wanted) {
    const auto known = ids.begin() + static_cast<std::ptrdiff_t>(positives);
    if (!std::binary_search(ids.begin(), known, id)) ids.push_back(id);
    id = (id + step) % sampled.bucket;
  }
  return ids;
}

void class_sample(const KernelContext& context, Workspace& workspace) {
  const Sampled sampled = sampled_of(context.attributes());
  const std::int64_t ignored = ignored_label(context);
  const auto labels = load_indices(context, 0, workspace);
  std::vector<std::int64_t> all;
  for (std::size_t label = 0; label < labels.size(); ++label) all.push_back(labels[label]);
  const std::vector<std::int64_t> known = classes_of(all, ignored, sampled.classes);
  const CounterRng random(seed_of_act(context.seed, context.act),
                          context.attributes().text("stream"));
  const OutputOf<std::int64_t> ids(context, 0), places(context, 1);
  const std::int64_t first_bucket = offset_of(context.out[0], 0) / sampled.taken;
  const std::int64_t buckets = context.out[0].local.shape[0] / sampled.taken;
  std::vector<std::int64_t> place_of(all.size(), ignored);
  for (std::int64_t bucket = 0; bucket < buckets; ++bucket) {
    const std::int64_t global = first_bucket + bucket;
    const std::vector<std::int64_t> taken = sample_bucket(sampled, global, known, random);
    for (std::size_t i = 0; i < taken.size(); ++i) {
      ids.put(static_cast<std::size_t>(bucket * sampled.taken) + i, taken[i]);
      for (std::size_t label = 0; label < all.size(); ++label)
        if (all[label] == global * sampled.bucket + taken[i])
          place_of[label] = global * sampled.taken + static_cast<std::int64_t>(i);
    }
  }
  for (std::size_t label = 0; label < all.size(); ++label) places.put(label, place_of[label]);
}

// Row of the table that the `i`-th id means.
std::size_t row_of(std::size_t i, std::int64_t id, std::int64_t bucket, std::int64_t taken) {
  require_row(id, bucket);
  return static_cast<std::size_t>(static_cast<std::int64_t>(i) / taken * bucket + id);
}

void bucket_rows(const KernelContext& context, Workspace& workspace) {
  const std::int64_t bucket = context.attributes().integer("bucket");
  const std::int64_t taken = context.attributes().integer("taken");
  const auto width = static_cast<std::size_t>(context.in[0].local.shape[1]);
  const Values table = load_input(context, 0, workspace);
  const auto ids = load_indices(context, 1, workspace);
  const Output rows(context, 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t row = row_of(i, ids[i], bucket, taken);
    for (std::size_t d = 0; d < width; ++d) rows.put(i * width + d, table[row * width + d]);
  }
}

void bucket_rows_grad(const KernelContext& context, Workspace& workspace) {
  const std::int64_t bucket = context.attributes().integer("bucket");
  const std::int64_t taken = context.attributes().integer("taken");
  const auto width = static_cast<std::size_t>(context.out[0].local.shape[1]);
  const auto ids = load_indices(context, 0, workspace);
  const Values drows = load_input(context, 1, workspace);
  const auto gradient = make_output(context, 0, workspace);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t row = row_of(i, ids[i], bucket, taken);
    for (std::size_t d = 0; d < width; ++d) gradient[row * width + d] += drows[i * width + d];
  }
  store_output(context, 0, gradient);
}

}  // namespace

void add_class_sample_kernels(KernelTable& table) {
  table.add("class_sample", class_sample);
  table.add("bucket_rows", bucket_rows);
  table.add("bucket_rows_grad", bucket_rows_grad, nullptr, wide_outputs);
}

}  // namespace sextant
