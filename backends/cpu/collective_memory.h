// The memory that collectives run on (collectives.cpp): real buffers, those of one process of
// several, or a dry one that only looks at offsets. Internal to backends/cpu.
//
// All have the same questions and acts: a member's input and output, scratch, values that are
// passed on, and copies and reductions of parts of boxes. `kLongestPiece`: elements of a sum that
// are moved at a time.
#pragma once

#include "backends/cpu/collectives.h"
#include "backends/cpu/kernels/shared/boxes.h"
#include "core/base/check.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// Bytes of its own that an algorithm works in.
class ScratchBytes {
 public:
  std::byte* scratch(std::size_t bytes) { return scratch_.emplace_back(bytes).data(); }
  // For the `number`-th piece, until the next one of that number.
  std::byte* piece(std::size_t number, std::size_t bytes) {
    if (pieces_.size() <= number) pieces_.resize(number + 1);
    pieces_[number].resize(bytes);
    return pieces_[number].data();
  }

 private:
  std::vector<std::vector<std::byte>> scratch_, pieces_;
};

class RealMemory {
 public:
  using Address = std::byte*;
  // All outputs get one piece of a sum before the next is summed, so no sum is there as a whole.
  static constexpr std::int64_t kLongestPiece = std::int64_t{1} << 16;

  RealMemory(std::span<const MemberBuffers> members, DType dtype)
      : members_(members), dtype_(dtype) {}

  Address in(std::size_t member) const { return const_cast<std::byte*>(members_[member].in); }
  Address out(std::size_t member) const { return members_[member].out; }
  bool takes(std::size_t member) const { return members_[member].out != nullptr; }
  bool accumulates(std::size_t member) const { return members_[member].accumulate; }
  Address scratch(std::int64_t elements) {
    return own_.scratch(static_cast<std::size_t>(elements * size_of(dtype_).value));
  }
  // Scratch for the `number`-th piece, until the next one of that number.
  Address piece(std::size_t number, std::int64_t elements) {
    return own_.piece(number, static_cast<std::size_t>(elements * size_of(dtype_).value));
  }
  bool is_here(std::size_t) const { return true; }
  // A member's input as a value that is passed on.
  Address travelling(std::size_t member, std::int64_t) { return in(member); }
  void pass(std::size_t, std::size_t, Address, std::int64_t) {}
  // `part` of a member's input, for another member.
  std::pair<Address, const Shard*> fetch(std::size_t source, std::size_t, const Shard& box,
                                         const Shard&) {
    return {in(source), &box};
  }
  void fill(ReduceOp op, Address to, std::int64_t elements) {
    fill_neutral(op, dtype_, to, elements);
  }
  void copy(const Shard& part, Address from, const Shard& from_box, Address to,
            const Shard& to_box) {
    copy_box(part, {from, &from_box}, {to, &to_box}, dtype_);
  }
  void reduce(ReduceOp op, const Shard& part, Address from, const Shard& from_box, Address to,
              const Shard& to_box) {
    reduce_box(op, part, {from, &from_box}, {to, &to_box}, dtype_);
  }

 private:
  std::span<const MemberBuffers> members_;
  DType dtype_;
  ScratchBytes own_;
};

// The buffers of this process's members. A scratch exists in each process, and holds what was
// passed to it last; what another process's members do is left out.
class SpreadMemory {
 public:
  struct Address {
    std::byte* data = nullptr;  // nullptr: in another process
    bool is_input = false;      // whoever passes it on finds the same there
  };
  static constexpr std::int64_t kLongestPiece = RealMemory::kLongestPiece;

  SpreadMemory(std::span<const MemberBuffers> members, DType dtype, MemberLinks& links)
      : members_(members), dtype_(dtype), links_(links) {}

  Address in(std::size_t member) const {
    return {const_cast<std::byte*>(members_[member].in), true};
  }
  Address out(std::size_t member) const { return {members_[member].out}; }
  bool takes(std::size_t member) const { return members_[member].out != nullptr; }
  bool accumulates(std::size_t member) const { return members_[member].accumulate; }
  bool is_here(std::size_t member) const { return links_.home(member) == links_.here(); }
  Address scratch(std::int64_t elements) { return {own_.scratch(bytes_of(elements))}; }
  Address piece(std::size_t number, std::int64_t elements) {
    return {own_.piece(number, bytes_of(elements))};
  }
  Address travelling(std::size_t member, std::int64_t elements) {
    return is_here(member) ? in(member) : scratch(elements);
  }
  void pass(std::size_t source, std::size_t destination, Address value, std::int64_t elements) {
    const std::size_t from = links_.home(source), to = links_.home(destination);
    if (from == to || elements == 0) return;
    const std::span bytes(value.data, bytes_of(elements));
    if (from == links_.here()) links_.send(to, bytes);
    if (to != links_.here()) return;
    // Where the value began it comes round again, and others may be reading it.
    if (value.is_input) received_.resize(bytes.size());
    links_.receive(from, value.is_input ? std::span(received_) : bytes);
  }
  std::pair<Address, const Shard*> fetch(std::size_t source, std::size_t destination,
                                         const Shard& box, const Shard& part) {
    const std::size_t from = links_.home(source), to = links_.home(destination);
    if (from == to) return {in(source), &box};
    received_.resize(bytes_of(part.elements()));
    if (from == links_.here()) {
      copy_box(part, {in(source).data, &box}, {received_.data(), &part}, dtype_);
      links_.send(to, received_);
    }
    if (to != links_.here()) return {Address{}, &part};
    links_.receive(from, received_);
    return {Address{received_.data()}, &part};
  }
  void fill(ReduceOp op, Address to, std::int64_t elements) {
    fill_neutral(op, dtype_, to.data, elements);
  }
  void copy(const Shard& part, Address from, const Shard& from_box, Address to,
            const Shard& to_box) {
    if (from.data == nullptr || to.data == nullptr) return;
    copy_box(part, {from.data, &from_box}, {to.data, &to_box}, dtype_);
  }
  void reduce(ReduceOp op, const Shard& part, Address from, const Shard& from_box, Address to,
              const Shard& to_box) {
    if (from.data == nullptr || to.data == nullptr) return;
    reduce_box(op, part, {from.data, &from_box}, {to.data, &to_box}, dtype_);
  }

 private:
  std::size_t bytes_of(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * size_of(dtype_).value);
  }

  std::span<const MemberBuffers> members_;
  DType dtype_;
  MemberLinks& links_;
  ScratchBytes own_;
  std::vector<std::byte> received_;
};

// Every piece is a scratch of its own, and a part one piece: whoever follows bytes meets each once.
class DryMemory {
 public:
  using Address = ByteMove::Place;
  static constexpr std::int64_t kLongestPiece = std::numeric_limits<std::int64_t>::max();

  DryMemory(DType dtype, const ByteMoveVisitor& visit) : dtype_(dtype), visit_(visit) {}

  Address in(std::size_t member) const { return {ByteMove::Buffer::kIn, member}; }
  Address out(std::size_t member) const { return {ByteMove::Buffer::kOut, member}; }
  bool takes(std::size_t) const { return true; }
  bool accumulates(std::size_t) const { return false; }
  Address scratch(std::int64_t elements) {
    static_cast<void>(byte_offset(elements));
    return {ByteMove::Buffer::kScratch, num_scratch_++};
  }
  Address piece(std::size_t, std::int64_t elements) { return scratch(elements); }
  bool is_here(std::size_t) const { return true; }
  Address travelling(std::size_t member, std::int64_t) { return in(member); }
  void pass(std::size_t, std::size_t, Address, std::int64_t) {}
  std::pair<Address, const Shard*> fetch(std::size_t source, std::size_t, const Shard& box,
                                         const Shard&) {
    return {in(source), &box};
  }
  void fill(ReduceOp, Address, std::int64_t) {}
  void copy(const Shard& part, Address from, const Shard& from_box, Address to,
            const Shard& to_box) {
    for_each_row(part, from_box, to_box, [&](std::int64_t a, std::int64_t b, std::int64_t count) {
      check_inside(a, count, from_box);
      check_inside(b, count, to_box);
      from.offset = byte_offset(a);
      to.offset = byte_offset(b);
      visit_({from, to, byte_offset(count)});
    });
  }
  void reduce(ReduceOp, const Shard& part, Address from, const Shard& from_box, Address to,
              const Shard& to_box) {
    copy(part, from, from_box, to, to_box);
  }

 private:
  Bytes byte_offset(std::int64_t elements) const {
    std::int64_t bytes = 0;
    const bool overflows = __builtin_mul_overflow(elements, size_of(dtype_).value, &bytes);
    require(!overflows, ErrorCode::kInternal, "{} elements of {} have no byte offset", elements,
            to_string(dtype_));
    return Bytes(bytes);
  }
  void check_inside(std::int64_t first, std::int64_t count, const Shard& box) const {
    require(first >= 0 && count >= 0 && first <= box.elements() - count, ErrorCode::kInternal,
            "{} elements from {} on leave a buffer of {}", count, first, box.elements());
  }

  DType dtype_;
  const ByteMoveVisitor& visit_;
  std::size_t num_scratch_ = 0;
};

}  // namespace sextant
