// The cheapest boxing by trying everything: all words of both placements, every step of the table
// in sbp/README.md between them, shortest paths by Floyd and Warshall. Shares no code with the
// planner: which steps keep the value is found by comparing boxes, what they cost by listing what
// moves.
#pragma once

#include "core/costs/cost_model.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"
#include "sbp/boxing.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace sextant::oracle {

// One placement and the words that may occur on it, with what holds for tensors of any extents.
class WordTable {
 public:
  // `rank`: of the tensors; only the words that fit are kept.
  WordTable(Placement placement, std::vector<NdSbp> words, std::size_t rank);

  const Placement& placement() const { return placement_; }
  const std::vector<NdSbp>& words() const { return words_; }
  std::size_t number_of(const NdSbp& words) const;

  bool is_local(std::size_t from, std::size_t to) const { return local_[from][to]; }
  // Collectives that keep the value.
  const std::vector<BoxingStep>& steps(std::size_t from, std::size_t to) const {
    return steps_[from][to];
  }

 private:
  Shard box(std::size_t device, const NdSbp& words) const;
  bool find_local(const NdSbp& from, const NdSbp& to) const;
  std::vector<BoxingStep> find_steps(const NdSbp& from, const NdSbp& to, bool is_local) const;
  bool keeps_value(const BoxingStep& step) const;
  bool group_keeps_value(const BoxingStep& step, const std::vector<Rank>& group) const;
  bool covers(const std::vector<Shard>& boxes, const Shard& wanted) const;

  Placement placement_;
  std::vector<NdSbp> words_;
  Shape generic_;  // its extents divide by all numbers of parts, so that no boxes agree by chance
  std::vector<std::vector<bool>> local_;
  std::vector<std::vector<std::vector<BoxingStep>>> steps_;
};

class BruteForce {
 public:
  static constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;

  // Both may be the same table. By time if there is a network, else by bytes. The element types are
  // those of the request: its type, its to_dtype and reduce_dtype; what devices do alone costs what
  // its cost model says. Of words it uses nothing.
  BruteForce(const WordTable& source, const WordTable& target, const BoxingRequest& types,
             const NetworkModel* network);

  // Picoseconds or bytes; kFar where no steps lead there.
  std::int64_t cost(const NdSbp& from, const NdSbp& to) const;
  // From the end of `step`, a step of a plan, to the target.
  std::int64_t cost_after(const BoxingStep& step, const NdSbp& to) const;
  std::int64_t price(const BoxingStep& step) const;
  // Of all steps.
  std::int64_t price(const BoxingPlan& plan) const;

  // Of what comes before the first communication.
  std::int64_t price_before_communication(const BoxingPlan& plan) const;

 private:
  std::int64_t price_alone(const BoxingStep& step) const;
  std::size_t node(bool on_target, std::size_t layer, std::size_t words) const;
  std::size_t layer_of(DType dtype) const;
  void add_steps(const WordTable& table, bool on_target, std::size_t layer);
  void add_crossings(std::size_t layer);
  void add_casts(const WordTable& table, bool on_target);
  void close();
  void offer(std::size_t from, std::size_t to, std::int64_t cost);
  bool hold_the_same(const NdSbp& from, const NdSbp& to) const;

  const WordTable& source_;
  const WordTable& target_;
  BoxingRequest types_;
  const NetworkModel* network_;
  bool is_one_;
  std::vector<DType> layers_;
  DType reduce_dtype_, to_dtype_;
  std::vector<std::vector<std::int64_t>> cost_;
};

}  // namespace sextant::oracle
