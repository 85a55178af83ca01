// The obvious execution of boxing steps.
#include "tests/sbp/boxing_oracle.h"

#include "core/costs/communication_volume.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace sextant::oracle {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::lowest();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

std::int64_t reduced(ReduceOp op, std::int64_t a, std::int64_t b, DType dtype = DType::kI64) {
  switch (op) {
    case ReduceOp::kSum:
      return rounded(dtype, a + b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
  }
  return 0;
}

std::int64_t neutral(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return 0;
    case ReduceOp::kMax:
      return kLowest;
    case ReduceOp::kMin:
      return kHighest;
  }
  return 0;
}

std::vector<std::int64_t> box_of(std::size_t index, const NdSbp& words, const Placement& placement,
                                 const Shape& shape) {
  return indices_of(shard_of(shape, words, placement.hierarchy(), placement.coordinates_of(index)),
                    shape);
}

ReduceOp reduction_of(const NdSbp& words) {
  for (const Sbp& word : words)
    if (word.is_partial()) return word.reduce;
  return ReduceOp::kSum;
}

std::size_t position(const Placement& placement, Rank rank) {
  return static_cast<std::size_t>(std::find(placement.ranks.begin(), placement.ranks.end(), rank) -
                                  placement.ranks.begin());
}

// One ring phase: n - 1 steps, in step s member r sends chunk (r + shift - s) mod n to its
// neighbour, which keeps it or adds it to its own.
void ring(std::vector<Local>& values, const std::vector<std::vector<std::int64_t>>& chunks,
          int shift, const BoxingStep* add, const std::vector<Rank>& ranks, Sent& sent) {
  const auto n = static_cast<int>(ranks.size());
  for (int s = 0; s < n - 1; ++s) {
    const std::vector<Local> before = values;
    for (int r = 0; r < n; ++r) {
      const auto chunk = static_cast<std::size_t>(((r + shift - s) % n + n) % n);
      const auto next = static_cast<std::size_t>((r + 1) % n);
      for (const std::int64_t i : chunks[chunk]) {
        const std::int64_t value = before[static_cast<std::size_t>(r)].at(i);
        std::int64_t& own = values[next][i];
        own = add != nullptr ? reduced(add->reduce, value, own, add->dtype) : value;
        ++sent[{ranks[static_cast<std::size_t>(r)], ranks[next]}];
      }
    }
  }
}

void keep_only(Local& local, const std::vector<std::int64_t>& wanted) {
  Local kept;
  for (const std::int64_t i : wanted) kept[i] = local.at(i);
  local = std::move(kept);
}

bool has_partial(const NdSbp& words) {
  return std::any_of(words.begin(), words.end(), [](const Sbp& word) { return word.is_partial(); });
}

Held run_local(const BoxingStep& step, const Shape& shape, const Held& held,
               const Placement& placement) {
  Held result(held.size());
  for (std::size_t device = 0; device < held.size(); ++device) {
    const auto coordinates = placement.coordinates_of(device);
    bool keeps = true;
    for (std::size_t axis = 0; axis < step.from.size(); ++axis)
      if (step.from[axis].is_broadcast() && step.to[axis] == Sbp::partial(ReduceOp::kSum))
        keeps = keeps && coordinates[axis] == 0;
    for (const std::int64_t i : box_of(device, step.to, placement, shape)) {
      const auto own = held[device].find(i);
      // Where nothing is partial there is no neutral element: what is not held is missing.
      if (keeps && own != held[device].end())
        result[device][i] = own->second;
      else if (has_partial(step.to))
        result[device][i] = neutral(reduction_of(step.to));
    }
  }
  return result;
}

// Every device of the target is one of the source and keeps what it holds.
Held run_relabel(const Held& held, const Placement& from, const Placement& to) {
  Held result;
  for (const Rank rank : to.ranks) result.push_back(held.at(position(from, rank)));
  return result;
}

Held run_cast(const BoxingStep& step, Held held) {
  const ReduceOp op = reduction_of(step.from);
  for (Local& local : held)
    for (auto& [index, value] : local)
      if (!has_partial(step.from) || value != neutral(op)) value = rounded(step.to_dtype, value);
  return held;
}

void run_ring(const BoxingStep& step, const Shape& shape, const std::vector<Rank>& ranks,
              const Held& held, const Placement& placement, Held& result, Sent& sent) {
  std::vector<Local> values;
  std::vector<std::vector<std::int64_t>> from, to;
  for (const Rank rank : ranks) {
    values.push_back(held[position(placement, rank)]);
    from.push_back(box_of(position(placement, rank), step.from, placement, shape));
    to.push_back(box_of(position(placement, rank), step.to, placement, shape));
  }
  if (step.primitive == Primitive::kAllGather) {
    ring(values, from, 0, nullptr, ranks, sent);
  } else if (step.primitive == Primitive::kReduceScatter) {
    ring(values, to, -1, &step, ranks, sent);
  } else {
    const auto n = static_cast<std::int64_t>(ranks.size());
    const auto elements = static_cast<std::int64_t>(from.front().size());
    std::vector<std::vector<std::int64_t>> chunks;
    for (std::int64_t c = 0; c < n; ++c) {
      const Interval part = balanced_part(elements, n, c);
      chunks.emplace_back(from.front().begin() + part.offset, from.front().begin() + part.end());
    }
    ring(values, chunks, -1, &step, ranks, sent);
    ring(values, chunks, 0, nullptr, ranks, sent);
  }
  for (std::size_t member = 0; member < ranks.size(); ++member) {
    keep_only(values[member], to[member]);
    result[position(placement, ranks[member])] = std::move(values[member]);
  }
}

void run_moves(const BoxingStep& step, const Shape& shape, const std::vector<Rank>& ranks,
               const Held& held, const Placement& from, const Placement& to, Held& result,
               Sent& sent) {
  for (const BoxMove& move : box_moves(shape, {&step.from, &from}, {&step.to, &to}, ranks)) {
    const Rank source = ranks[static_cast<std::size_t>(move.source)];
    const Rank destination = ranks[static_cast<std::size_t>(move.destination)];
    for (const std::int64_t i : indices_of(move.box, shape)) {
      const std::int64_t value = held[position(from, source)].at(i);
      Local& local = result[position(to, destination)];
      const auto [own, is_first] = local.try_emplace(i, value);
      if (!is_first) own->second = reduced(step.reduce, own->second, value, step.dtype);
      if (source != destination) ++sent[{source, destination}];
    }
  }
}

// What no share arrived at is neutral.
void fill_up(const BoxingStep& step, const Shape& shape, const Placement& to, Held& held) {
  if (!has_partial(step.to)) return;
  for (std::size_t device = 0; device < held.size(); ++device)
    for (const std::int64_t i : box_of(device, step.to, to, shape))
      held[device].try_emplace(i, neutral(reduction_of(step.to)));
}

}  // namespace

std::int64_t rounded(DType dtype, std::int64_t value) {
  const int bits = dtype == DType::kBF16  ? 8
                   : dtype == DType::kF16 ? 11
                   : dtype == DType::kF32 ? 24
                                          : 62;
  std::int64_t unit = 1;
  while (std::abs(value) >= unit << bits) unit *= 2;
  std::int64_t quotient = value / unit;
  const std::int64_t rest = 2 * std::abs(value % unit);
  if (rest > unit || (rest == unit && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  return quotient * unit;
}

std::vector<std::int64_t> indices_of(const Shard& box, const Shape& shape) {
  std::vector<std::int64_t> indices = {0};
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t prefix : indices)
      for (std::int64_t i = box.dims[dim].offset; i < box.dims[dim].end(); ++i)
        longer.push_back(prefix * shape[dim] + i);
    indices = std::move(longer);
  }
  return indices;
}

Spread spread(const Shape& shape, const NdSbp& words, const Placement& placement,
              std::mt19937_64& random, std::int64_t largest) {
  const auto draw = [&] {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * largest + 1)) -
           largest;
  };
  Spread result;
  result.global.resize(static_cast<std::size_t>(shape.elements()));
  for (std::int64_t& value : result.global) value = draw();
  // Copies share what their partial coordinates and their element say.
  std::map<std::pair<std::vector<std::int64_t>, std::int64_t>, std::int64_t> parts;
  std::map<std::int64_t, std::int64_t> left;  // of a sum, for the last part
  std::int64_t num_parts = 1;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_partial()) num_parts *= placement.axes[axis].extent;
  std::map<std::int64_t, std::int64_t> made;
  const ReduceOp op = reduction_of(words);
  for (std::size_t device = 0; device < placement.ranks.size(); ++device) {
    std::vector<std::int64_t> key;
    for (std::size_t axis = 0; axis < words.size(); ++axis)
      if (words[axis].is_partial()) key.push_back(placement.coordinates_of(device)[axis]);
    result.held.emplace_back();
    for (const std::int64_t i : box_of(device, words, placement, shape)) {
      const std::int64_t global = result.global[static_cast<std::size_t>(i)];
      const auto [part, is_new] = parts.try_emplace({key, i}, 0);
      if (is_new) {
        const bool last = ++made[i] == num_parts;
        const std::int64_t distance = draw() + largest;
        switch (op) {
          case ReduceOp::kSum:
            part->second = last ? global - left[i] : draw();
            left[i] += part->second;
            break;
          case ReduceOp::kMax:
            part->second = last ? global : global - distance;
            break;
          case ReduceOp::kMin:
            part->second = last ? global : global + distance;
            break;
        }
      }
      result.held[device][i] = part->second;
    }
  }
  return result;
}

Held execute(const BoxingStep& step, const Shape& shape, const Held& held, const Placement& from,
             const Placement& to, Sent& sent) {
  const Placement& before = step.where == BoxingWhere::kTarget ? to : from;
  const Placement& after = step.where == BoxingWhere::kSource ? from : to;
  switch (step.kind) {
    case BoxingKind::kLocal:
      if (step.where == BoxingWhere::kBetween) return run_relabel(held, from, to);
      return run_local(step, shape, held, before);
    case BoxingKind::kCast:
      return run_cast(step, held);
    case BoxingKind::kCollective:
    case BoxingKind::kTransfer:
      break;
  }
  Held result(after.ranks.size());
  for (const std::vector<Rank>& group : groups_of(step, {shape, step.dtype}, from, to)) {
    const bool is_ring =
        step.kind == BoxingKind::kCollective && step.primitive != Primitive::kAllToAll;
    if (is_ring)
      run_ring(step, shape, group, held, before, result, sent);
    else
      run_moves(step, shape, group, held, before, after, result, sent);
  }
  fill_up(step, shape, after, result);
  return result;
}

std::string complaint(const std::vector<std::int64_t>& global, const Held& held, const Shape& shape,
                      const NdSbp& words, const Placement& placement) {
  // Per element and coordinates on the broadcast axes: the reduction over the partial axes.
  std::map<std::pair<std::vector<std::int64_t>, std::int64_t>, std::int64_t> values;
  std::int64_t copies = 1;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_broadcast()) copies *= placement.axes[axis].extent;
  const ReduceOp op = reduction_of(words);
  std::map<std::pair<std::vector<std::int64_t>, std::int64_t>, std::int64_t> shares;
  for (std::size_t device = 0; device < held.size(); ++device) {
    const std::vector<std::int64_t> wanted = box_of(device, words, placement, shape);
    if (held[device].size() != wanted.size())
      return fmt::format("device {} holds {} elements, wanted {}", device, held[device].size(),
                         wanted.size());
    std::vector<std::int64_t> copy, share;
    for (std::size_t axis = 0; axis < words.size(); ++axis) {
      const std::int64_t coordinate = placement.coordinates_of(device)[axis];
      if (words[axis].is_broadcast()) copy.push_back(coordinate);
      if (words[axis].is_partial()) share.push_back(coordinate);
    }
    for (const std::int64_t i : wanted) {
      if (held[device].count(i) == 0) return fmt::format("device {} lacks element {}", device, i);
      if (shares.try_emplace({share, i}, held[device].at(i)).first->second != held[device].at(i))
        return fmt::format("the copies of element {} differ", i);
      const auto [at, is_new] = values.try_emplace({copy, i}, neutral(op));
      at->second = reduced(op, at->second, held[device].at(i));
    }
  }
  if (static_cast<std::int64_t>(values.size()) != copies * shape.elements())
    return fmt::format("{} elements in {} copies, wanted {} each", values.size(), copies,
                       shape.elements());
  for (const auto& [key, value] : values)
    if (value != global[static_cast<std::size_t>(key.second)])
      return fmt::format("element {} is {}, wanted {}", key.second, value,
                         global[static_cast<std::size_t>(key.second)]);
  return "";
}

}  // namespace sextant::oracle
