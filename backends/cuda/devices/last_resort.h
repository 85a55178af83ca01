// The watch over the ranks of a job that begin and end together: inside a library no rank can look
// for itself.
#pragma once

#include "actor/hosts/agreement_watch.h"
#include "backends/cuda/cuda_exchange.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace sextant {

// Looks every tenth of a second. Where a rank keeps the others waiting it aborts all, on a thread
// of its own; where ranks that were aborted, by whomever, have not ended 4 s later it calls
// `give_up`.
class LastResort {
 public:
  using Say = std::function<void(const std::string&)>;

  // Borrows what it watches. `give_up` may not return; it may be empty.
  LastResort(const CudaExchange& exchange, const AgreementWatch& watched, Say abort, Say give_up);
  // Waits for its threads.
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLook{100};
  // From the abort on: freeing communicators takes half a second each.
  static constexpr std::chrono::seconds kGrace{4};

  void watch();

  const CudaExchange& exchange_;
  const AgreementWatch& watched_;
  const Say abort_, give_up_;
  std::mutex mutex_;  // of is_over_
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread aborting_;
  std::thread watching_;  // last: it uses the others
};

}  // namespace sextant
