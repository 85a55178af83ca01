// The native trace read back field by field: names by number, begins and ends that pair up.

#include "simulator/reports/perfetto_trace.h"

#include "tests/simulator/toy_graph.h"
#include "tests/simulator/toy_pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace sextant::perfetto_trace_test {
namespace {

// Fields of one message in order: numbers, and texts of nested messages and strings.
struct Field {
  int number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

std::uint64_t varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(!data.empty());
    REQUIRE(shift < 64);
    const auto byte = static_cast<unsigned char>(data.front());
    data.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields(std::string_view data) {
  std::vector<Field> all;
  while (!data.empty()) {
    const std::uint64_t tag = varint(data);
    Field field{static_cast<int>(tag >> 3), varint(data), {}};
    REQUIRE(((tag & 7) == 0 || (tag & 7) == 2));
    if ((tag & 7) == 2) {
      REQUIRE(field.value <= data.size());
      field.bytes = data.substr(0, field.value);
      data.remove_prefix(field.value);
    }
    all.push_back(field);
  }
  return all;
}

const Field* find(const std::vector<Field>& all, int number) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Field& field) { return field.number == number; });
  return found == all.end() ? nullptr : &*found;
}

std::uint64_t number(const std::vector<Field>& all, int field) {
  const Field* found = find(all, field);
  REQUIRE(found != nullptr);
  return found->value;
}

struct ReadSlice {
  std::string process, thread, name;
  std::uint64_t begin = 0, end = 0, act = 0;
  auto operator<=>(const ReadSlice&) const = default;
};

struct ReadCounter {
  std::string process, name;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> samples;
};

// What Perfetto makes of a trace whose packets are in the order of time on each track.
class Reader {
 public:
  explicit Reader(std::string_view trace) {
    for (const Field& packet : fields(trace)) {
      REQUIRE(packet.number == 1);
      read(fields(packet.bytes));
    }
    for (const auto& [track, open] : open_) CHECK(open.empty());
  }

  std::vector<ReadSlice> slices;
  std::map<std::uint64_t, ReadCounter> counters;  // by track

 private:
  void read(const std::vector<Field>& packet) {
    CHECK(number(packet, 10) == 1);
    const std::uint64_t flags = number(packet, 13);
    CHECK(flags == (is_first_ ? 1 : 2));
    is_first_ = false;
    if (const Field* interned = find(packet, 12))
      for (const Field& table : fields(interned->bytes)) {
        const auto entry = fields(table.bytes);
        auto& names = table.number == 2 ? names_ : annotations_;
        names[number(entry, 1)] = std::string(find(entry, 2)->bytes);
      }
    if (const Field* descriptor = find(packet, 60)) describe(fields(descriptor->bytes));
    if (const Field* event = find(packet, 11)) happen(number(packet, 8), fields(event->bytes));
  }

  void describe(const std::vector<Field>& track) {
    const std::uint64_t uuid = number(track, 1);
    if (const Field* process = find(track, 3)) {
      processes_[uuid] = std::string(find(fields(process->bytes), 6)->bytes);
      return;
    }
    const std::string& parent = processes_.at(number(track, 5));
    if (const Field* thread = find(track, 4))
      threads_[uuid] = {parent, std::string(find(fields(thread->bytes), 5)->bytes)};
    else
      counters[uuid] = {parent, std::string(find(track, 2)->bytes), {}};
  }

  void happen(std::uint64_t at, const std::vector<Field>& event) {
    const std::uint64_t track = number(event, 11), type = number(event, 9);
    if (type == 4) {
      counters.at(track).samples.emplace_back(at, number(event, 30));
      return;
    }
    CHECK(at >= last_[track]);
    last_[track] = at;
    if (type == 1) {
      const auto act = fields(find(event, 4)->bytes);
      CHECK(annotations_.at(number(act, 1)) == "act");
      const auto& [process, thread] = threads_.at(track);
      open_[track].push_back(
          {process, thread, names_.at(number(event, 10)), at, 0, number(act, 4)});
      return;
    }
    REQUIRE(type == 2);
    REQUIRE(!open_[track].empty());
    slices.push_back(open_[track].back());
    slices.back().end = at;
    open_[track].pop_back();
  }

  bool is_first_ = true;
  std::map<std::uint64_t, std::string> names_, annotations_, processes_;
  std::map<std::uint64_t, std::pair<std::string, std::string>> threads_;
  std::map<std::uint64_t, std::vector<ReadSlice>> open_;
  std::map<std::uint64_t, std::uint64_t> last_;
};

std::vector<ReadSlice> expected_of(const Simulation& simulation) {
  std::vector<ReadSlice> expected;
  for (const TraceSlice& slice : simulation.slices)
    expected.push_back({"rank " + std::to_string(slice.rank.value),
                        std::string(to_string(slice.queue)), slice.name,
                        static_cast<std::uint64_t>(slice.begin.value / 1000),
                        static_cast<std::uint64_t>(slice.end.value / 1000),
                        static_cast<std::uint64_t>(slice.act)});
  std::sort(expected.begin(), expected.end());
  return expected;
}

TEST_CASE("a native trace has every slice of the step under its rank and queue") {
  ToyPipeline pipeline{{70'500, 110'300, 50'100}, {130'900, 90'700, 170'400}};
  pipeline.micro_batches = 4;
  pipeline.replicas = 2;
  pipeline.optimizer = 40'000;
  pipeline.gradient_bytes = 60'000;
  SimulateOptions options;
  options.keep_slices = true;
  const Simulation simulation =
      simulate(make_toy_pipeline(pipeline), ToyCost(3), ToyNetwork(11'000), options);
  Reader read(to_perfetto_trace(simulation));
  std::sort(read.slices.begin(), read.slices.end());
  CHECK(read.slices.size() > 50);
  CHECK(read.slices == expected_of(simulation));
}

TEST_CASE("slices in a native trace nest, on and below a nanosecond") {
  Simulation simulation;
  const auto add = [&](int rank, const char* name, std::int64_t begin, std::int64_t end) {
    simulation.slices.push_back(
        {Rank(rank), QueueRole::kCompute, name, Time(begin), Time(end), 300});
  };
  add(0, "run", 0, 5000);
  add(0, "first", 0, 1500);
  add(0, "second", 1500, 1700);  // begins and ends within one nanosecond
  add(0, "third", 1700, 5000);
  add(0, "run", 5000, 9'000'000'000);
  add(7, "run", 100, 100);
  Reader read(to_perfetto_trace(simulation));
  std::sort(read.slices.begin(), read.slices.end());
  CHECK(read.slices == expected_of(simulation));
}

TEST_CASE("a native trace has counters under their rank, and of nothing it is nearly empty") {
  const std::vector<CounterTrack> tracks = {
      {Rank(2), "memory in use (bytes)", {{Time(0), 5'000'000'000}, {Time(7'000), 0}}}};
  const Reader read(to_perfetto_trace({}, tracks));
  REQUIRE(read.counters.size() == 1);
  const ReadCounter& counter = read.counters.begin()->second;
  CHECK(counter.process == "rank 2");
  CHECK(counter.name == "memory in use (bytes)");
  CHECK(counter.samples ==
        std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 5'000'000'000}, {7, 0}});
  CHECK(Reader(to_perfetto_trace({})).slices.empty());
}

}  // namespace
}  // namespace sextant::perfetto_trace_test
