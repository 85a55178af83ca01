// Steps found by comparing boxes, prices by listing what moves.
#include "tests/sbp/boxing_brute_force.h"

#include "core/costs/communication_volume.h"

#include <algorithm>

namespace sextant::oracle {
namespace {

std::int64_t size(const Shard& box) { return box.local_shape().elements(); }

bool are_equal(const std::vector<Shard>& boxes) {
  return std::all_of(boxes.begin(), boxes.end(),
                     [&](const Shard& box) { return box == boxes.front(); });
}

// Disjoint parts that fill `all`: inside it, and their sizes add up.
bool are_parts(const std::vector<Shard>& parts, const Shard& all) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (size(intersect(parts[i], all)) != size(parts[i])) return false;
    for (std::size_t j = 0; j < i; ++j)
      if (size(intersect(parts[i], parts[j])) != 0) return false;
    sum += size(parts[i]);
  }
  return sum == size(all);
}

bool reduces(Primitive primitive) {
  return primitive == Primitive::kAllReduce || primitive == Primitive::kReduceScatter;
}

std::optional<ReduceOp> pending(const NdSbp& words) {
  for (const Sbp& word : words)
    if (word.is_partial()) return word.reduce;
  return std::nullopt;
}

std::vector<std::int64_t> partial_coordinates(const NdSbp& words, const Placement& placement,
                                              std::size_t device) {
  std::vector<std::int64_t> coordinates;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_partial()) coordinates.push_back(placement.coordinates_of(device)[axis]);
  return coordinates;
}

}  // namespace

WordTable::WordTable(Placement placement, std::vector<NdSbp> words, std::size_t rank)
    : placement_(std::move(placement)),
      generic_(std::vector<std::int64_t>(rank, placement_.size())) {
  for (NdSbp& one : words)
    if (std::all_of(one.begin(), one.end(),
                    [&](const Sbp& word) { return !word.is_split() || word.dim < rank; }))
      words_.push_back(std::move(one));
  for (const NdSbp& from : words_) {
    local_.emplace_back();
    steps_.emplace_back();
    for (const NdSbp& to : words_) {
      local_.back().push_back(find_local(from, to));
      steps_.back().push_back(find_steps(from, to, local_.back().back()));
    }
  }
}

std::size_t WordTable::number_of(const NdSbp& words) const {
  return static_cast<std::size_t>(std::find(words_.begin(), words_.end(), canonical(words)) -
                                  words_.begin());
}

Shard WordTable::box(std::size_t device, const NdSbp& words) const {
  return shard_of(generic_, words, placement_.hierarchy(), placement_.coordinates_of(device));
}

// Every device holds what it is to hold, or holds a slice of what becomes partial.
bool WordTable::find_local(const NdSbp& from, const NdSbp& to) const {
  for (std::size_t axis = 0; axis < from.size(); ++axis)
    if (from[axis].is_partial() && from[axis] != to[axis]) return false;
  // Seen through its new partial axes: the devices along them together hold the box once each.
  std::int64_t held = 0, wanted = 0;
  for (std::size_t device = 0; device < placement_.ranks.size(); ++device) {
    bool counts = true, is_first = true;
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      if (!to[axis].is_partial() || from[axis].is_partial()) continue;
      const bool at_zero = placement_.coordinates_of(device)[axis] == 0;
      is_first = is_first && at_zero;
      if (from[axis].is_broadcast()) counts = counts && at_zero;
    }
    if (counts) held += size(intersect(box(device, from), box(device, to)));
    if (is_first) wanted += size(box(device, to));
  }
  return held == wanted;
}

// An all_to_all runs over as few axes as it can, and only where nothing else will do.
std::vector<BoxingStep> WordTable::find_steps(const NdSbp& from, const NdSbp& to,
                                              bool is_local) const {
  const auto step_over = [&](Primitive primitive, std::size_t set) {
    BoxingStep step;
    step.kind = BoxingKind::kCollective;
    step.primitive = primitive;
    step.from = from;
    step.to = to;
    step.reduce = pending(from).value_or(ReduceOp::kSum);
    for (std::size_t axis = 0; axis < placement_.axes.size(); ++axis)
      if ((set >> axis & 1U) != 0) step.group_axes.push_back(axis);
    return step;
  };
  std::vector<BoxingStep> steps;
  const std::size_t sets = std::size_t{1} << placement_.axes.size();
  for (std::size_t set = 1; set < sets; ++set)
    for (const Primitive primitive :
         {Primitive::kAllGather, Primitive::kReduceScatter, Primitive::kAllReduce}) {
      BoxingStep step = step_over(primitive, set);
      if (keeps_value(step)) steps.push_back(std::move(step));
    }
  const bool is_simple = is_local || !steps.empty();
  std::vector<std::size_t> taken;
  for (std::size_t set = 1; set < sets; ++set) {
    BoxingStep step = step_over(Primitive::kAllToAll, set);
    if (is_simple) break;
    const bool has_smaller = std::any_of(taken.begin(), taken.end(), [&](std::size_t smaller) {
      return (smaller & set) == smaller;
    });
    if (has_smaller || !keeps_value(step)) continue;
    taken.push_back(set);
    steps.push_back(std::move(step));
  }
  return steps;
}

bool WordTable::keeps_value(const BoxingStep& step) const {
  for (std::size_t axis = 0; axis < step.from.size(); ++axis) {
    const bool in_group = std::count(step.group_axes.begin(), step.group_axes.end(), axis) == 1;
    const bool partial_before = step.from[axis].is_partial();
    const bool partial_after = step.to[axis].is_partial();
    if (in_group && (partial_before != reduces(step.primitive) || partial_after)) return false;
    if (!in_group && (partial_before || partial_after) && step.from[axis] != step.to[axis])
      return false;
    const bool slices = step.primitive == Primitive::kAllToAll && step.from[axis].is_broadcast();
    if (!in_group && !slices && step.from[axis].is_split() != step.to[axis].is_split())
      return false;
  }
  for (const std::vector<Rank>& group :
       groups_of(step, {generic_, DType::kI64}, placement_, placement_))
    if (!group_keeps_value(step, group)) return false;
  return true;
}

bool WordTable::group_keeps_value(const BoxingStep& step, const std::vector<Rank>& group) const {
  std::vector<Shard> from, to;
  for (const Rank rank : group) {
    const auto device =
        static_cast<std::size_t>(std::find(placement_.ranks.begin(), placement_.ranks.end(), rank) -
                                 placement_.ranks.begin());
    from.push_back(box(device, step.from));
    to.push_back(box(device, step.to));
  }
  switch (step.primitive) {
    case Primitive::kAllGather:
      return are_equal(to) && are_parts(from, to.front());
    case Primitive::kReduceScatter:
      return are_equal(from) && are_parts(to, from.front());
    case Primitive::kAllReduce:
      return are_equal(from) && are_equal(to) && from.front() == to.front();
    case Primitive::kAllToAll:
      return std::all_of(to.begin(), to.end(),
                         [&](const Shard& wanted) { return covers(from, wanted); });
    case Primitive::kBroadcast:
    case Primitive::kShift:
    case Primitive::kTransfer:
      break;
  }
  return false;
}

// Boxes under the same words are equal or disjoint.
bool WordTable::covers(const std::vector<Shard>& boxes, const Shard& wanted) const {
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i)
    if (std::find(boxes.begin(), boxes.begin() + static_cast<std::ptrdiff_t>(i), boxes[i]) ==
        boxes.begin() + static_cast<std::ptrdiff_t>(i))
      covered += size(intersect(boxes[i], wanted));
  return covered == size(wanted);
}

BruteForce::BruteForce(const WordTable& source, const WordTable& target, const BoxingRequest& types,
                       const NetworkModel* network)
    : source_(source),
      target_(target),
      types_(types),
      network_(network),
      is_one_(&source == &target),
      layers_{types.type.dtype} {
  const DType from = types.type.dtype;
  to_dtype_ = types.to_dtype.value_or(from);
  reduce_dtype_ = types.reduce_dtype.value_or(from);
  for (const DType dtype : {reduce_dtype_, to_dtype_})
    if (std::find(layers_.begin(), layers_.end(), dtype) == layers_.end()) layers_.push_back(dtype);
  const std::size_t nodes =
      layers_.size() * (source.words().size() + (is_one_ ? 0 : target.words().size()));
  cost_.assign(nodes, std::vector<std::int64_t>(nodes, kFar));
  for (std::size_t i = 0; i < nodes; ++i) cost_[i][i] = 0;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    add_steps(source_, false, layer);
    if (is_one_) continue;
    add_steps(target_, true, layer);
    add_crossings(layer);
  }
  add_casts(source_, false);
  if (!is_one_) add_casts(target_, true);
  close();
}

std::size_t BruteForce::node(bool on_target, std::size_t layer, std::size_t words) const {
  const std::size_t first = on_target && !is_one_ ? source_.words().size() : 0;
  const std::size_t both = source_.words().size() + (is_one_ ? 0 : target_.words().size());
  return layer * both + first + words;
}

std::size_t BruteForce::layer_of(DType dtype) const {
  return static_cast<std::size_t>(std::find(layers_.begin(), layers_.end(), dtype) -
                                  layers_.begin());
}

void BruteForce::offer(std::size_t from, std::size_t to, std::int64_t cost) {
  cost_[from][to] = std::min(cost_[from][to], cost);
}

// The largest parts on the slowest device: what is read is no more than what is written.
std::int64_t BruteForce::price_alone(const BoxingStep& step) const {
  if (network_ == nullptr || types_.cost == nullptr || step.where == BoxingWhere::kBetween)
    return 0;
  const Placement& on = (step.where == BoxingWhere::kTarget ? target_ : source_).placement();
  const auto largest = [&](const NdSbp& words) {
    std::int64_t elements = 0;
    for (std::size_t device = 0; device < on.ranks.size(); ++device)
      elements = std::max(elements, size(shard_of(types_.type.shape, words, on.hierarchy(),
                                                  on.coordinates_of(device))));
    return elements;
  };
  Work work{.flops = 0, .read = {}, .written = {}, .kernel = "copy"};
  work.read = size_of(step.dtype) * largest(step.from);
  work.written = size_of(step.to_dtype) * largest(step.to);
  if (step.kind == BoxingKind::kLocal) work.read = std::min(work.read, work.written);
  Duration slowest;
  for (const Rank rank : on.ranks)
    slowest = std::max(slowest, types_.cost->duration_on(rank, work));
  return slowest.value;
}

std::int64_t BruteForce::price(const BoxingPlan& plan) const {
  std::int64_t all = 0;
  for (const BoxingStep& step : plan.steps) all += price(step);
  return all;
}

std::int64_t BruteForce::price_before_communication(const BoxingPlan& plan) const {
  std::int64_t before = 0;
  for (const BoxingStep& step : plan.steps) {
    if (is_communication(step.kind)) break;
    before += price(step);
  }
  return before;
}

std::int64_t BruteForce::price(const BoxingStep& step) const {
  if (!is_communication(step.kind)) return price_alone(step);
  const Placement &from = source_.placement(), &to = target_.placement();
  const TensorType type{types_.type.shape, step.dtype};
  if (network_ == nullptr) {
    std::int64_t bytes = 0;
    for (const PairBytes& pair : reference_volume(step, type, from, to)) bytes += pair.bytes.value;
    return bytes;
  }
  const Placement& before = step.where == BoxingWhere::kTarget ? to : from;
  const Placement& after = step.where == BoxingWhere::kSource ? from : to;
  Communication communication;
  communication.primitive = step.primitive;
  communication.reduce = step.reduce;
  communication.dtype = step.dtype;
  Duration slowest;
  for (const std::vector<Rank>& group : groups_of(step, type, from, to))
    if (group.size() > 1)
      slowest = std::max(slowest, network_->duration(collective_cost(communication, type.shape,
                                                                     {&step.from, &before},
                                                                     {&step.to, &after}, group)));
  return slowest.value;
}

void BruteForce::add_steps(const WordTable& table, bool on_target, std::size_t layer) {
  for (std::size_t from = 0; from < table.words().size(); ++from)
    for (std::size_t to = 0; to < table.words().size(); ++to) {
      if (table.is_local(from, to)) {
        BoxingStep step;
        step.from = table.words()[from];
        step.to = table.words()[to];
        step.where = on_target ? BoxingWhere::kTarget : BoxingWhere::kSource;
        step.dtype = step.to_dtype = layers_[layer];
        offer(node(on_target, layer, from), node(on_target, layer, to), price(step));
      }
      for (BoxingStep step : table.steps(from, to)) {
        if (reduces(step.primitive) && layers_[layer] != reduce_dtype_) continue;
        step.where = on_target ? BoxingWhere::kTarget : BoxingWhere::kSource;
        step.dtype = step.to_dtype = layers_[layer];
        offer(node(on_target, layer, from), node(on_target, layer, to), price(step));
      }
    }
}

void BruteForce::add_crossings(std::size_t layer) {
  for (std::size_t from = 0; from < source_.words().size(); ++from)
    for (std::size_t to = 0; to < target_.words().size(); ++to) {
      const NdSbp &a = source_.words()[from], &b = target_.words()[to];
      const auto before = pending(a), after = pending(b);
      const std::size_t begin = node(false, layer, from), end = node(true, layer, to);
      if (before == after && hold_the_same(a, b)) offer(begin, end, 0);
      if (before && ((after && before != after) || layers_[layer] != reduce_dtype_)) continue;
      BoxingStep step;
      step.kind = BoxingKind::kTransfer;
      step.primitive = Primitive::kTransfer;
      step.where = BoxingWhere::kBetween;
      step.from = a;
      step.to = b;
      step.reduce = before.value_or(ReduceOp::kSum);
      step.dtype = step.to_dtype = layers_[layer];
      offer(begin, end, price(step));
    }
}

// The same box on every device, and whoever held the same share still does.
bool BruteForce::hold_the_same(const NdSbp& from, const NdSbp& to) const {
  const Placement &a = source_.placement(), &b = target_.placement();
  if (a.size() != b.size()) return false;
  std::vector<Shard> boxes;
  std::vector<std::vector<std::int64_t>> shares_before, shares_after;
  for (std::size_t device = 0; device < a.ranks.size(); ++device) {
    const auto found = std::find(b.ranks.begin(), b.ranks.end(), a.ranks[device]);
    if (found == b.ranks.end()) return false;
    const auto other = static_cast<std::size_t>(found - b.ranks.begin());
    const Shard before = shard_of(types_.type.shape, from, a.hierarchy(), a.coordinates_of(device));
    const Shard after = shard_of(types_.type.shape, to, b.hierarchy(), b.coordinates_of(other));
    if (before.is_empty() && after.is_empty()) continue;
    if (before != after) return false;
    boxes.push_back(before);
    shares_before.push_back(partial_coordinates(from, a, device));
    shares_after.push_back(partial_coordinates(to, b, other));
  }
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (boxes[i] == boxes[j] &&
          (shares_before[i] == shares_before[j]) != (shares_after[i] == shares_after[j]))
        return false;
  return true;
}

// Upwards only for partial words; the test gives types of which the wider holds the narrower.
void BruteForce::add_casts(const WordTable& table, bool on_target) {
  const DType from = types_.type.dtype;
  for (const auto& [before, after] : {std::pair(from, reduce_dtype_), std::pair(from, to_dtype_),
                                      std::pair(reduce_dtype_, to_dtype_)})
    for (std::size_t words = 0; words < table.words().size(); ++words)
      if (before != after && (!pending(table.words()[words]) || size_of(before) < size_of(after))) {
        BoxingStep step;
        step.kind = BoxingKind::kCast;
        step.from = step.to = table.words()[words];
        step.where = on_target ? BoxingWhere::kTarget : BoxingWhere::kSource;
        step.dtype = before;
        step.to_dtype = after;
        offer(node(on_target, layer_of(before), words), node(on_target, layer_of(after), words),
              price(step));
      }
}

void BruteForce::close() {
  const std::size_t n = cost_.size();
  for (std::size_t via = 0; via < n; ++via)
    for (std::size_t from = 0; from < n; ++from) {
      if (cost_[from][via] == kFar) continue;
      for (std::size_t to = 0; to < n; ++to)
        cost_[from][to] = std::min(cost_[from][to], cost_[from][via] + cost_[via][to]);
    }
}

std::int64_t BruteForce::cost(const NdSbp& from, const NdSbp& to) const {
  return cost_[node(false, 0, source_.number_of(from))]
              [node(true, layer_of(to_dtype_), target_.number_of(to))];
}

std::int64_t BruteForce::cost_after(const BoxingStep& step, const NdSbp& to) const {
  const bool on_target = !is_one_ && step.where != BoxingWhere::kSource;
  const WordTable& table = on_target ? target_ : source_;
  return cost_[node(on_target, layer_of(step.to_dtype), table.number_of(step.to))]
              [node(true, layer_of(to_dtype_), target_.number_of(to))];
}

}  // namespace sextant::oracle
