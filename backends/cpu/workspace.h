// Memory that kernels of one queue use while they run. It grows in the first step and is kept, so
// later steps allocate nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace sextant {

class Workspace {
 public:
  // Uninitialised values, valid until the frame they were taken in ends.
  template <typename T>
  std::span<T> take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(take_bytes(count * sizeof(T))), count};
  }

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
  std::byte* take_bytes(std::size_t size);

  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t begin = 0, size = 0;  // positions in the sequence of all chunks
  };
  std::vector<Chunk> chunks_;
  std::size_t used_ = 0;
};

}  // namespace sextant
