// Sites from the cuts of the issue order, channels from edges and links, and the checks that make
// the counters of the protocol safe to run on any graph.
#include "actor/protocol/program_tables.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <tuple>

namespace sextant {
namespace {

constexpr ErrorCode kBad = ErrorCode::kBadInput;

template <typename T>
bool holds(const std::vector<T>& values, std::int32_t index) {
  return index >= 0 && at(index) < values.size();
}

// Checks that name a run are written with `if`, so that its text is only made when it is wanted.
class Builder {
 public:
  Builder(const PhysicalGraph& graph, ProgramId program, ProgramTables& tables)
      : graph_(graph), id_(program), program_(graph.programs[program.index()]), tables_(tables) {}

  void build() {
    check_instances();
    cut_sites();
    number_runs();
    check_acts();
    form_groups();
    make_frames();
    collect_channels();
    distribute_channels();
    place_guards();
  }

 private:
  const Block& block(InstanceId instance) const {
    return graph_.block_of(program_.instances[instance.index()]);
  }
  const std::string& name(InstanceId instance) const {
    return program_.instances[instance.index()].name;
  }
  std::string text(std::int32_t run) const { return run_to_text(graph_, id_, RunId(run)); }

  void check_instances() {
    for (const Instance& instance : program_.instances) {
      require(instance.block.is_valid() && instance.block.index() < graph_.blocks.size(), kBad,
              "instance '{}' has no block", instance.name);
      require(instance.acts_per_step >= 1, kBad, "instance '{}' acts {} times per step",
              instance.name, instance.acts_per_step);
      const Block& block = graph_.block_of(instance);
      require(instance.frames.size() == block.frames.size(), kBad,
              "instance '{}' binds {} frames, its block has {}", instance.name,
              instance.frames.size(), block.frames.size());
      first_actor_.push_back(num_actors_);
      first_frame_.push_back(num_frames_);
      num_actors_ += static_cast<std::int32_t>(block.actors.size());
      num_frames_ += static_cast<std::int32_t>(block.frames.size());
    }
  }

  void check_run(std::int32_t index) {
    const Run& run = program_.order[at(index)];
    require(holds(program_.instances, run.instance.value), kBad, "run {} has no instance", index);
    const Block& block = this->block(run.instance);
    const auto actors = static_cast<std::int32_t>(block.actors.size());
    require(run.num_actors >= 1 && run.first_actor >= 0 && run.first_actor <= actors &&
                run.num_actors <= actors - run.first_actor,
            kBad, "run {}: actors {} .. {} of '{}', which has {}", index, run.first_actor,
            static_cast<std::int64_t>(run.first_actor) + run.num_actors - 1, name(run.instance),
            actors);
    for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a) {
      const Actor& actor = block.actors[at(a)];
      if (actor.queue != block.actors[at(run.first_actor)].queue) {
        fail(kBad, "{}: actors of one run are on one queue, '{}' is on {}", text(index), actor.name,
             to_string(actor.queue));
      }
      if (actor.queue == QueueRole::kHost) {
        fail(kBad, "{}: host actors are not in the issue order", text(index));
      }
      if (actor.communication && run.num_actors != 1) {
        fail(kBad, "{}: a communication is a run of its own", text(index));
      }
    }
  }

  // Sites are the finest pieces that the runs cut the actors of an instance into.
  void cut_sites() {
    std::vector<bool> cut(at(num_actors_) + 1, false);
    for (std::size_t r = 0; r < program_.order.size(); ++r) {
      check_run(static_cast<std::int32_t>(r));
      const Run& run = program_.order[r];
      const std::int32_t first = first_actor_[run.instance.index()] + run.first_actor;
      cut[at(first)] = true;
      cut[at(first + run.num_actors)] = true;
    }
    site_of_actor_.resize(at(num_actors_));
    for (std::size_t i = 0; i < program_.instances.size(); ++i) {
      const Block& block = graph_.block_of(program_.instances[i]);
      for (std::size_t a = 0; a < block.actors.size(); ++a) {
        const QueueRole queue = block.actors[a].queue;
        const bool begins = a == 0 || cut[at(first_actor_[i]) + a] || queue == QueueRole::kHost ||
                            block.actors[a - 1].queue == QueueRole::kHost;
        if (begins) add_site(InstanceId(i), static_cast<std::int32_t>(a), queue);
        ++tables_.sites.back().num_actors;
        site_of_actor_[at(first_actor_[i]) + a] =
            static_cast<std::int32_t>(tables_.sites.size()) - 1;
      }
    }
  }

  void add_site(InstanceId instance, std::int32_t actor, QueueRole queue) {
    Site site;
    site.instance = instance;
    site.first_actor = actor;
    site.queue = queue;
    site.acts_per_step = program_.instances[instance.index()].acts_per_step;
    if (site.is_host()) {
      tables_.host_sites.push_back(static_cast<std::int32_t>(tables_.sites.size()));
    }
    tables_.sites.push_back(site);
  }

  void number_runs() {
    for (const Run& run : program_.order) {
      const std::int32_t first = first_actor_[run.instance.index()] + run.first_actor;
      const Actor& actor = block(run.instance).actors[at(run.first_actor)];
      RunEntry entry;
      entry.first_site = site_of_actor_[at(first)];
      entry.num_sites = site_of_actor_[at(first + run.num_actors - 1)] - entry.first_site + 1;
      entry.queue = actor.queue;
      entry.communicates = actor.communication.has_value();
      entry.position = tables_.runs_per_step[static_cast<std::size_t>(entry.queue)]++;
      tables_.runs.push_back(entry);
    }
  }

  void check_acts() {
    std::vector<std::int32_t> next(tables_.sites.size(), 0);
    for (std::size_t r = 0; r < tables_.runs.size(); ++r) {
      const RunEntry& entry = tables_.runs[r];
      for (std::int32_t s = entry.first_site; s < entry.first_site + entry.num_sites; ++s) {
        if (program_.order[r].act != next[at(s)]) {
          fail(kBad, "{}: act {} comes next", text(static_cast<std::int32_t>(r)), next[at(s)]);
        }
        ++next[at(s)];
      }
    }
    for (std::size_t s = 0; s < tables_.sites.size(); ++s) {
      const Site& site = tables_.sites[s];
      if (!site.is_host() && next[s] != site.acts_per_step) {
        fail(kBad, "program '{}': {} is issued {} times, not {}", program_.name,
             actors_to_text(graph_, id_, site.instance, site.first_actor, site.num_actors), next[s],
             site.acts_per_step);
      }
    }
  }

  void form_groups() {
    const auto runs = static_cast<std::int32_t>(tables_.runs.size());
    std::vector<std::int32_t> seen;
    for (std::int32_t first = 0; first < runs;) {
      const std::int32_t group = program_.order[at(first)].launch_group;
      std::int32_t end = first + 1;
      while (group >= 0 && end < runs && program_.order[at(end)].launch_group == group) ++end;
      if (group >= 0) seen.push_back(group);
      add_group(first, end);
      first = end;
    }
    std::sort(seen.begin(), seen.end());
    const auto twice = std::adjacent_find(seen.begin(), seen.end());
    require(twice == seen.end(), kBad,
            "program '{}': the runs of launch group {} are not neighbours", program_.name,
            twice == seen.end() ? 0 : *twice);
  }

  void add_group(std::int32_t first, std::int32_t end) {
    tables_.runs[at(first)].group_size = end - first;
    tables_.max_group_size = std::max(tables_.max_group_size, end - first);
    std::array<bool, kNumQueueRoles> used{};
    for (std::int32_t r = first; r < end; ++r) {
      RunEntry& entry = tables_.runs[at(r)];
      if (r > first) entry.group_size = 0;
      if (end - first > 1 && !entry.communicates) {
        fail(kBad, "{}: only communications start together in a launch group", text(r));
      }
      for (std::int32_t other = first; other < r; ++other) {
        if (tables_.runs[at(other)].first_site == entry.first_site) {
          fail(kBad, "{}: a launch group holds one act of an actor", text(r));
        }
      }
      const auto queue = static_cast<std::size_t>(entry.queue);
      if (!used[queue]) tables_.last_of_unit[queue].push_back(0);
      used[queue] = true;
      entry.unit = static_cast<std::int32_t>(tables_.last_of_unit[queue].size()) - 1;
      tables_.last_of_unit[queue].back() = entry.position;
      tables_.units_per_step[queue] = entry.unit + 1;
    }
  }

  void make_frames() {
    for (std::size_t i = 0; i < program_.instances.size(); ++i) {
      const Instance& instance = program_.instances[i];
      const Block& block = graph_.block_of(instance);
      for (std::size_t f = 0; f < block.frames.size(); ++f) add_frame(InstanceId(i), instance, f);
      find_writers(InstanceId(i), block);
    }
  }

  void add_frame(InstanceId id, const Instance& instance, std::size_t f) {
    const Frame& frame = graph_.block_of(instance).frames[f];
    const FrameBinding& binding = instance.frames[f];
    const auto slots = static_cast<std::int32_t>(binding.slot_offsets.size());
    const std::int32_t acts = instance.acts_per_step;
    require(frame.acts_per_content >= 1 && acts % frame.acts_per_content == 0, kBad,
            "instance '{}' frame {}: {} acts per step do not fill contents of {} acts",
            instance.name, f, acts, frame.acts_per_content);
    FrameQuota quota;
    quota.instance = id;
    quota.frame = static_cast<std::int32_t>(f);
    quota.num_registers = binding.num_registers;
    quota.acts_per_content = frame.acts_per_content;
    quota.contents_per_step = acts / frame.acts_per_content;
    quota.initially_full = frame.initially_full;
    require(quota.num_registers >= 1, kBad,
            "instance '{}' frame {}: {} registers, wanted 1 or more", instance.name, f,
            quota.num_registers);
    require(binding.slot_of_content.size() == at(quota.contents_per_step), kBad,
            "instance '{}' frame {}: slots for {} contents, it has {} per step", instance.name, f,
            binding.slot_of_content.size(), quota.contents_per_step);
    for (const std::int32_t slot : binding.slot_of_content) {
      require(slot >= 0 && slot < slots, kBad, "instance '{}' frame {}: slot {} of {}",
              instance.name, f, slot, slots);
    }
    quota.ring = tables_.num_frame_counters;
    tables_.num_frame_counters += quota.num_registers;
    tables_.frames.push_back(quota);
  }

  void find_writers(InstanceId id, const Block& block) {
    const std::size_t first = writer_of_register_.size();
    first_register_.push_back(static_cast<std::int32_t>(first));
    writer_of_register_.resize(first + block.registers.size(), -1);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      for (const std::int32_t reg : block.actors[a].out) {
        require(holds(block.registers, reg), kBad, "block '{}': actor '{}' writes register {}",
                block.name, block.actors[a].name, reg);
        std::int32_t& writer = writer_of_register_[first + at(reg)];
        require(writer < 0, kBad, "block '{}': register '{}' has two writers", block.name,
                block.registers[at(reg)].name);
        writer = static_cast<std::int32_t>(a);
        require(holds(block.frames, block.registers[at(reg)].frame), kBad,
                "block '{}': register '{}' has no frame", block.name,
                block.registers[at(reg)].name);
        note_write(site_of_actor_[at(first_actor_[id.index()]) + a],
                   first_frame_[id.index()] + block.registers[at(reg)].frame);
      }
    }
    for (std::size_t r = 0; r < block.registers.size(); ++r) {
      require(writer_of_register_[first + r] >= 0, kBad, "block '{}': register '{}' has no writer",
              block.name, block.registers[r].name);
    }
  }

  void note_write(std::int32_t site, std::int32_t frame) { written_.push_back({site, frame}); }

  void collect_channels() {
    for (std::size_t i = 0; i < program_.instances.size(); ++i) add_edges(InstanceId(i));
    add_links();
    for (std::size_t i = 0; i < program_.instances.size(); ++i) check_operands(InstanceId(i));
    std::sort(written_.begin(), written_.end());
    written_.erase(std::unique(written_.begin(), written_.end()), written_.end());
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    add_self_channels();
  }

  void add_edges(InstanceId id) {
    const Block& block = this->block(id);
    for (const Edge& edge : block.edges) {
      require(holds(block.registers, edge.from_register) && holds(block.actors, edge.to_actor),
              kBad, "block '{}': an edge from register {} to actor {}", block.name,
              edge.from_register, edge.to_actor);
      add_channel(id, edge.from_register, id, edge.to_actor, edge.consume_for);
    }
  }

  void add_links() {
    link_of_port_.resize(program_.instances.size());
    for (const Link& link : program_.links) {
      require(holds(program_.instances, link.from.value) &&
                  holds(program_.instances, link.to.value) &&
                  holds(block(link.from).registers, link.from_register) &&
                  holds(block(link.to).ports, link.to_port),
              kBad, "program '{}': a link from {}.{} to {}.{}", program_.name, link.from.value,
              link.from_register, link.to.value, link.to_port);
      std::vector<bool>& linked = link_of_port_[link.to.index()];
      linked.resize(block(link.to).ports.size());
      const Port& port = block(link.to).ports[at(link.to_port)];
      require(!linked[at(link.to_port)], kBad, "instance '{}': two links lead to port '{}'",
              name(link.to), port.name);
      linked[at(link.to_port)] = true;
      for (const std::int32_t reader : port.readers) {
        require(holds(block(link.to).actors, reader), kBad,
                "block '{}': port '{}' read by actor {}", block(link.to).name, port.name, reader);
        add_channel(link.from, link.from_register, link.to, reader, link.consume_for);
      }
    }
  }

  void add_channel(InstanceId from, std::int32_t reg, InstanceId to, std::int32_t actor,
                   std::int32_t consume_for) {
    const std::int32_t writer = writer_of_register_[at(first_register_[from.index()] + reg)];
    const std::int32_t frame = first_frame_[from.index()] + block(from).registers[at(reg)].frame;
    const std::int32_t producer = site_of_actor_[at(first_actor_[from.index()] + writer)];
    const std::int32_t consumer = site_of_actor_[at(first_actor_[to.index()] + actor)];
    const FrameQuota& quota = tables_.frames[at(frame)];
    const std::int64_t served = static_cast<std::int64_t>(quota.contents_per_step) * consume_for;
    require(
        consume_for >= 1 && served == tables_.sites[at(consumer)].acts_per_step, kBad,
        "'{}' of '{}' has {} contents per step for {} acts each, but '{}' of '{}' acts {} times",
        block(from).registers[at(reg)].name, name(from), quota.contents_per_step, consume_for,
        block(to).actors[at(actor)].name, name(to), tables_.sites[at(consumer)].acts_per_step);
    if (producer != consumer) {
      found_.push_back({frame, producer, consumer, consume_for});
      return;
    }
    // Readers inside the producing run: no message. State is read before its update, anything else
    // after it was written, and only whole contents.
    const bool in_order = quota.initially_full ? actor < writer : actor > writer;
    require(in_order && consume_for == 1 && quota.acts_per_content == 1, kBad,
            "block '{}': '{}' cannot read '{}' in the run that writes it", block(to).name,
            block(to).actors[at(actor)].name, block(from).registers[at(reg)].name);
  }

  // Every operand has an edge or a port that lists the reader: else nothing would order the bytes.
  void check_operands(InstanceId id) {
    const Block& block = this->block(id);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      for (const Operand& operand : block.actors[a].in) {
        const auto reader = static_cast<std::int32_t>(a);
        if (operand.source == Operand::Source::kRegister) {
          const bool found =
              std::any_of(block.edges.begin(), block.edges.end(), [&](const Edge& edge) {
                return edge.from_register == operand.index && edge.to_actor == reader &&
                       !edge.control;
              });
          require(found, kBad, "block '{}': no edge brings register {} to '{}'", block.name,
                  operand.index, block.actors[a].name);
          continue;
        }
        require(holds(block.ports, operand.index), kBad, "block '{}': '{}' reads port {}",
                block.name, block.actors[a].name, operand.index);
        const std::vector<std::int32_t>& readers = block.ports[at(operand.index)].readers;
        require(std::find(readers.begin(), readers.end(), reader) != readers.end(), kBad,
                "block '{}': port '{}' does not list its reader '{}'", block.name,
                block.ports[at(operand.index)].name, block.actors[a].name);
      }
    }
    for (std::size_t p = 0; p < block.ports.size(); ++p) {
      const std::vector<bool>& linked = link_of_port_[id.index()];
      require(p < linked.size() && linked[p], kBad, "instance '{}': no link leads to port '{}'",
              name(id), block.ports[p].name);
    }
  }

  // A writer without readers outside its site acks its own contents.
  void add_self_channels() {
    std::vector<std::pair<std::int32_t, std::int32_t>> read;
    for (const auto& [frame, producer, consumer, rate] : found_) read.push_back({producer, frame});
    std::sort(read.begin(), read.end());
    for (const auto& write : written_) {
      if (!std::binary_search(read.begin(), read.end(), write)) {
        found_.push_back({write.second, write.first, -1, 1});
      }
    }
    std::sort(found_.begin(), found_.end());
  }

  void distribute_channels() {
    for (const auto& [frame, producer, consumer, rate] : found_) {
      FrameQuota& quota = tables_.frames[at(frame)];
      if (quota.num_channels++ == 0) {
        quota.first_channel = static_cast<std::int32_t>(tables_.channels.size());
      }
      const bool from_host = tables_.sites[at(producer)].is_host();
      const bool to_host = consumer < 0 ? from_host : tables_.sites[at(consumer)].is_host();
      tables_.channels.push_back(
          {frame, producer, consumer, rate, tables_.num_channel_fences, from_host, to_host});
      tables_.num_channel_fences += quota.num_registers;
    }
    list_inputs();
    list_writes();
    check_registers();
    find_beside();
  }

  // Slots repeat every step, so no more contents are in flight than a step has. What host actors
  // tell each other has no bytes of the device.
  void check_registers() {
    for (const FrameQuota& quota : tables_.frames) {
      const std::int32_t most = quota.initially_full ? 1 : quota.contents_per_step;
      const auto first = tables_.channels.begin() + quota.first_channel;
      const bool is_of_hosts =
          quota.num_channels > 0 && !quota.initially_full &&
          std::all_of(first, first + quota.num_channels, [](const Channel& channel) {
            return channel.from_host && channel.to_host && !channel.acks_itself();
          });
      require(quota.num_registers <= most || is_of_hosts, kBad,
              "instance '{}' frame {}: {} registers, wanted 1 .. {}{}", name(quota.instance),
              quota.frame, quota.num_registers, most,
              quota.initially_full ? " (state is updated in place)" : " (contents per step)");
    }
  }

  void find_beside() {
    for (Site& site : tables_.sites) site.is_beside = site.is_host();
    std::vector<bool> exchanges(tables_.sites.size(), false);
    for (const Channel& channel : tables_.channels) {
      const std::int32_t consumer = channel.acks_itself() ? channel.producer : channel.consumer;
      for (const std::int32_t site : {channel.producer, consumer}) {
        const bool is_of_hosts = channel.from_host && channel.to_host && !channel.acks_itself();
        if (!is_of_hosts) tables_.sites[at(site)].is_beside = false;
        exchanges[at(site)] = true;
      }
    }
    for (std::size_t s = 0; s < tables_.sites.size(); ++s)
      if (!exchanges[s]) tables_.sites[s].is_beside = false;
  }

  void list_inputs() {
    for (const Channel& channel : tables_.channels) {
      if (!channel.acks_itself()) ++tables_.sites[at(channel.consumer)].num_inputs;
    }
    std::int32_t next = 0;
    for (Site& site : tables_.sites) {
      site.first_input = next;
      next += site.num_inputs;
      site.num_inputs = 0;
    }
    tables_.inputs.resize(at(next));
    for (std::size_t c = 0; c < tables_.channels.size(); ++c) {
      if (tables_.channels[c].acks_itself()) continue;
      Site& site = tables_.sites[at(tables_.channels[c].consumer)];
      tables_.inputs[at(site.first_input + site.num_inputs++)] = static_cast<std::int32_t>(c);
    }
  }

  void list_writes() {
    // written_ is sorted by site.
    for (const auto& [site_index, frame] : written_) {
      Site& site = tables_.sites[at(site_index)];
      if (site.num_writes++ == 0) {
        site.first_write = static_cast<std::int32_t>(tables_.writes.size());
      }
      const FrameQuota& quota = tables_.frames[at(frame)];
      SiteWrite write;
      write.frame = frame;
      for (std::int32_t c = quota.first_channel; c < quota.first_channel + quota.num_channels;
           ++c) {
        if (tables_.channels[at(c)].producer != site_index) continue;
        if (write.num_channels++ == 0) write.first_channel = c;
      }
      tables_.writes.push_back(write);
    }
  }

  void place_guards() {
    const auto runs = static_cast<std::int32_t>(tables_.runs.size());
    std::vector<Guard> guards = program_.guards;
    std::stable_sort(guards.begin(), guards.end(),
                     [](const Guard& a, const Guard& b) { return a.later < b.later; });
    for (const Guard& guard : guards) {
      require(guard.later.value >= 0 && guard.later.value < runs && guard.earlier.value >= 0 &&
                  guard.earlier.value < runs && (guard.lag == 0 || guard.lag == 1),
              kBad, "program '{}': a guard of run {} on run {} with lag {}", program_.name,
              guard.later.value, guard.earlier.value, guard.lag);
      require(guard.lag == 1 || guard.earlier < guard.later, kBad,
              "program '{}': run {} cannot wait for run {}, which is issued later", program_.name,
              guard.later.value, guard.earlier.value);
      const std::int32_t group = program_.order[guard.later.index()].launch_group;
      require(guard.lag == 1 || group < 0 ||
                  program_.order[guard.earlier.index()].launch_group != group,
              kBad, "program '{}': a guard between runs {} and {} of one launch group",
              program_.name, guard.earlier.value, guard.later.value);
      RunEntry& later = tables_.runs[guard.later.index()];
      if (later.num_guards++ == 0) {
        later.first_guard = static_cast<std::int32_t>(tables_.guards.size());
      }
      const RunEntry& earlier = tables_.runs[guard.earlier.index()];
      tables_.guards.push_back({earlier.queue, earlier.position, guard.lag});
    }
  }

  const PhysicalGraph& graph_;
  ProgramId id_;
  const RankProgram& program_;
  ProgramTables& tables_;

  std::int32_t num_actors_ = 0, num_frames_ = 0;
  std::vector<std::int32_t> first_actor_, first_frame_, first_register_;  // by instance
  std::vector<std::int32_t> site_of_actor_;
  std::vector<std::int32_t> writer_of_register_;  // actor of the same instance
  std::vector<std::vector<bool>> link_of_port_;
  std::vector<std::pair<std::int32_t, std::int32_t>> written_;  // (site, frame)
  // (frame, producer, consumer, consume_for)
  std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>> found_;
};

}  // namespace

ProgramTables::ProgramTables(const PhysicalGraph& graph, ProgramId program) {
  Builder(graph, program, *this).build();
}

std::string actors_to_text(const PhysicalGraph& graph, ProgramId program, InstanceId instance,
                           std::int32_t first_actor, std::int32_t num_actors) {
  const Instance& owner = graph.programs[program.index()].instances[instance.index()];
  const std::string& first = graph.actor_name(owner, first_actor);
  if (num_actors == 1) return fmt::format("{}[{}]", owner.name, first);
  const std::string& last = graph.actor_name(owner, first_actor + num_actors - 1);
  return fmt::format("{}[{} .. {}]", owner.name, first, last);
}

std::string run_to_text(const PhysicalGraph& graph, ProgramId program, RunId run) {
  const Run& entry = graph.programs[program.index()].order[run.index()];
  const Block& block =
      graph.block_of(graph.programs[program.index()].instances[entry.instance.index()]);
  return fmt::format(
      "run {}: {} act {} on {}", run.value,
      actors_to_text(graph, program, entry.instance, entry.first_actor, entry.num_actors),
      entry.act, to_string(block.actors[at(entry.first_actor)].queue));
}

}  // namespace sextant
