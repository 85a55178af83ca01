// Messages by hand: a handful of fields with numbers that never change
// (protos/perfetto/trace/trace_packet.proto, track_event/*.proto). Names are written once and then
// referred to by number.

#include "simulator/reports/perfetto_trace.h"

#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sextant {

namespace {

// One message; fields in any order.
class Message {
 public:
  void number(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
  }
  void bytes(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    data_ += value;
  }
  void message(int field, const Message& value) { bytes(field, value.data_); }

  const std::string& data() const { return data_; }
  void clear() { data_.clear(); }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_ += static_cast<char>(value | 0x80);
    data_ += static_cast<char>(value);
  }

  std::string data_;
};

namespace trace {
constexpr int kPacket = 1;
}
namespace packet {
constexpr int kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kInternedData = 12,
              kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;
}  // namespace packet
namespace descriptor {
constexpr int kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParentUuid = 5, kCounter = 8;
constexpr int kProcessId = 1, kProcessName = 6;                    // ProcessDescriptor
constexpr int kThreadProcess = 1, kThreadId = 2, kThreadName = 5;  // ThreadDescriptor
}  // namespace descriptor
namespace event {
constexpr int kDebugAnnotation = 4, kType = 9, kNameId = 10, kTrackUuid = 11, kCounterValue = 30;
constexpr std::uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
}  // namespace event
namespace annotation {
constexpr int kNameId = 1, kIntValue = 4;
}
namespace interned {
constexpr int kEventNames = 2, kAnnotationNames = 3;
constexpr int kId = 1, kName = 2;
}  // namespace interned

constexpr std::uint64_t kSequence = 1, kActName = 1;

std::uint64_t nanoseconds(Time time) { return static_cast<std::uint64_t>(time.value / 1000); }

class PerfettoWriter {
 public:
  PerfettoWriter() {
    Message names, act, first;
    act.number(interned::kId, kActName);
    act.bytes(interned::kName, "act");
    names.message(interned::kAnnotationNames, act);
    first.message(packet::kInternedData, names);
    write(first, packet::kStateCleared);
  }

  // Of one rank and queue they come by begin, a run before what is inside it.
  void add(const TraceSlice& slice) {
    const std::uint64_t track = thread_track(slice);
    if (track != open_track_) close_all(track);
    close_until(slice.begin);
    Message begin, act, body;
    begin.number(event::kType, event::kSliceBegin);
    begin.number(event::kTrackUuid, track);
    begin.number(event::kNameId, name_id(slice.name, body));
    act.number(annotation::kNameId, kActName);
    act.number(annotation::kIntValue, static_cast<std::uint64_t>(slice.act));
    begin.message(event::kDebugAnnotation, act);
    write_event(begin, slice.begin, body);
    open_.push_back(slice.end);
  }

  void add(const CounterTrack& track) {
    const std::uint64_t uuid = next_uuid_++;
    Message described;
    described.number(descriptor::kUuid, uuid);
    described.number(descriptor::kParentUuid, process_track(track.rank));
    described.bytes(descriptor::kName, track.name);
    described.message(descriptor::kCounter, Message());
    write_descriptor(described);
    for (const CounterTrack::Sample& sample : track.samples) {
      Message counter, body;
      counter.number(event::kType, event::kCounter);
      counter.number(event::kTrackUuid, uuid);
      counter.number(event::kCounterValue, static_cast<std::uint64_t>(sample.value));
      write_event(counter, sample.at, body);
    }
  }

  std::string take() {
    close_all(0);
    return std::move(text_);
  }

 private:
  std::uint64_t process_track(Rank rank) {
    const auto [track, is_new] = processes_.try_emplace(rank, next_uuid_);
    if (!is_new) return track->second;
    Message process, described;
    process.number(descriptor::kProcessId, process_id(rank));
    process.bytes(descriptor::kProcessName, fmt::format("rank {}", rank.value));
    described.number(descriptor::kUuid, next_uuid_++);
    described.message(descriptor::kProcess, process);
    write_descriptor(described);
    return track->second;
  }

  std::uint64_t thread_track(const TraceSlice& slice) {
    const Rank rank = slice.rank;
    const auto [track, is_new] = threads_.try_emplace({rank, slice.queue, slice.lane}, 0);
    if (!is_new) return track->second;
    const std::uint64_t parent = process_track(rank);
    track->second = next_uuid_++;
    Message thread, described;
    thread.number(descriptor::kThreadProcess, process_id(rank));
    // Ids of threads are unique in a trace, and that of a process is its main thread's.
    thread.number(descriptor::kThreadId, kThreads + track->second);
    thread.bytes(descriptor::kThreadName, lane_name(slice));
    described.number(descriptor::kUuid, track->second);
    described.number(descriptor::kParentUuid, parent);
    described.message(descriptor::kThread, thread);
    write_descriptor(described);
    return track->second;
  }

  // 0 is the idle process.
  static std::uint64_t process_id(Rank rank) { return static_cast<std::uint64_t>(rank.value) + 1; }

  // A new name goes with the packet that is the first to need it.
  std::uint64_t name_id(const std::string& name, Message& body) {
    const auto [id, is_new] = names_.try_emplace(name, names_.size() + 1);
    if (!is_new) return id->second;
    Message entry, names;
    entry.number(interned::kId, id->second);
    entry.bytes(interned::kName, name);
    names.message(interned::kEventNames, entry);
    body.message(packet::kInternedData, names);
    return id->second;
  }

  void close_until(Time at) {
    while (!open_.empty() && open_.back() <= at) {
      Message end, body;
      end.number(event::kType, event::kSliceEnd);
      end.number(event::kTrackUuid, open_track_);
      write_event(end, open_.back(), body);
      open_.pop_back();
    }
  }

  void close_all(std::uint64_t next_track) {
    while (!open_.empty()) close_until(open_.back());
    open_track_ = next_track;
  }

  void write_event(const Message& event, Time at, Message& body) {
    body.number(packet::kTimestamp, nanoseconds(at));
    body.message(packet::kTrackEvent, event);
    write(body, packet::kNeedsState);
  }

  void write_descriptor(const Message& described) {
    Message body;
    body.message(packet::kTrackDescriptor, described);
    write(body, packet::kNeedsState);
  }

  void write(Message& body, std::uint64_t flags) {
    body.number(packet::kSequenceId, kSequence);
    body.number(packet::kSequenceFlags, flags);
    Message framed;
    framed.message(trace::kPacket, body);
    text_ += framed.data();
  }

  static constexpr std::uint64_t kThreads = 1'000'000;

  std::string text_;
  std::uint64_t next_uuid_ = 1, open_track_ = 0;
  std::vector<Time> open_;  // ends of the slices that are open on that track, the innermost last
  std::map<Rank, std::uint64_t> processes_;
  std::map<std::tuple<Rank, QueueRole, std::int32_t>, std::uint64_t> threads_;  // by lane
  std::unordered_map<std::string, std::uint64_t> names_;
};

}  // namespace

std::string to_perfetto_trace(const Simulation& simulation,
                              std::span<const CounterTrack> counters) {
  PerfettoWriter writer;
  for (const TraceSlice& slice : simulation.slices) writer.add(slice);
  for (const CounterTrack& track : counters) writer.add(track);
  return writer.take();
}

}  // namespace sextant
