// The threads that a rank's kernels run on, when it has more than one core to itself. Kernels cut
// their work into pieces by its size alone, so that results do not depend on how many threads
// there are, and whoever is free takes the next piece.
#pragma once

#include "actor/hosts/reused_thread.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace sextant {

class Team {
 public:
  // How a helper is started; throws when it cannot be. Tests give another than ReusedThread's.
  using Start = std::function<ReusedThread(std::function<void()> work)>;

  // The caller and `threads - 1` helpers, which start with the first work that has pieces for them.
  // Of helpers that cannot be started the team does without.
  explicit Team(std::int64_t threads);
  Team(std::int64_t threads, Start start);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The bound of thread numbers, whether or not all could be started.
  std::int64_t threads() const { return threads_; }

  // work(piece, thread) for every piece below `pieces`, thread below `threads()`; returns when all
  // are done. Of pieces that throw, the exception of the smallest is thrown on. A caller that comes
  // while another one has the helpers does all of its work itself, as thread 0. A piece must not
  // run work on a team, this or another: it would be thread 0 a second time, and what thread 0
  // keeps is in use. Checked builds end at it.
  using Work = std::function<void(std::int64_t piece, std::int64_t thread)>;
  void run(std::int64_t pieces, const Work& work);

  // Pieces of the largest work so far: whether there was anything to share.
  std::int64_t most_pieces() const { return most_pieces_; }

 private:
  struct Helpers;
  void note(std::int64_t pieces);

  const std::int64_t threads_;
  const Start start_;
  std::once_flag started_;
  std::unique_ptr<Helpers> helpers_;
  std::atomic<std::int64_t> most_pieces_{0};
};

}  // namespace sextant
