// Clocks of processes are brought together when the run is over.
#include "cli/training/launch_recording.h"

#include "core/base/check.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

Time machine_now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return Time(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count() * 1000);
}

Time clock_of(RunDevices& devices) {
  const auto now = devices.now();
  require(now.has_value(), ErrorCode::kInternal, "devices without a clock cannot be recorded");
  return *now;
}

// What is to be added to the times of this process. Processes of one machine share its clock; those
// of others take the end of a meeting for one moment.
Duration shift_of(RunDevices& devices, RunProcesses& processes) {
  processes.gather("");
  const Time met = machine_now();
  const Time epoch = machine_now() - clock_of(devices);
  const std::string own =
      Json{{"epoch", epoch.value}, {"met", met.value}, {"same", processes.is_beside_first()}}
          .dump();
  std::vector<Json> clocks;
  for (const std::string& text : processes.gather(own)) clocks.push_back(Json::parse(text));
  const auto shift = [&clocks](const Json& clock) {
    const auto first_met = clocks.front().at("met").get<std::int64_t>();
    const auto met_here = clock.at("met").get<std::int64_t>();
    const auto apart = clock.at("same").get<bool>() ? 0 : first_met - met_here;
    return clock.at("epoch").get<std::int64_t>() + apart;
  };
  std::int64_t first = shift(clocks.front());
  for (const Json& clock : clocks) first = std::min(first, shift(clock));
  return Duration(shift(Json::parse(own)) - first);
}

}  // namespace

void require_recordable(const PhysicalGraph& graph, std::int64_t steps) {
  std::int64_t per_step = 0;
  for (const Rank rank : graph.ranks.keys())
    per_step += static_cast<std::int64_t>(graph.program_of(rank).order.size());
  require(per_step <= kMostRecordedLaunches / steps, ErrorCode::kUsage,
          "--record: {} steps of {} launches each; a recording holds {} launches, which is {} "
          "--steps",
          steps, per_step, kMostRecordedLaunches, kMostRecordedLaunches / per_step);
}

LaunchRecording::LaunchRecording(RunDevices& devices, HostActors& host)
    : run_devices_(devices), host_(host, [&devices] { return clock_of(devices); }) {
  const std::vector<Device*> inner = devices.devices();
  for (std::size_t rank = 0; rank < inner.size(); ++rank)
    devices_.push_back(inner[rank] == nullptr ? nullptr
                                              : std::make_unique<RecordingDevice>(
                                                    *inner[rank], Rank(rank),
                                                    [&devices] { return clock_of(devices); }));
}

std::vector<Device*> LaunchRecording::devices() {
  std::vector<Device*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  return devices;
}

std::string LaunchRecording::text(const RecordingHeader& header, RunProcesses& processes) {
  const Duration shift = shift_of(run_devices_, processes);
  std::string lines;
  for (const auto& device : devices_) {
    if (device == nullptr) continue;
    std::vector<RecordedLaunch> launches = device->launches();
    for (RecordedLaunch& launch : launches)
      for (Time* time : {&launch.issued, &launch.begin, &launch.end}) *time += shift;
    lines += recording_lines(launches, {});
  }
  std::vector<RecordedHostAct> acts = host_.acts();
  for (RecordedHostAct& act : acts)
    for (Time* time : {&act.begin, &act.end}) *time += shift;
  lines += recording_lines({}, acts);
  return recording_text(header, processes.gather(lines));
}

}  // namespace sextant
