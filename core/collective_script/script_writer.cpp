// Boxes become strided steps.
#include "core/collective_script/script_writer.h"

#include <utility>

namespace sextant {
namespace {

using Buffer = ScriptPlace::Buffer;
using Call = ExchangeCall::Kind;
using Step = LocalStep::Kind;

std::vector<std::int64_t> strides_of(const Shard& box) {
  std::vector<std::int64_t> strides(box.dims.size(), 1);
  for (std::size_t dim = strides.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * box.dims[dim].extent;
  return strides;
}

// Without dims of one element; a dim that continues the one behind it on both sides is merged.
std::vector<ScriptDim> merged_dims(const std::vector<ScriptDim>& dims) {
  std::vector<ScriptDim> result;
  for (const ScriptDim& dim : dims) {
    if (dim.extent == 1) continue;
    if (!result.empty() && result.back().from == dim.from * dim.extent &&
        result.back().to == dim.to * dim.extent)
      result.back() = {result.back().extent * dim.extent, dim.from, dim.to};
    else
      result.push_back(dim);
  }
  return result;
}

}  // namespace

Shard flat_box(std::int64_t elements) {
  Shard box;
  box.dims.push_back({.offset = 0, .extent = elements});
  return box;
}

std::int64_t offset_of(const Shard& part, const Shard& box) {
  const std::vector<std::int64_t> strides = strides_of(box);
  std::int64_t offset = 0;
  for (std::size_t dim = 0; dim < strides.size(); ++dim)
    offset += (part.dims[dim].offset - box.dims[dim].offset) * strides[dim];
  return offset;
}

bool lies_packed(const Shard& part, const Shard& box) {
  const std::vector<std::int64_t> strides = strides_of(box);
  std::int64_t expected = 1;
  for (std::size_t dim = strides.size(); dim-- > 0;) {
    if (part.dims[dim].extent == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= part.dims[dim].extent;
  }
  return true;
}

ScriptWriter::ScriptWriter(const Communication& communication, Shard in_box, Shard out_box,
                           bool accumulate)
    : communication_(communication),
      in_box_(std::move(in_box)),
      out_box_(std::move(out_box)),
      accumulate_(accumulate),
      element_size_(size_of(communication.dtype)) {
  script_.dtype = communication.dtype;
}

ScriptPlace ScriptWriter::place_in(const Held& held, const Shard& part) const {
  return {held.begin.buffer, held.begin.offset + element_size_ * offset_of(part, held.box)};
}

Held ScriptWriter::part_of(const ScriptPlace& parts, std::size_t member, const Shard& box) const {
  const std::int64_t before = static_cast<std::int64_t>(member) * box.elements();
  return {{parts.buffer, parts.offset + element_size_ * before}, box};
}

ScriptPlace ScriptWriter::staging(std::int64_t elements) {
  const ScriptPlace place{Buffer::kStaging, script_.staging};
  script_.staging += Bytes(aligned((element_size_ * elements).value));
  return place;
}

void ScriptWriter::add_step(std::vector<LocalStep>& steps, Step kind, ReduceOp op,
                            const Shard& part, const Held& from, const Held& to) const {
  if (part.is_empty()) return;
  const std::vector<std::int64_t> source = strides_of(from.box), target = strides_of(to.box);
  std::vector<ScriptDim> dims;
  for (std::size_t dim = 0; dim < part.dims.size(); ++dim)
    dims.push_back({part.dims[dim].extent, source[dim], target[dim]});
  steps.push_back({kind, op, place_in(from, part), place_in(to, part), merged_dims(dims)});
}

void ScriptWriter::copy_before(const Shard& part, const Held& from, const Held& to) {
  add_step(script_.before, Step::kCopy, ReduceOp::kSum, part, from, to);
}

void ScriptWriter::copy_after(const Shard& part, const Held& from, const Held& to) {
  add_step(script_.after, Step::kCopy, ReduceOp::kSum, part, from, to);
}

void ScriptWriter::reduce(const Shard& part, const Held& from, const Held& to) {
  add_step(script_.after, Step::kReduce, communication_.reduce, part, from, to);
}

void ScriptWriter::fill(ReduceOp op, const Held& to) {
  add_step(script_.after, Step::kFill, op, to.box, to, to);
}

void ScriptWriter::deliver(const Shard& part, const Held& from, const Held& to) {
  add_step(script_.after, accumulate_ ? Step::kReduce : Step::kCopy, ReduceOp::kSum, part, from,
           to);
}

// Flags that are added are joined by "or", which is the largest of bytes.
ReduceOp ScriptWriter::ring_op() const {
  const bool is_or =
      communication_.dtype == DType::kBool && communication_.reduce == ReduceOp::kSum;
  return is_or ? ReduceOp::kMax : communication_.reduce;
}

void ScriptWriter::call(Call kind, const ScriptPlace& from, const ScriptPlace& to,
                        std::int64_t elements) {
  script_.exchange.push_back({kind, ring_op(), -1, from, to, elements});
}

void ScriptWriter::send(std::size_t peer, const ScriptPlace& from, std::int64_t elements) {
  script_.exchange.push_back(
      {Call::kSend, ReduceOp::kSum, static_cast<std::int32_t>(peer), from, {}, elements});
}

void ScriptWriter::receive(std::size_t peer, const ScriptPlace& to, std::int64_t elements) {
  script_.exchange.push_back(
      {Call::kReceive, ReduceOp::kSum, static_cast<std::int32_t>(peer), {}, to, elements});
}

void ScriptWriter::send_part(std::size_t peer, const Shard& part) {
  if (part.is_empty()) return;
  if (lies_packed(part, in_box_)) return send(peer, place_in(in(), part), part.elements());
  const Held packed = staging_of(part);
  copy_before(part, in(), packed);
  send(peer, packed.begin, part.elements());
}

Held ScriptWriter::receive_aside(std::size_t peer, const Shard& part) {
  const Held packed = staging_of(part);
  if (!part.is_empty()) receive(peer, packed.begin, part.elements());
  return packed;
}

void ScriptWriter::receive_into_output(std::size_t peer, const Shard& part) {
  if (part.is_empty()) return;
  if (!accumulate_ && lies_packed(part, out_box_))
    return receive(peer, place_in(out(), part), part.elements());
  deliver(part, receive_aside(peer, part), out());
}

}  // namespace sextant
