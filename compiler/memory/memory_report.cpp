// Births and deaths of contents in the order of the given times.
#include "compiler/memory/memory_report.h"

#include "compiler/memory/lifetimes.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

// What lies in a frame: one entry per stretch of bytes, so none for outputs that took over others.
struct Part {
  const Register* reg = nullptr;
  Bytes size;
};

std::vector<Part> parts_of(const Block& block, std::int32_t frame) {
  std::vector<bool> took_over(block.registers.size(), false);
  for (const Actor& actor : block.actors)
    if (actor.in_place) at(took_over, at(actor.out, actor.in_place->out)) = true;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < block.registers.size(); ++i)
    if (block.registers[i].frame == frame && !took_over[i])
      parts.push_back({&block.registers[i], Bytes()});
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.reg->offset < b.reg->offset; });
  // Up to the next one: room that a class leaves for the larger part of another is its own.
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i].size =
        (i + 1 < parts.size() ? parts[i + 1].reg->offset : at(block.frames, frame).size) -
        parts[i].reg->offset;
  return parts;
}

// What ends at a time makes room for what begins then, unless it began then itself.
enum class Kind : std::uint8_t { kDeath, kBirth, kDeathAtBirth };

struct MemoryEvent {
  Time time;
  Kind kind = Kind::kBirth;
  ContentId content;
  auto operator<=>(const MemoryEvent&) const = default;
  std::int64_t sign() const { return kind == Kind::kBirth ? 1 : -1; }
};

class Report {
 public:
  Report(const PhysicalGraph& graph, const RankProgram& program, std::span<const Time> begin,
         std::span<const Time> end)
      : graph_(graph), program_(program), lifetimes_(find_lifetimes(graph, program)) {
    require(begin.size() == program.order.size() && end.size() == begin.size(), ErrorCode::kUsage,
            "'{}' has {} runs, but {} begins and {} ends were given", program.name,
            program.order.size(), begin.size(), end.size());
    result_.program = program.name;
    result_.arena = program.arena.size;
    result_.lower_bound = program.arena.lower_bound;
    if (!begin.empty()) {
      result_.begin = *std::min_element(begin.begin(), begin.end());
      result_.end = *std::max_element(end.begin(), end.end());
    }
    live_.assign(kNumMemoryClasses, Bytes());
    for (const ProgramFrame& frame : lifetimes_.frames)
      if (is_always(frame)) add(frame, num_slots(frame));
    add_events(begin, end);
  }

  ProgramMemory run(std::size_t windows) {
    result_.over_time.assign(windows, total_);
    result_.classes_over_time.assign(windows, live_);
    result_.peak = total_;
    result_.peak_at = result_.begin;
    result_.by_class = live_;
    std::size_t peak_event = 0;  // events up to here have happened at the peak
    std::size_t window = 0;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      for (; window + 1 < windows && events_[i].time >= begin_of(window + 1); ++window)
        set_window(window + 1);
      add(frame_of(events_[i].content), events_[i].sign());
      if (windows > 0 && total_ > result_.over_time[window]) set_window(window);
      if (total_ <= result_.peak) continue;
      result_.peak = total_;
      result_.peak_at = events_[i].time;
      result_.by_class = live_;
      peak_event = i + 1;
    }
    for (; window + 1 < windows; ++window) set_window(window + 1);
    find_owners(peak_event);
    return std::move(result_);
  }

 private:
  void set_window(std::size_t window) {
    result_.over_time[window] = total_;
    result_.classes_over_time[window] = live_;
  }
  bool is_always(const ProgramFrame& frame) const {
    return frame.frame->initially_full || frame.is_host;
  }
  const ProgramFrame& frame_of(ContentId content) const {
    return lifetimes_.frames[lifetimes_.contents[content].frame];
  }
  std::int64_t num_slots(const ProgramFrame& frame) const {
    return static_cast<std::int64_t>(
        at(program_.instances[frame.instance].frames, frame.index).slot_offsets.size());
  }
  Time begin_of(std::size_t window) const {
    const auto windows = static_cast<std::int64_t>(result_.over_time.size());
    const std::int64_t span = (result_.end - result_.begin).value;
    // Whole part first: picoseconds times windows could overflow.
    const auto index = static_cast<std::int64_t>(window);
    return result_.begin + Time(span / windows * index + span % windows * index / windows);
  }

  void add(const ProgramFrame& frame, std::int64_t contents) {
    const Bytes bytes = frame.frame->size * contents;
    at(live_, static_cast<std::int32_t>(frame.frame->memory)) += bytes;
    total_ += bytes;
  }

  // The actors of a run take equal parts of its time: one may write where another has read.
  Time time_at(std::span<const Time> begin, std::span<const Time> end, RunId run,
               std::int64_t actors_before) const {
    const std::int64_t span = (end[run.index()] - begin[run.index()]).value;
    const std::int64_t actors = program_.order[run].num_actors;
    return begin[run.index()] +
           Time(span / actors * actors_before + span % actors * actors_before / actors);
  }

  void add_events(std::span<const Time> begin, std::span<const Time> end) {
    Table<RunId, std::int64_t> first_position;
    std::int64_t position = 0;
    for (const Run& run : program_.order) {
      first_position.push_back(position);
      position += run.num_actors;
    }
    for (const ContentId content : lifetimes_.in_order) {
      if (is_always(frame_of(content))) continue;
      const ContentLife& life = lifetimes_.contents[content];
      const Time born =
          time_at(begin, end, life.first_run, life.first - first_position[life.first_run]);
      const Time last =
          time_at(begin, end, life.last_run, life.last + 1 - first_position[life.last_run]);
      const Time dead = std::max(last, born);
      events_.push_back({born, Kind::kBirth, content});
      events_.push_back({dead, dead == born ? Kind::kDeathAtBirth : Kind::kDeath, content});
    }
    std::sort(events_.begin(), events_.end());
  }

  void find_owners(std::size_t peak_event) {
    Table<ProgramFrameId, std::int64_t> contents(lifetimes_.frames.size());  // live at the peak
    for (const ProgramFrameId f : contents.keys())
      if (is_always(lifetimes_.frames[f])) contents[f] = num_slots(lifetimes_.frames[f]);
    for (std::size_t i = 0; i < peak_event; ++i)
      contents[lifetimes_.contents[events_[i].content].frame] += events_[i].sign();
    std::map<std::tuple<int, std::string, MemoryClass>, MemoryOwner> owners;
    for (const ProgramFrameId f : contents.keys()) {
      if (contents[f] == 0) continue;
      const ProgramFrame& frame = lifetimes_.frames[f];
      const Instance& instance = program_.instances[frame.instance];
      const Block& block = graph_.block_of(instance);
      for (const Part& part : parts_of(block, frame.index)) {
        const std::string& name = graph_.register_name(
            instance, static_cast<std::int32_t>(part.reg - block.registers.data()));
        MemoryOwner& owner = owners[{instance.layer, name, frame.frame->memory}];
        owner.name = name;
        owner.layer = instance.layer;
        owner.memory = frame.frame->memory;
        owner.bytes += part.size * contents[f];
        owner.count += contents[f];
      }
    }
    for (auto& [key, owner] : owners)
      if (owner.bytes.value > 0) result_.owners.push_back(std::move(owner));
    std::stable_sort(result_.owners.begin(), result_.owners.end(),
                     [](const MemoryOwner& a, const MemoryOwner& b) { return a.bytes > b.bytes; });
  }

  const PhysicalGraph& graph_;
  const RankProgram& program_;
  const Lifetimes lifetimes_;
  std::vector<MemoryEvent> events_;
  std::vector<Bytes> live_;
  Bytes total_;
  ProgramMemory result_;
};

std::string classes_text(const std::vector<Bytes>& by_class) {
  std::string text;
  for (std::size_t i = 0; i < by_class.size(); ++i)
    if (by_class[i].value > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          to_string(static_cast<MemoryClass>(i)), to_text(by_class[i]));
  return text;
}

// The largest part of a tensor on a rank of the program.
std::string largest_tensor(const PhysicalGraph& graph, const RankProgram& program) {
  const Register* largest = nullptr;
  const Instance* owner = nullptr;
  for (const Instance& instance : program.instances)
    for (const Register& reg : graph.block_of(instance).registers)
      if (largest == nullptr || size_of(reg.local) > size_of(largest->local)) {
        largest = &reg;
        owner = &instance;
      }
  if (largest == nullptr) return "none";
  const auto index = static_cast<std::int32_t>(largest - graph.block_of(*owner).registers.data());
  return fmt::format("'{}' of layer {} ({} {}) with {}", graph.register_name(*owner, index),
                     owner->layer, to_string(largest->local.shape), to_string(largest->local.dtype),
                     to_text(size_of(largest->local)));
}

}  // namespace

ProgramMemory report_memory(const PhysicalGraph& graph, ProgramId program,
                            std::span<const Time> begin, std::span<const Time> end,
                            std::size_t windows) {
  return Report(graph, graph.programs[program], begin, end).run(windows);
}

Bytes peak_memory(const PhysicalGraph& graph) {
  Bytes peak;
  for (const RankProgram& program : graph.programs) peak = std::max(peak, program.arena.size);
  return peak;
}

void require_fits(const PhysicalGraph& graph, Bytes capacity, std::vector<std::string> hints) {
  const auto worst = std::max_element(
      graph.programs.begin(), graph.programs.end(),
      [](const RankProgram& a, const RankProgram& b) { return a.arena.size < b.arena.size; });
  if (worst == graph.programs.end() || worst->arena.size <= capacity) return;
  refuse_size(graph, ProgramId(static_cast<std::int32_t>(worst - graph.programs.begin())), Bytes(),
              "", capacity, std::move(hints));
}

void refuse_size(const PhysicalGraph& graph, ProgramId program, Bytes beside,
                 const std::string& what, Bytes capacity, std::vector<std::string> hints) {
  const RankProgram& worst = graph.programs[program];
  const Bytes needed = worst.arena.size + beside;
  const std::string parts =
      beside == Bytes(0) ? "" : fmt::format(" (arena {}, {})", to_text(worst.arena.size), what);
  throw Error(
      ErrorCode::kInfeasible,
      fmt::format("the plan needs {} on each device of '{}'{}, which has {}: {} too much. "
                  "At the worst time: {}. The largest tensor is {}",
                  to_text(needed), worst.name, parts, to_text(capacity), to_text(needed - capacity),
                  classes_text(worst.arena.peak_by_class), largest_tensor(graph, worst)),
      std::move(hints));
}

}  // namespace sextant
