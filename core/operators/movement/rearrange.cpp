// Dims counted from the end, shapes with a place-holder, and operators made of several.
#include "core/operators/movement/rearrange.h"

#include "core/base/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;

// `at` in [0, extent), counted from the end if negative.
std::int64_t counted(const std::string& name, const char* what, std::int64_t at,
                     std::int64_t extent) {
  require(-extent <= at && at < extent, ErrorCode::kBadInput,
          "operator '{}': {} {} is not in [{}, {})", name, what, at, -extent, extent);
  return at < 0 ? at + extent : at;
}

std::int64_t dim_of(const std::string& name, const Shape& shape, std::int64_t dim) {
  return counted(name, "dim", dim, static_cast<std::int64_t>(shape.rank()));
}

std::int64_t extent_of(const Shape& shape, std::int64_t dim) {
  return shape[static_cast<std::size_t>(dim)];
}

// Replaces the -1 of a wanted shape.
void fill_in(const std::string& name, std::int64_t elements, Integers& shape) {
  const auto left = std::find(shape.begin(), shape.end(), -1);
  if (left == shape.end()) return;
  std::int64_t known = 1;
  for (auto extent = shape.begin(); extent != shape.end(); ++extent)
    if (extent != left) known *= *extent;
  require(known > 0 && elements % known == 0, ErrorCode::kBadInput,
          "operator '{}': {} elements are no multiple of the {} that the other dims of [{}] hold",
          name, elements, known, fmt::join(shape, ", "));
  *left = elements / known;
}

}  // namespace

OpId Rearranger::add(std::string kind, const std::string& name, std::vector<TensorId> inputs,
                     Attributes attributes) {
  return graph_.add({.kind = std::move(kind),
                     .name = name,
                     .attributes = std::move(attributes),
                     .inputs = std::move(inputs),
                     .outputs = {},
                     .phase = Phase::kForward,
                     .layer = layer_,
                     .parameter = std::nullopt});
}

TensorId Rearranger::reshape(const std::string& name, TensorId x, Integers shape) {
  fill_in(name, this->shape(x).elements(), shape);
  return add_one("reshape", name, {x}, {{"shape", std::move(shape)}});
}

TensorId Rearranger::unsqueeze(const std::string& name, TensorId x, std::int64_t dim) {
  Integers extents = shape(x).extents();
  dim = counted(name, "dim", dim, static_cast<std::int64_t>(extents.size()) + 1);
  extents.insert(extents.begin() + dim, 1);
  return reshape(name, x, std::move(extents));
}

TensorId Rearranger::squeeze(const std::string& name, TensorId x, std::int64_t dim) {
  Integers extents = shape(x).extents();
  dim = dim_of(name, shape(x), dim);
  require(extent_of(shape(x), dim) == 1, ErrorCode::kBadInput,
          "operator '{}': dim {} of {} has {} elements, wanted one", name, dim, to_string(shape(x)),
          extent_of(shape(x), dim));
  extents.erase(extents.begin() + dim);
  return reshape(name, x, std::move(extents));
}

TensorId Rearranger::flatten(const std::string& name, TensorId x, std::int64_t first,
                             std::int64_t last) {
  const Integers& extents = shape(x).extents();
  first = dim_of(name, shape(x), first);
  last = dim_of(name, shape(x), last);
  require(first <= last, ErrorCode::kBadInput, "operator '{}': dims {} to {} of {} are none", name,
          first, last, to_string(shape(x)));
  Integers flat(extents.begin(), extents.begin() + first);
  flat.push_back(1);
  for (std::int64_t dim = first; dim <= last; ++dim) flat.back() *= extent_of(shape(x), dim);
  flat.insert(flat.end(), extents.begin() + last + 1, extents.end());
  return reshape(name, x, std::move(flat));
}

TensorId Rearranger::transpose(const std::string& name, TensorId x, Integers permutation) {
  for (std::int64_t& dim : permutation) dim = dim_of(name, shape(x), dim);
  return add_one("transpose", name, {x}, {{"permutation", std::move(permutation)}});
}

TensorId Rearranger::slice(const std::string& name, TensorId x, std::int64_t dim,
                           std::int64_t start, std::int64_t stop) {
  dim = dim_of(name, shape(x), dim);
  const std::int64_t extent = extent_of(shape(x), dim);
  // `extent` itself is an end, so there is one position more than elements.
  const auto position = [&](const char* what, std::int64_t at) {
    return at < 0 ? counted(name, what, at, extent) : at;
  };
  return add_one(
      "slice", name, {x},
      {{"dim", dim}, {"start", position("start", start)}, {"stop", position("stop", stop)}});
}

TensorId Rearranger::select(const std::string& name, TensorId x, std::int64_t dim,
                            std::int64_t index) {
  dim = dim_of(name, shape(x), dim);
  index = counted(name, "index", index, extent_of(shape(x), dim));
  return squeeze(name, slice(name + ".slice", x, dim, index, index + 1), dim);
}

TensorId Rearranger::concat(const std::string& name, std::vector<TensorId> parts,
                            std::int64_t dim) {
  require(!parts.empty(), ErrorCode::kBadInput, "operator '{}': nothing to concatenate", name);
  dim = dim_of(name, shape(parts[0]), dim);
  Integers extents;
  for (const TensorId part : parts) {
    require(static_cast<std::size_t>(dim) < shape(part).rank(), ErrorCode::kBadInput,
            "operator '{}': dim {} is not a dim of {}", name, dim, to_string(shape(part)));
    extents.push_back(extent_of(shape(part), dim));
  }
  return add_one("concat", name, std::move(parts), {{"dim", dim}, {"extents", std::move(extents)}});
}

std::vector<TensorId> Rearranger::split(const std::string& name, TensorId x, std::int64_t dim,
                                        Integers extents) {
  dim = dim_of(name, shape(x), dim);
  return graph_.op(add("split", name, {x}, {{"dim", dim}, {"extents", std::move(extents)}}))
      .outputs;
}

TensorId Rearranger::stack(const std::string& name, const std::vector<TensorId>& parts,
                           std::int64_t dim) {
  require(!parts.empty(), ErrorCode::kBadInput, "operator '{}': nothing to stack", name);
  dim = counted(name, "dim", dim, static_cast<std::int64_t>(shape(parts[0]).rank()) + 1);
  std::vector<TensorId> layers;
  for (const TensorId part : parts)
    layers.push_back(unsqueeze(fmt::format("{}.{}", name, layers.size()), part, dim));
  return concat(name, std::move(layers), dim);
}

std::vector<TensorId> Rearranger::unbind(const std::string& name, TensorId x, std::int64_t dim) {
  dim = dim_of(name, shape(x), dim);
  std::vector<TensorId> parts;
  const auto count = static_cast<std::size_t>(extent_of(shape(x), dim));
  for (const TensorId layer : split(name, x, dim, Integers(count, 1)))
    parts.push_back(squeeze(fmt::format("{}.{}", name, parts.size()), layer, dim));
  return parts;
}

TensorId Rearranger::gather(const std::string& name, TensorId x, TensorId indices,
                            std::int64_t dim) {
  return add_one("gather", name, {x, indices}, {{"dim", dim_of(name, shape(x), dim)}});
}

TensorId Rearranger::take_along_dim(const std::string& name, TensorId x, TensorId indices,
                                    std::int64_t dim) {
  return add_one("take_along_dim", name, {x, indices}, {{"dim", dim_of(name, shape(x), dim)}});
}

}  // namespace sextant
