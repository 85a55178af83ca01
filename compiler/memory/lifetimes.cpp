// One pass over the issue order with flat tables of what each actor reads and writes.
#include "compiler/memory/lifetimes.h"

#include "core/base/at.h"

#include <algorithm>
#include <span>

namespace sextant {
namespace {

struct Access {
  ProgramFrameId frame;
  std::int32_t divisor = 1;  // acts per content, of the writer or the reader
};

class Walk {
  // Actors counted through all instances.
  using ActorId = Id<struct ActorTag>;

 public:
  Walk(const PhysicalGraph& graph, const RankProgram& program) : graph_(graph), program_(program) {
    add_frames();
    add_accesses();
    number_contents();
    walk();
  }
  Lifetimes take() { return std::move(lifetimes_); }

 private:
  const Block& block(InstanceId instance) const {
    return graph_.block_of(program_.instances[instance]);
  }
  ProgramFrameId frame_of(InstanceId instance, std::int32_t reg) const {
    return first_frame_[instance].plus(at(block(instance).registers, reg).frame);
  }

  void add_frames() {
    ActorId next_actor(0);
    for (const InstanceId instance : program_.instances.keys()) {
      first_frame_.push_back(lifetimes_.frames.next_key());
      first_actor_.push_back(next_actor);
      next_actor = next_actor.plus(size_of(block(instance).actors));
      const auto& frames = block(instance).frames;
      for (std::size_t f = 0; f < frames.size(); ++f)
        lifetimes_.frames.push_back(
            {instance, static_cast<std::int32_t>(f), &frames[f],
             frames[f].initially_full
                 ? 1
                 : program_.instances[instance].acts_per_step / frames[f].acts_per_content,
             ContentId(0), false, false});
    }
    accesses_.resize(next_actor.index());
  }

  void add_access(InstanceId instance, std::int32_t actor, ProgramFrameId frame,
                  std::int32_t divisor) {
    ProgramFrame& info = lifetimes_.frames[frame];
    const bool is_host = at(block(instance).actors, actor).queue == QueueRole::kHost;
    info.is_host = info.is_host || is_host;
    info.has_outer_readers = info.has_outer_readers || info.instance != instance;
    if (info.frame->initially_full || is_host) return;
    auto& list = accesses_[first_actor_[instance].plus(actor)];
    const bool known = std::any_of(list.begin(), list.end(), [&](const Access& access) {
      return access.frame == frame && access.divisor == divisor;
    });
    if (!known) list.push_back({frame, divisor});
  }

  void add_accesses() {
    for (const InstanceId instance : program_.instances.keys()) {
      const Block& own = block(instance);
      for (std::int32_t a = 0; a < size_of(own.actors); ++a)
        for (const std::int32_t out : at(own.actors, a).out) {
          const ProgramFrameId frame = frame_of(instance, out);
          add_access(instance, a, frame, lifetimes_.frames[frame].frame->acts_per_content);
        }
      for (const Edge& edge : own.edges)
        if (!edge.control)
          add_access(instance, edge.to_actor, frame_of(instance, edge.from_register),
                     edge.consume_for);
    }
    for (const Link& link : program_.links)
      for (const std::int32_t reader : at(block(link.to).ports, link.to_port).readers)
        add_access(link.to, reader, frame_of(link.from, link.from_register), link.consume_for);
    for (const std::vector<Access>& of_actor : accesses_) {
      first_access_.push_back(in_a_row_.size());
      in_a_row_.insert(in_a_row_.end(), of_actor.begin(), of_actor.end());
    }
    first_access_.push_back(in_a_row_.size());
  }
  std::span<const Access> accesses_of(ActorId actor) const {
    const std::size_t first = first_access_[actor];
    return std::span(in_a_row_).subspan(first, first_access_[actor.plus(1)] - first);
  }

  void number_contents() {
    std::size_t contents = 0;
    for (const ProgramFrame& frame : lifetimes_.frames)
      if (!frame.frame->initially_full) contents += at(frame.contents_per_step);
    lifetimes_.contents.reserve(contents);
    for (const ProgramFrameId f : lifetimes_.frames.keys()) {
      ProgramFrame& frame = lifetimes_.frames[f];
      frame.first_content = lifetimes_.contents.next_key();
      if (frame.frame->initially_full) continue;
      ContentLife life;
      life.frame = f;
      lifetimes_.contents.resize(lifetimes_.contents.size() + at(frame.contents_per_step), life);
    }
  }

  void walk() {
    lifetimes_.in_order.reserve(lifetimes_.contents.size());
    std::int32_t position = 0;
    const Table<RunId, Run>& order = program_.order;
    for (RunId first(0); order.contains(first);) {
      RunId last = first;  // of the launch group
      const LaunchGroupId group = order[first].launch_group;
      while (group.is_valid() && order.contains(last.plus(1)) &&
             order[last.plus(1)].launch_group == group)
        ++last;
      const bool alone = last == first;
      std::int32_t end = position;
      for (const RunId r : Range(first, last.plus(1))) end += order[r].num_actors;
      for (const RunId r : Range(first, last.plus(1))) {
        const Run& run = order[r];
        const ActorId base = first_actor_[run.instance].plus(run.first_actor);
        for (std::int32_t a = 0; a < run.num_actors; ++a) {
          const std::int32_t begins = alone ? position + a : position;
          const std::int32_t ends = alone ? position + a : end - 1;
          for (const Access& access : accesses_of(base.plus(a)))
            note(access, run.act, {first, last, begins, ends});
        }
      }
      position = end;
      first = last.plus(1);
    }
  }

  struct Point {
    RunId first_run, last_run;
    std::int32_t begins, ends;
  };
  void note(const Access& access, std::int32_t act, const Point& point) {
    // Most rates are 1, and a division takes as long as the rest.
    const std::int32_t number = access.divisor == 1 ? act : act / access.divisor;
    const ContentId content = lifetimes_.frames[access.frame].first_content.plus(number);
    ContentLife& life = lifetimes_.contents[content];
    if (!life.is_used()) {
      life.first_run = point.first_run;
      life.first = point.begins;
      lifetimes_.in_order.push_back(content);
    }
    life.last_run = point.last_run;
    life.last = point.ends;
  }

  const PhysicalGraph& graph_;
  const RankProgram& program_;
  Lifetimes lifetimes_;
  Table<InstanceId, ProgramFrameId> first_frame_;
  Table<InstanceId, ActorId> first_actor_;
  Table<ActorId, std::vector<Access>> accesses_;
  // The same in a row: the order walks over them once per act.
  std::vector<Access> in_a_row_;
  Table<ActorId, std::size_t> first_access_;  // and the end of the last one's
};

}  // namespace

Lifetimes find_lifetimes(const PhysicalGraph& graph, const RankProgram& program) {
  return Walk(graph, program).take();
}

std::int32_t contents_in_flight(const Lifetimes& lifetimes, const ProgramFrame& frame,
                                std::span<const Time> begin, std::span<const Time> end) {
  if (frame.frame->initially_full) return 1;
  const auto is_over_before = [&](const ContentLife& life, const ContentLife& next) {
    return life.last_run < next.first_run &&
           (end.empty() || !life.is_used() ||
            end[life.last_run.index()] <= begin[next.first_run.index()]);
  };
  std::int32_t most = 1;
  std::int32_t released = 0;
  for (std::int32_t content = 0; content < frame.contents_per_step; ++content) {
    const ContentLife& taken = lifetimes.contents[frame.first_content.plus(content)];
    // Contents are released in order: a reader acks 0, 1, 2, ...
    while (released < content &&
           is_over_before(lifetimes.contents[frame.first_content.plus(released)], taken))
      ++released;
    most = std::max(most, content + 1 - released);
  }
  return frame.is_host ? std::min(most + 1, frame.contents_per_step) : most;
}

}  // namespace sextant
