// One pass over the issue order with flat tables of what each actor reads and writes.
#include "compiler/memory/lifetimes.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {
namespace {

struct Access {
  std::int32_t frame = 0;    // in Lifetimes::frames
  std::int32_t divisor = 1;  // acts per content, of the writer or the reader
};

class Walk {
 public:
  Walk(const PhysicalGraph& graph, const RankProgram& program) : graph_(graph), program_(program) {
    add_frames();
    add_accesses();
    number_contents();
    walk();
  }
  Lifetimes take() { return std::move(lifetimes_); }

 private:
  const Block& block(std::int32_t instance) const {
    return graph_.block_of(at(program_.instances, instance));
  }
  std::int32_t frame_of(std::int32_t instance, std::int32_t reg) const {
    return at(first_frame_, instance) + at(block(instance).registers, reg).frame;
  }

  void add_frames() {
    for (std::size_t i = 0; i < program_.instances.size(); ++i) {
      const auto instance = static_cast<std::int32_t>(i);
      first_frame_.push_back(static_cast<std::int32_t>(lifetimes_.frames.size()));
      first_actor_.push_back(num_actors_);
      num_actors_ += static_cast<std::int32_t>(block(instance).actors.size());
      const auto& frames = block(instance).frames;
      for (std::size_t f = 0; f < frames.size(); ++f)
        lifetimes_.frames.push_back(
            {instance, static_cast<std::int32_t>(f), &frames[f],
             frames[f].initially_full
                 ? 1
                 : program_.instances[i].acts_per_step / frames[f].acts_per_content,
             0, false, false});
    }
  }

  void add_access(std::int32_t instance, std::size_t actor, std::int32_t frame,
                  std::int32_t divisor) {
    ProgramFrame& info = at(lifetimes_.frames, frame);
    const bool is_host = block(instance).actors[actor].queue == QueueRole::kHost;
    info.is_host = info.is_host || is_host;
    info.has_outer_readers = info.has_outer_readers || info.instance != instance;
    if (info.frame->initially_full || is_host) return;
    auto& list = accesses_[static_cast<std::size_t>(at(first_actor_, instance)) + actor];
    const bool known = std::any_of(list.begin(), list.end(), [&](const Access& access) {
      return access.frame == frame && access.divisor == divisor;
    });
    if (!known) list.push_back({frame, divisor});
  }

  void add_accesses() {
    accesses_.resize(static_cast<std::size_t>(num_actors_));
    for (std::size_t i = 0; i < program_.instances.size(); ++i) {
      const auto instance = static_cast<std::int32_t>(i);
      const Block& own = block(instance);
      for (std::size_t a = 0; a < own.actors.size(); ++a)
        for (const std::int32_t out : own.actors[a].out) {
          const std::int32_t frame = frame_of(instance, out);
          add_access(instance, a, frame, at(lifetimes_.frames, frame).frame->acts_per_content);
        }
      for (const Edge& edge : own.edges)
        if (!edge.control)
          add_access(instance, static_cast<std::size_t>(edge.to_actor),
                     frame_of(instance, edge.from_register), edge.consume_for);
    }
    for (const Link& link : program_.links)
      for (const std::int32_t reader : at(block(link.to.value).ports, link.to_port).readers)
        add_access(link.to.value, static_cast<std::size_t>(reader),
                   frame_of(link.from.value, link.from_register), link.consume_for);
  }

  void number_contents() {
    for (std::size_t f = 0; f < lifetimes_.frames.size(); ++f) {
      ProgramFrame& frame = lifetimes_.frames[f];
      frame.first_content = static_cast<std::int32_t>(lifetimes_.contents.size());
      if (frame.frame->initially_full) continue;
      ContentLife life;
      life.frame = static_cast<std::int32_t>(f);
      lifetimes_.contents.resize(
          lifetimes_.contents.size() + static_cast<std::size_t>(frame.contents_per_step), life);
    }
  }

  void walk() {
    lifetimes_.in_order.reserve(lifetimes_.contents.size());
    std::int64_t position = 0;
    for (std::size_t first = 0; first < program_.order.size();) {
      std::size_t last = first;  // of the launch group
      const std::int32_t group = program_.order[first].launch_group;
      while (group >= 0 && last + 1 < program_.order.size() &&
             program_.order[last + 1].launch_group == group)
        ++last;
      const bool alone = last == first;
      std::int64_t end = position;
      for (std::size_t r = first; r <= last; ++r) end += program_.order[r].num_actors;
      for (std::size_t r = first; r <= last; ++r) {
        const Run& run = program_.order[r];
        const std::size_t base =
            static_cast<std::size_t>(at(first_actor_, run.instance.value) + run.first_actor);
        for (std::int32_t a = 0; a < run.num_actors; ++a) {
          const std::int64_t begins = alone ? position + a : position;
          const std::int64_t ends = alone ? position + a : end - 1;
          for (const Access& access : accesses_[base + static_cast<std::size_t>(a)])
            note(access, run.act,
                 {static_cast<std::int32_t>(first), static_cast<std::int32_t>(last), begins, ends});
        }
      }
      position = end;
      first = last + 1;
    }
  }

  struct Point {
    std::int32_t first_run, last_run;
    std::int64_t begins, ends;
  };
  void note(const Access& access, std::int32_t act, const Point& point) {
    const std::int32_t content =
        at(lifetimes_.frames, access.frame).first_content + act / access.divisor;
    ContentLife& life = at(lifetimes_.contents, content);
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
  std::vector<std::int32_t> first_frame_, first_actor_;  // by instance
  std::int32_t num_actors_ = 0;
  std::vector<std::vector<Access>> accesses_;  // by actor of the program
};

}  // namespace

Lifetimes find_lifetimes(const PhysicalGraph& graph, const RankProgram& program) {
  return Walk(graph, program).take();
}

std::int32_t contents_in_flight(const Lifetimes& lifetimes, const ProgramFrame& frame,
                                std::span<const Time> begin, std::span<const Time> end) {
  if (frame.frame->initially_full) return 1;
  const auto is_over_before = [&](const ContentLife& life, const ContentLife& next) {
    return life.last_run < next.first_run && (end.empty() || !life.is_used() ||
                                              end[static_cast<std::size_t>(life.last_run)] <=
                                                  begin[static_cast<std::size_t>(next.first_run)]);
  };
  std::int32_t most = 1;
  std::int32_t released = 0;
  for (std::int32_t content = 0; content < frame.contents_per_step; ++content) {
    const ContentLife& taken = at(lifetimes.contents, frame.first_content + content);
    // Contents are released in order: a reader acks 0, 1, 2, ...
    while (released < content &&
           is_over_before(at(lifetimes.contents, frame.first_content + released), taken))
      ++released;
    most = std::max(most, content + 1 - released);
  }
  return frame.is_host ? std::min(most + 1, frame.contents_per_step) : most;
}

}  // namespace sextant
