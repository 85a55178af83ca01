// A run as it happened: every launch with its times and the messages it waited for, every act on
// the host. A value and its file (README has the format); knows no plan.
#pragma once

#include "actor/protocol/device.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/costs/arena_room.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

struct RecordedLaunch {
  Rank rank;
  RunId run;
  std::int64_t step = 0;
  QueueRole queue = QueueRole::kCompute;
  Time issued, begin, end;
  std::vector<Fence> waits;
  bool operator==(const RecordedLaunch&) const = default;
};

struct RecordedHostAct {
  Rank rank;
  std::string actor;
  std::int64_t step = 0, act = 0;
  Time begin, end;
  bool operator==(const RecordedHostAct&) const = default;
};

// What the first line says.
struct RecordingHeader {
  std::string plan_hash, strategy, devices;
  std::int64_t ranks = 0, steps = 0;
  std::int64_t warm_up_steps = 0;  // left out of means
  std::optional<ArenaRoom> room;   // that arenas were given; nothing: not known
  bool operator==(const RecordingHeader&) const = default;
};

struct Recording {
  RecordingHeader header;
  std::vector<RecordedLaunch> launches;    // of a rank in the order of issue
  std::vector<RecordedHostAct> host_acts;  // likewise
};

// More do not fit into a file that is read again.
inline constexpr std::int64_t kMostRecordedLaunches = 1'000'000;

// Lines of one process. Times to the nanosecond.
std::string recording_lines(std::span<const RecordedLaunch> launches,
                            std::span<const RecordedHostAct> host_acts);
// The file, of the lines of all processes.
std::string recording_text(const RecordingHeader& header, std::span<const std::string> lines);

// Throws Error(kBadInput), naming file and line: not a recording, another version, cut, or numbers
// that cannot be.
Recording recording_from_text(std::string_view text, const std::string& file);

// A queue by the name it has in texts.
std::optional<QueueRole> queue_of(std::string_view name);

}  // namespace sextant
