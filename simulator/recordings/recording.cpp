// A JSON document per line, so that a file is written and read piece by piece.
#include "simulator/recordings/recording.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "sextant.recording.v1";
constexpr std::int64_t kPicosecondsPerNanosecond = 1'000;
constexpr std::int64_t kMostRanks = 1 << 20;
// Nanoseconds whose picoseconds an integer holds.
constexpr std::int64_t kLatest =
    std::numeric_limits<std::int64_t>::max() / kPicosecondsPerNanosecond / 2;

std::int64_t whole_nanoseconds(Time time) { return time.value / kPicosecondsPerNanosecond; }

Json room_json(const std::optional<ArenaRoom>& room) {
  if (!room) return Json();
  return {{"capacity", room->capacity.value}, {"per_communicator", room->per_communicator.value}};
}

Time time_of(const JsonCursor& value) {
  return Time(value.integer_between(0, kLatest) * kPicosecondsPerNanosecond);
}

std::int32_t index_of(const JsonCursor& value, std::int64_t size) {
  return static_cast<std::int32_t>(value.integer_between(0, size - 1));
}

QueueRole queue_at(const JsonCursor& value) {
  const std::optional<QueueRole> queue = queue_of(value.text());
  if (!queue) value.refuse("'" + value.text() + "' is no queue");
  return *queue;
}

std::vector<JsonCursor> list_of(const JsonCursor& value, std::size_t size) {
  std::vector<JsonCursor> elements = value.elements();
  if (elements.size() != size)
    value.refuse(fmt::format("{} numbers, wanted {}", elements.size(), size));
  return elements;
}

RecordingHeader header_of(const JsonCursor& root) {
  if (!root.is_object() || !root.contains("schema")) root.refuse("no recording of a run");
  const std::string& schema = root.at("schema").text();
  if (schema != kSchema)
    root.at("schema").refuse(
        fmt::format("'{}' is another version or another file, this sextant "
                    "reads '{}'",
                    schema, kSchema));
  RecordingHeader header;
  header.plan_hash = root.at("plan_hash").text();
  header.strategy = root.at("strategy").text();
  header.devices = root.at("devices").text();
  header.ranks = root.at("ranks").integer_between(1, kMostRanks);
  header.steps = root.at("steps").integer_between(1, kMostRecordedLaunches);
  header.warm_up_steps = root.at("warm_up_steps").integer_between(0, kMostRecordedLaunches);
  if (const auto room = root.find_value("room"))
    header.room = ArenaRoom{Bytes(room->at("capacity").integer()),
                            Bytes(room->at("per_communicator").integer())};
  return header;
}

void require_in_order(const JsonCursor& at, std::span<const Time> times) {
  if (!std::is_sorted(times.begin(), times.end())) at.refuse("times that go back");
}

RecordedLaunch launch_of(const JsonCursor& root, const RecordingHeader& header) {
  const auto place = list_of(root.at("launch"), 3);
  RecordedLaunch launch;
  launch.rank = Rank(index_of(place[0], header.ranks));
  launch.step = place[1].integer_between(0, header.steps - 1);
  launch.run = RunId(index_of(place[2], kMostRecordedLaunches));
  launch.queue = queue_at(root.at("queue"));
  const auto at = list_of(root.at("at"), 3);
  launch.issued = time_of(at[0]);
  launch.begin = time_of(at[1]);
  launch.end = time_of(at[2]);
  require_in_order(root.at("at"), std::array{launch.issued, launch.begin, launch.end});
  const std::vector<JsonCursor> waits = root.at("waits").elements();
  if (waits.size() % 2 != 0) root.at("waits").refuse("a queue without the number of its launch");
  for (std::size_t i = 0; i < waits.size(); i += 2)
    launch.waits.push_back(
        {queue_at(waits[i]), waits[i + 1].integer_between(0, kMostRecordedLaunches)});
  return launch;
}

RecordedHostAct host_act_of(const JsonCursor& root, const RecordingHeader& header) {
  const auto place = list_of(root.at("host"), 3);
  RecordedHostAct act;
  act.rank = Rank(index_of(place[0], header.ranks));
  act.step = place[1].integer_between(0, header.steps - 1);
  act.act = place[2].integer_between(0, kMostRecordedLaunches);
  act.actor = root.at("actor").text();
  const auto at = list_of(root.at("at"), 2);
  act.begin = time_of(at[0]);
  act.end = time_of(at[1]);
  require_in_order(root.at("at"), std::array{act.begin, act.end});
  return act;
}

// Reads line by line; the last must say how many there were.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Recording read() {
    Recording recording;
    recording.header = header_of(next().root());
    while (true) {
      require(!text_.empty(), ErrorCode::kBadInput,
              "{}: ends after line {}, without a last line that says so: the file is cut", file_,
              line_);
      const JsonDocument document = next();
      const JsonCursor root = document.root();
      if (root.contains("launch"))
        recording.launches.push_back(launch_of(root, recording.header));
      else if (root.contains("host"))
        recording.host_acts.push_back(host_act_of(root, recording.header));
      else
        return end(root, std::move(recording));
    }
  }

 private:
  JsonDocument next() {
    const std::size_t end = text_.find('\n');
    require(line_ == 0 || end != std::string_view::npos, ErrorCode::kBadInput,
            "{}: line {} has no end: the file is cut", file_, line_ + 1);
    const std::string_view line = text_.substr(0, end);
    text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
    ++line_;
    return {line, fmt::format("{}: line {}", file_, line_)};
  }

  Recording end(const JsonCursor& root, Recording recording) {
    const std::int64_t lines = root.at("end").integer();
    const auto read = static_cast<std::int64_t>(line_) - 2;
    if (lines != read) root.refuse(fmt::format("{} lines were written, {} are here", lines, read));
    require(text_.empty(), ErrorCode::kBadInput, "{}: something stands behind the last line {}",
            file_, line_);
    return recording;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t line_ = 0;
};

}  // namespace

std::optional<QueueRole> queue_of(std::string_view name) {
  for (std::size_t role = 0; role < kNumQueueRoles; ++role)
    if (to_string(static_cast<QueueRole>(role)) == name) return static_cast<QueueRole>(role);
  return std::nullopt;
}

std::string recording_lines(std::span<const RecordedLaunch> launches,
                            std::span<const RecordedHostAct> host_acts) {
  std::string lines;
  const auto out = std::back_inserter(lines);
  for (const RecordedLaunch& launch : launches) {
    fmt::format_to(out,
                   R"({{"launch": [{}, {}, {}], "queue": "{}", "at": [{}, {}, {}], "waits": [)",
                   launch.rank.value, launch.step, launch.run.value, to_string(launch.queue),
                   whole_nanoseconds(launch.issued), whole_nanoseconds(launch.begin),
                   whole_nanoseconds(launch.end));
    for (std::size_t i = 0; i < launch.waits.size(); ++i)
      fmt::format_to(out, R"({}"{}", {})", i == 0 ? "" : ", ", to_string(launch.waits[i].queue),
                     launch.waits[i].sequence);
    lines += "]}\n";
  }
  for (const RecordedHostAct& act : host_acts)
    fmt::format_to(out, R"({{"host": [{}, {}, {}], "actor": {}, "at": [{}, {}]}}{})",
                   act.rank.value, act.step, act.act, json_text(act.actor),
                   whole_nanoseconds(act.begin), whole_nanoseconds(act.end), "\n");
  return lines;
}

std::string recording_text(const RecordingHeader& header, std::span<const std::string> lines) {
  const Json first = {{"schema", kSchema},
                      {"plan_hash", header.plan_hash},
                      {"strategy", header.strategy},
                      {"devices", header.devices},
                      {"ranks", header.ranks},
                      {"steps", header.steps},
                      {"warm_up_steps", header.warm_up_steps},
                      {"room", room_json(header.room)}};
  std::string text = json_text(first) + "\n";
  std::int64_t count = 0;
  for (const std::string& part : lines) {
    count += std::count(part.begin(), part.end(), '\n');
    text += part;
  }
  return text + fmt::format("{{\"end\": {}}}\n", count);
}

Recording recording_from_text(std::string_view text, const std::string& file) {
  return Reader(text, file).read();
}

}  // namespace sextant
