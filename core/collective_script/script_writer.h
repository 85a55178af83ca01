// The lines of one member's script as they come: places, local steps, calls, staging. What a
// primitive does with them is collective_script.cpp.
#pragma once

#include "core/base/units.h"
#include "core/collective_script/collective_script.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sextant {

// One dim of so many elements.
Shard flat_box(std::int64_t elements);
// Elements from the begin of a buffer of `box` to the first of `part`, which lies inside.
std::int64_t offset_of(const Shard& part, const Shard& box);
// Whether `part` is without gaps in a buffer of `box`, in which it lies.
bool lies_packed(const Shard& part, const Shard& box);

// A box of memory: where it begins, and which global indices it holds.
struct Held {
  ScriptPlace begin;
  Shard box;
};

class ScriptWriter {
 public:
  // Borrows the communication. `in_box`, `out_box`: what the member has and gets. With `accumulate`
  // the result is added to the output.
  ScriptWriter(const Communication& communication, Shard in_box, Shard out_box, bool accumulate);

  bool accumulates() const { return accumulate_; }
  const Shard& in_box() const { return in_box_; }
  const Shard& out_box() const { return out_box_; }
  Held in() const { return {{ScriptPlace::Buffer::kIn, Bytes(0)}, in_box_}; }
  Held out() const { return {{ScriptPlace::Buffer::kOut, Bytes(0)}, out_box_}; }
  // Of parts of one size, one behind the other from `parts` on: that of a member.
  Held part_of(const ScriptPlace& parts, std::size_t member, const Shard& box) const;

  // Scratch for so many elements, aligned, that nothing else has.
  ScriptPlace staging(std::int64_t elements);
  Held staging_of(const Shard& box) { return {staging(box.elements()), box}; }

  // Local steps for the indices of `part`, which both sides hold; none where it is empty.
  void copy_before(const Shard& part, const Held& from, const Held& to);
  void copy_after(const Shard& part, const Held& from, const Held& to);
  void reduce(const Shard& part, const Held& from, const Held& to);
  void fill(ReduceOp op, const Held& to);
  // A result to its place in the output.
  void deliver(const Shard& part, const Held& from, const Held& to);

  // A ring's call: of all_gather and reduce_scatter the elements of one part.
  void call(ExchangeCall::Kind kind, const ScriptPlace& from, const ScriptPlace& to,
            std::int64_t elements);
  // To a member and from one, by position in the group; packed.
  void send(std::size_t peer, const ScriptPlace& from, std::int64_t elements);
  void receive(std::size_t peer, const ScriptPlace& to, std::int64_t elements);
  // Of the input; packs first what does not lie packed.
  void send_part(std::size_t peer, const Shard& part);
  // Into staging of its own.
  Held receive_aside(std::size_t peer, const Shard& part);
  // Straight into the output where that may be; see invariant 4 for when it is asked.
  void receive_into_output(std::size_t peer, const Shard& part);

  CollectiveScript take() { return std::move(script_); }

 private:
  ScriptPlace place_in(const Held& held, const Shard& part) const;
  void add_step(std::vector<LocalStep>& steps, LocalStep::Kind kind, ReduceOp op, const Shard& part,
                const Held& from, const Held& to) const;
  ReduceOp ring_op() const;

  const Communication& communication_;
  const Shard in_box_, out_box_;
  const bool accumulate_;
  const Bytes element_size_;
  CollectiveScript script_;
};

}  // namespace sextant
