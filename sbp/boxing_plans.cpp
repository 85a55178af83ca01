// Numbers for types, placements and pairs of placements, and the plans behind them.
#include "sbp/boxing_plans.h"

#include "sbp/boxing_slices.h"

#include <algorithm>

namespace sextant {
namespace {

std::uint64_t number_of(std::optional<DType> dtype) {
  return dtype ? static_cast<std::uint64_t>(*dtype) + 1 : 0;
}

void append(Key& key, const std::vector<std::int64_t>& numbers) {
  key.push_back(numbers.size());
  for (const std::int64_t number : numbers) key.push_back(static_cast<std::uint64_t>(number));
}

// Ranks mostly are in order.
template <typename Value>
void sort_if_needed(std::vector<Value>& values) {
  if (!std::is_sorted(values.begin(), values.end())) std::sort(values.begin(), values.end());
}

void append_ranks(Key& key, const Placement& placement) {
  for (const Rank rank : placement.ranks) key.push_back(static_cast<std::uint64_t>(rank.value));
}

// All that times depend on: where the devices are and of what kind. Bounds look for near devices in
// order of rank, so that order counts as well.
void append_places(Key& key, const Placement& from, const Placement& to,
                   const NetworkModel& network, const CostModel* cost) {
  std::vector<Rank> ranks = from.ranks;
  ranks.insert(ranks.end(), to.ranks.begin(), to.ranks.end());
  for (const std::int64_t place : network.places_of(ranks))
    key.push_back(static_cast<std::uint64_t>(place));
  std::vector<Rank> sorted = ranks;
  sort_if_needed(sorted);
  for (const Rank rank : ranks) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), rank);
    key.push_back(static_cast<std::uint64_t>(at - sorted.begin()));
    if (cost != nullptr) key.push_back(static_cast<std::uint64_t>(cost->colour_of(rank)));
  }
}

// For every device of the target its position in the source + 1, or 0.
void append_shared(Key& key, const Placement& from, const Placement& to) {
  std::vector<std::pair<Rank, std::uint64_t>> positions;
  for (const Rank rank : from.ranks) positions.emplace_back(rank, positions.size() + 1);
  sort_if_needed(positions);
  for (const Rank rank : to.ranks) {
    const auto at =
        std::lower_bound(positions.begin(), positions.end(), std::pair{rank, std::uint64_t{0}});
    key.push_back(at != positions.end() && at->first == rank ? at->second : 0);
  }
}

}  // namespace

BoxedTypeId BoxingPlans::type(const TensorType& type, std::optional<DType> to_dtype,
                              std::optional<DType> reduce_dtype) {
  key_.assign(
      {static_cast<std::uint64_t>(type.dtype), number_of(to_dtype), number_of(reduce_dtype)});
  append(key_, type.shape.extents());
  const auto number = static_cast<std::size_t>(type_numbers_.of(key_));
  if (number == types_.size()) types_.push_back({type, to_dtype, reduce_dtype});
  return BoxedTypeId(number);
}

BoxedMeshId BoxingPlans::placement(const Placement& placement) {
  validate(placement);
  Mesh mesh{placement, placement.hierarchy()};
  Key key;  // without the names of axes: no cost depends on them
  append(key, mesh.extents);
  append_ranks(key, placement);
  const auto number = static_cast<std::size_t>(mesh_numbers_.of(key));
  if (number == meshes_.size()) {
    meshes_.push_back(std::move(mesh));
    pairs_.emplace_back();
  }
  return BoxedMeshId(number);
}

// Bytes depend on which devices are shared, time also on where each of them is: the stages of a
// pipeline mostly lie alike.
std::uint32_t BoxingPlans::add_pair(BoxedMeshId from, BoxedMeshId to) {
  const Mesh &source = meshes_[from.index()], &target = meshes_[to.index()];
  Key key;
  append(key, source.extents);
  append(key, target.extents);
  append_shared(key, source.placement, target.placement);
  if (network_ != nullptr) append_places(key, source.placement, target.placement, *network_, cost_);
  std::vector<std::uint32_t>& row = pairs_[from.index()];
  if (row.size() <= to.index()) row.resize(meshes_.size(), kUnknown);
  return row[to.index()] = static_cast<std::uint32_t>(pair_numbers_.of(key));
}

const BoxingPlan& BoxingPlans::add(const Lookup& lookup, BoxedTypeId type, BoxedMeshId from_mesh,
                                   const MeshState& from, BoxedMeshId to_mesh,
                                   const MeshState& to) {
  const Type& boxed = types_[type.index()];
  const Mesh &source = meshes_[from_mesh.index()], &target = meshes_[to_mesh.index()];
  const BoxingRequest request{.type = boxed.type,
                              .from_placement = &source.placement,
                              .to_placement = &target.placement,
                              .from = from.words(source.extents.size()),
                              .to = to.words(target.extents.size()),
                              .to_dtype = boxed.to_dtype,
                              .reduce_dtype = boxed.reduce_dtype,
                              .objective = objective_,
                              .network = network_,
                              .cost = cost_};
  return plans_.emplace(lookup, plan_large_boxing(request)).first->second;
}

const BoxingPlan& BoxingPlans::plan(BoxedTypeId type, BoxedMeshId from_mesh, const NdSbp& from,
                                    BoxedMeshId to_mesh, const NdSbp& to) {
  const Shape& shape = types_[type.index()].type.shape;
  return plan(type, from_mesh, MeshState(from, meshes_[from_mesh.index()].extents, shape), to_mesh,
              MeshState(to, meshes_[to_mesh.index()].extents, shape));
}

}  // namespace sextant
