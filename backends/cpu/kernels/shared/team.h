// The threads that a rank's kernels run on, when it has more than one core to itself. Kernels cut
// their work into pieces by its size alone, so that results do not depend on how many threads
// there are, and whoever is free takes the next piece.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace sextant {

class Team {
 public:
  // The caller and `threads - 1` helpers, which start with the first work that has pieces for them.
  explicit Team(std::int64_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::int64_t threads() const { return threads_; }

  // work(piece, thread) for every piece below `pieces`, thread below `threads()`; returns when all
  // are done. Of pieces that throw, the exception of the smallest is thrown on. A caller that comes
  // while another one has the helpers does all of its work itself, as thread 0.
  using Work = std::function<void(std::int64_t piece, std::int64_t thread)>;
  void run(std::int64_t pieces, const Work& work);

 private:
  struct Helpers;
  const std::int64_t threads_;
  std::once_flag started_;
  std::unique_ptr<Helpers> helpers_;
};

}  // namespace sextant
