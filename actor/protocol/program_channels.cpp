// Channels from edges and links, by frame and producer, and what each site reads and writes.
#include "actor/protocol/program_parts.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <compare>
#include <utility>

namespace sextant {
namespace {

// A channel before it has a place in the table; in the order of the table.
struct FoundChannel {
  std::int32_t frame = 0;
  SiteId producer, consumer;
  std::int32_t consume_for = 1;
  auto operator<=>(const FoundChannel&) const = default;
};
using FoundChannels = std::vector<FoundChannel>;

// What channels are looked for in.
struct ChannelSearch {
  const ProgramSource& source;
  const ActorNumbers& numbers;
  const Writers& writers;
  const ProgramTables& tables;  // frames and sites are there
};

// From a register of an instance to an actor of it or another, each content for so many acts.
struct Reading {
  InstanceId from;
  std::int32_t reg = 0;
  InstanceId to;
  std::int32_t actor = 0, consume_for = 1;
};

void add_channel(const ChannelSearch& search, const Reading& reading, FoundChannels& found) {
  const auto& [source, numbers, writers, tables] = search;
  const Block &from = source.block(reading.from), &to = source.block(reading.to);
  const std::string &reg = from.registers[at(reading.reg)].name,
                    &actor = to.actors[at(reading.actor)].name;
  const std::int32_t writer =
      writers.of_register[at(writers.first_register[reading.from] + reading.reg)];
  const std::int32_t frame =
      numbers.first_frame[reading.from] + from.registers[at(reading.reg)].frame;
  const SiteId producer = numbers.site_of(reading.from, writer);
  const SiteId consumer = numbers.site_of(reading.to, reading.actor);
  const FrameQuota& quota = tables.frames[at(frame)];
  const std::int32_t acts = tables.sites[consumer].acts_per_step;
  const std::int64_t served = std::int64_t{quota.contents_per_step} * reading.consume_for;
  require(reading.consume_for >= 1 && served == acts, kBadProgram,
          "'{}' of '{}' has {} contents per step for {} acts each, but '{}' of '{}' acts {} times",
          reg, source.name(reading.from), quota.contents_per_step, reading.consume_for, actor,
          source.name(reading.to), acts);
  if (producer != consumer) {
    found.push_back({frame, producer, consumer, reading.consume_for});
    return;
  }
  // Readers inside the producing run: no message. State is read before its update, anything else
  // after it was written, and only whole contents.
  const bool in_order = quota.initially_full ? reading.actor < writer : reading.actor > writer;
  require(in_order && reading.consume_for == 1 && quota.acts_per_content == 1, kBadProgram,
          "block '{}': '{}' cannot read '{}' in the run that writes it", to.name, actor, reg);
}

void add_edges(const ChannelSearch& search, InstanceId id, FoundChannels& found) {
  const Block& block = search.source.block(id);
  for (const Edge& edge : block.edges) {
    require(holds(block.registers, edge.from_register) && holds(block.actors, edge.to_actor),
            kBadProgram, "block '{}': an edge from register {} to actor {}", block.name,
            edge.from_register, edge.to_actor);
    add_channel(search, {id, edge.from_register, id, edge.to_actor, edge.consume_for}, found);
  }
}

// By port, whether a link leads to it.
using LinkedPorts = Table<InstanceId, std::vector<bool>>;

LinkedPorts add_links(const ChannelSearch& search, FoundChannels& found) {
  const ProgramSource& source = search.source;
  LinkedPorts linked_ports(source.program.instances.size());
  for (const Link& link : source.program.links) {
    require(holds(source.program.instances, link.from) &&
                holds(source.program.instances, link.to) &&
                holds(source.block(link.from).registers, link.from_register) &&
                holds(source.block(link.to).ports, link.to_port),
            kBadProgram, "program '{}': a link from {}.{} to {}.{}", source.program.name,
            link.from.value, link.from_register, link.to.value, link.to_port);
    std::vector<bool>& linked = linked_ports[link.to];
    linked.resize(source.block(link.to).ports.size());
    const Port& port = source.block(link.to).ports[at(link.to_port)];
    require(!linked[at(link.to_port)], kBadProgram, "instance '{}': two links lead to port '{}'",
            source.name(link.to), port.name);
    linked[at(link.to_port)] = true;
    for (const std::int32_t reader : port.readers) {
      require(holds(source.block(link.to).actors, reader), kBadProgram,
              "block '{}': port '{}' read by actor {}", source.block(link.to).name, port.name,
              reader);
      add_channel(search, {link.from, link.from_register, link.to, reader, link.consume_for},
                  found);
    }
  }
  return linked_ports;
}

// Every operand has an edge or a port that lists the reader: else nothing would order the bytes.
void check_operands(const Block& block) {
  for (std::size_t a = 0; a < block.actors.size(); ++a) {
    for (const Operand& operand : block.actors[a].in) {
      const auto reader = static_cast<std::int32_t>(a);
      if (operand.source == Operand::Source::kRegister) {
        const bool found =
            std::any_of(block.edges.begin(), block.edges.end(), [&](const Edge& edge) {
              return edge.from_register == operand.index && edge.to_actor == reader &&
                     !edge.control;
            });
        require(found, kBadProgram, "block '{}': no edge brings register {} to '{}'", block.name,
                operand.index, block.actors[a].name);
        continue;
      }
      require(holds(block.ports, operand.index), kBadProgram, "block '{}': '{}' reads port {}",
              block.name, block.actors[a].name, operand.index);
      const std::vector<std::int32_t>& readers = block.ports[at(operand.index)].readers;
      require(std::find(readers.begin(), readers.end(), reader) != readers.end(), kBadProgram,
              "block '{}': port '{}' does not list its reader '{}'", block.name,
              block.ports[at(operand.index)].name, block.actors[a].name);
    }
  }
}

void check_ports(const ProgramSource& source, InstanceId id, const std::vector<bool>& linked) {
  const Block& block = source.block(id);
  for (std::size_t p = 0; p < block.ports.size(); ++p) {
    require(p < linked.size() && linked[p], kBadProgram,
            "instance '{}': no link leads to port '{}'", source.name(id), block.ports[p].name);
  }
}

// A writer without readers outside its site acks its own contents.
void add_self_channels(const Writers& writers, FoundChannels& found) {
  std::vector<std::pair<SiteId, std::int32_t>> read;
  for (const auto& [frame, producer, consumer, rate] : found) read.push_back({producer, frame});
  std::sort(read.begin(), read.end());
  for (const auto& write : writers.written) {
    if (!std::binary_search(read.begin(), read.end(), write)) {
      found.push_back({write.second, write.first, SiteId::none, 1});
    }
  }
  std::sort(found.begin(), found.end());
}

FoundChannels find_channels(const ChannelSearch& search) {
  const ProgramSource& source = search.source;
  FoundChannels found;
  for (const InstanceId i : source.program.instances.keys()) add_edges(search, i, found);
  const LinkedPorts linked = add_links(search, found);
  for (const InstanceId i : source.program.instances.keys()) {
    check_operands(source.block(i));
    check_ports(source, i, linked[i]);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  add_self_channels(search.writers, found);
  return found;
}

void distribute(const FoundChannels& found, ProgramTables& tables) {
  for (const auto& [frame, producer, consumer, rate] : found) {
    FrameQuota& quota = tables.frames[at(frame)];
    if (quota.num_channels++ == 0) {
      quota.first_channel = static_cast<std::int32_t>(tables.channels.size());
    }
    const bool from_host = tables.sites[producer].is_host();
    const bool to_host = !consumer.is_valid() ? from_host : tables.sites[consumer].is_host();
    tables.channels.push_back(
        {frame, producer, consumer, rate, tables.num_channel_fences, from_host, to_host});
    tables.num_channel_fences += quota.num_registers;
  }
}

void list_inputs(ProgramTables& tables) {
  for (const Channel& channel : tables.channels) {
    if (!channel.acks_itself()) ++tables.sites[channel.consumer].num_inputs;
  }
  std::int32_t next = 0;
  for (Site& site : tables.sites) {
    site.first_input = next;
    next += site.num_inputs;
    site.num_inputs = 0;
  }
  tables.inputs.resize(at(next));
  for (std::size_t c = 0; c < tables.channels.size(); ++c) {
    if (tables.channels[c].acks_itself()) continue;
    Site& site = tables.sites[tables.channels[c].consumer];
    tables.inputs[at(site.first_input + site.num_inputs++)] = static_cast<std::int32_t>(c);
  }
}

void list_writes(const Writers& writers, ProgramTables& tables) {
  for (const auto& [site_index, frame] : writers.written) {
    Site& site = tables.sites[site_index];
    if (site.num_writes++ == 0) {
      site.first_write = static_cast<std::int32_t>(tables.writes.size());
    }
    const FrameQuota& quota = tables.frames[at(frame)];
    SiteWrite write;
    write.frame = frame;
    for (std::int32_t c = quota.first_channel; c < quota.first_channel + quota.num_channels; ++c) {
      if (tables.channels[at(c)].producer != site_index) continue;
      if (write.num_channels++ == 0) write.first_channel = c;
    }
    tables.writes.push_back(write);
  }
}

bool is_of_hosts(const Channel& channel) {
  return channel.from_host && channel.to_host && !channel.acks_itself();
}

// Slots repeat every step, so no more contents are in flight than a step has. What host actors tell
// each other has no bytes of the device.
void check_registers(const ProgramSource& source, const ProgramTables& tables) {
  for (const FrameQuota& quota : tables.frames) {
    const std::int32_t most = quota.initially_full ? 1 : quota.contents_per_step;
    const auto first = tables.channels.begin() + quota.first_channel;
    const bool is_between_hosts = quota.num_channels > 0 && !quota.initially_full &&
                                  std::all_of(first, first + quota.num_channels, is_of_hosts);
    require(quota.num_registers <= most || is_between_hosts, kBadProgram,
            "instance '{}' frame {}: {} registers, wanted 1 .. {}{}", source.name(quota.instance),
            quota.frame, quota.num_registers, most,
            quota.initially_full ? " (state is updated in place)" : " (contents per step)");
  }
}

void find_beside(ProgramTables& tables) {
  Table<SiteId, bool> exchanges(tables.sites.size(), false);
  for (Site& site : tables.sites) site.is_beside = site.is_host();
  for (const Channel& channel : tables.channels) {
    const SiteId consumer = channel.acks_itself() ? channel.producer : channel.consumer;
    for (const SiteId site : {channel.producer, consumer}) {
      if (!is_of_hosts(channel)) tables.sites[site].is_beside = false;
      exchanges[site] = true;
    }
  }
  for (const SiteId s : tables.sites.keys())
    if (!exchanges[s]) tables.sites[s].is_beside = false;
}

}  // namespace

void add_channels(const ProgramSource& source, const ActorNumbers& numbers, const Writers& writers,
                  ProgramTables& tables) {
  distribute(find_channels({source, numbers, writers, tables}), tables);
  list_inputs(tables);
  list_writes(writers, tables);
  check_registers(source, tables);
  find_beside(tables);
}

}  // namespace sextant
