// Issue times are of the launch thread, begin and end are stamps of the device.
#include "simulator/recordings/recording_device.h"

#include "core/base/check.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {

RecordingDevice::RecordingDevice(Device& device, Rank rank, DeviceClock now)
    : device_(device), rank_(rank), now_(std::move(now)) {}

void RecordingDevice::launch(std::span<const Launch> group, std::span<Fence> done) {
  const Time issued = now_();
  device_.launch(group, done);
  for (std::size_t i = 0; i < group.size(); ++i) {
    RecordedLaunch launch;
    launch.rank = rank_;
    launch.run = group[i].run;
    launch.step = group[i].step;
    launch.queue = done[i].queue;
    launch.issued = issued;
    launch.waits.assign(group[i].waits.begin(), group[i].waits.end());
    launches_.push_back(std::move(launch));
  }
}

std::vector<RecordedLaunch> RecordingDevice::launches() {
  std::map<std::pair<std::int64_t, RunId>, const Stamp*> stamps;
  for (const Stamp& stamp : device_.stamps()) stamps[{stamp.step, stamp.run}] = &stamp;
  std::vector<RecordedLaunch> all = launches_;
  for (RecordedLaunch& launch : all) {
    const auto stamp = stamps.find({launch.step, launch.run});
    require(stamp != stamps.end(), ErrorCode::kInternal,
            "rank {}: the device has no stamp of run {} of step {}", rank_.value, launch.run.value,
            launch.step);
    launch.begin = stamp->second->begin;
    launch.end = stamp->second->end;
  }
  return all;
}

void RecordingHost::act(const HostAct& act) {
  const Time begin = now_();
  host_.act(act);
  const Time end = now_();
  const std::lock_guard lock(mutex_);
  acts_.push_back({act.rank, act.actor->name, act.step, act.act, begin, end});
}

std::vector<RecordedHostAct> RecordingHost::acts() const {
  const std::lock_guard lock(mutex_);
  std::vector<RecordedHostAct> sorted = acts_;
  std::sort(sorted.begin(), sorted.end(), [](const RecordedHostAct& a, const RecordedHostAct& b) {
    return std::tie(a.rank, a.step, a.actor, a.act) < std::tie(b.rank, b.step, b.actor, b.act);
  });
  return sorted;
}

}  // namespace sextant
