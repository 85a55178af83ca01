// Boxing plans that are made once: a table in front of `plan_large_boxing` for callers that ask for
// the same pairs again and again. Types and placements get small numbers first, so that a known
// plan is found by comparing four integers.
#pragma once

#include "core/base/ids.h"
#include "sbp/boxing.h"
#include "sbp/key.h"
#include "sbp/mesh_state.h"
#include "sbp/word_lists.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sextant {

using BoxedTypeId = Id<struct BoxedTypeTag>;
using BoxedMeshId = Id<struct BoxedMeshTag>;

// Not for several threads at once, and nothing in it is shared: each thread makes its own. The
// models, where there are any, must outlive it. Plans stay where they are until it ends.
class BoxingPlans {
 public:
  // Without a network bytes decide, and without a cost model what devices do alone is free, as in
  // BoxingRequest.
  explicit BoxingPlans(BoxingObjective objective, const NetworkModel* network = nullptr,
                       const CostModel* cost = nullptr)
      : objective_(objective), network_(network), cost_(cost) {}

  // Equal arguments, equal numbers.
  BoxedTypeId type(const TensorType& type, std::optional<DType> to_dtype = {},
                   std::optional<DType> reduce_dtype = {});
  BoxedMeshId placement(const Placement& placement);  // throws Error(kUsage) as `validate`

  // As `plan_large_boxing`, with words in canonical form. Throws what it throws, every time.
  const BoxingPlan& plan(BoxedTypeId type, BoxedMeshId from_mesh, const MeshState& from,
                         BoxedMeshId to_mesh, const MeshState& to) {
    const Lookup lookup{static_cast<std::uint64_t>(type.value) << 32U | pair(from_mesh, to_mesh),
                        from.code(), to.code()};
    const auto known = plans_.find(lookup);
    return known != plans_.end() ? known->second : add(lookup, type, from_mesh, from, to_mesh, to);
  }
  const BoxingPlan& plan(BoxedTypeId type, BoxedMeshId from_mesh, const NdSbp& from,
                         BoxedMeshId to_mesh, const NdSbp& to);

  std::size_t size() const { return plans_.size(); }  // distinct plans

  // What inference keeps from graph to graph, by numbers of types.
  WordLists& word_lists() { return word_lists_; }

 private:
  struct Lookup {
    std::uint64_t type_and_pair, from, to;
    bool operator==(const Lookup&) const = default;
  };
  struct LookupHash {
    std::size_t operator()(const Lookup& lookup) const {
      std::uint64_t hash = lookup.type_and_pair * 0x9E3779B97F4A7C15U;
      hash = (hash ^ hash >> 32U ^ lookup.from) * 0x9E3779B97F4A7C15U;
      hash = (hash ^ hash >> 32U ^ lookup.to) * 0x9E3779B97F4A7C15U;
      return static_cast<std::size_t>(hash ^ hash >> 32U);
    }
  };
  struct Type {
    TensorType type;
    std::optional<DType> to_dtype, reduce_dtype;
  };
  struct Mesh {
    Placement placement;
    std::vector<std::int64_t> extents;
  };
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};

  // Pairs of placements that any plan fits alike have one number.
  std::uint32_t pair(BoxedMeshId from, BoxedMeshId to) {
    const std::vector<std::uint32_t>& row = pairs_[from.index()];
    return to.index() < row.size() && row[to.index()] != kUnknown ? row[to.index()]
                                                                  : add_pair(from, to);
  }
  std::uint32_t add_pair(BoxedMeshId from, BoxedMeshId to);
  const BoxingPlan& add(const Lookup& lookup, BoxedTypeId type, BoxedMeshId from_mesh,
                        const MeshState& from, BoxedMeshId to_mesh, const MeshState& to);

  BoxingObjective objective_;
  const NetworkModel* network_;
  const CostModel* cost_;
  Interner type_numbers_, mesh_numbers_, pair_numbers_;
  Key key_;  // of a type, to keep its storage
  std::vector<Type> types_;
  std::vector<Mesh> meshes_;
  std::vector<std::vector<std::uint32_t>> pairs_;  // by source, then target
  std::unordered_map<Lookup, BoxingPlan, LookupHash> plans_;
  WordLists word_lists_;
};

}  // namespace sextant
