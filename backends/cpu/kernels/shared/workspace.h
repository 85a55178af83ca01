// What kernels of one queue use while they run: memory, and the threads of their rank. What they
// need of memory is known before (KernelTable::workspace) and reserved at once; more is taken where
// nobody asked, in tests.
#pragma once

#include "backends/cpu/kernels/shared/team.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace sextant {

class Workspace {
 public:
  // Without a team the caller's thread does all.
  explicit Workspace(Team* team = nullptr) : team_(team) {}

  // Threads that `run` may use; what a kernel keeps by thread it takes so many times.
  std::int64_t threads() const { return team_ == nullptr ? 1 : team_->threads(); }
  // work(piece, thread) for every piece, on the team.
  template <typename Work>
  void run(std::int64_t pieces, const Work& work) {
    if (team_ != nullptr && team_->threads() > 1 && pieces > 1) return team_->run(pieces, work);
    for (std::int64_t piece = 0; piece < pieces; ++piece) work(piece, std::int64_t{0});
  }

  // Uninitialised values, valid until the frame they were taken in ends.
  template <typename T>
  std::span<T> take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(take_bytes(count * sizeof(T))), count};
  }
  // What `take` counts for so many values.
  template <typename T>
  static std::int64_t bytes_of(std::size_t count) {
    return static_cast<std::int64_t>(rounded(count * sizeof(T)));
  }

  // One piece of so many bytes, before anything is taken.
  void reserve(std::int64_t bytes);
  // Most bytes in use at one time since `forget_most`.
  std::int64_t most() const { return static_cast<std::int64_t>(most_); }
  void forget_most() { most_ = used_; }

  // Gives back, when it ends, what was taken since it began.
  class Frame {
   public:
    explicit Frame(Workspace& workspace) : workspace_(workspace), used_(workspace.used_) {}
    ~Frame() { workspace_.used_ = used_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Workspace& workspace_;
    std::size_t used_;
  };

 private:
  static constexpr std::size_t kAlignment = 64;
  static std::size_t rounded(std::size_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::byte* take_bytes(std::size_t size);
  void add_chunk(std::size_t size);

  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t begin = 0, size = 0;  // positions in the sequence of all chunks
  };
  Team* team_;
  std::vector<Chunk> chunks_;
  std::size_t used_ = 0, most_ = 0;
};

}  // namespace sextant
