// An abort may not come back from a library, so this thread only looks.
#include "backends/cuda/devices/last_resort.h"

#include <optional>
#include <utility>

namespace sextant {

LastResort::LastResort(const CudaExchange& exchange, const AgreementWatch& watched, Say abort,
                       Say give_up)
    : exchange_(exchange),
      watched_(watched),
      abort_(std::move(abort)),
      give_up_(std::move(give_up)),
      watching_([this] { watch(); }) {}

LastResort::~LastResort() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  watching_.join();
  if (aborting_.joinable()) aborting_.join();
}

void LastResort::watch() {
  std::optional<Clock::time_point> ends_by;
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, kLook, [this] { return is_over_; })) {
    const Clock::time_point now = Clock::now();
    const std::optional<std::string> late = ends_by ? std::nullopt : watched_.late();
    if (late) aborting_ = std::thread([this, reason = *late] { abort_(reason); });
    const std::optional<std::string> reason = exchange_.abort_reason();
    if ((late || reason) && !ends_by) ends_by = now + kGrace;
    if (!ends_by || now <= *ends_by) continue;
    if (give_up_) give_up_(reason.value_or("ranks did not end"));
    return;
  }
}

}  // namespace sextant
