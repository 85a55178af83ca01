// Dataflow by the book: one value per register content, actors in a serial order.
#include "tests/support/mix_kernel.h"

#include "actor/calls/operands.h"
#include "actor/protocol/dry_run.h"
#include "core/base/check.h"

#include <algorithm>
#include <cstring>

namespace sextant::testing {

// Operands are reduced first: poison and sums of summed replicas may be as large as they like.
std::int64_t mixed(std::span<const Values> in, std::size_t output, std::size_t i) {
  std::int64_t sum = 7 + static_cast<std::int64_t>(output);
  for (std::size_t j = 0; j < in.size(); ++j) {
    if (in[j].empty()) continue;
    sum += static_cast<std::int64_t>(j + 2) * (in[j][i % in[j].size()] % kMixModulus);
  }
  return ((sum % kMixModulus) + kMixModulus) % kMixModulus;
}

std::int64_t mixed_over(std::int64_t old, std::int64_t value, bool accumulate, bool updates) {
  if (accumulate) return old % kMixModulus + value;
  return updates ? (3 * (old % kMixModulus) + value) % kMixModulus : value;
}

std::int64_t loaded(Rank rank, std::int64_t step, std::int64_t act, std::size_t i) {
  return (rank.value * 101 + step * 1013 + act * 17 + static_cast<std::int64_t>(i) * 3) %
         kMixModulus;
}

namespace {

Values values_of(std::span<const std::byte> bytes) {
  Values values(bytes.size() / sizeof(std::int64_t));
  if (!values.empty())
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(std::int64_t));
  return values;
}

}  // namespace

void MixHostActors::act(const HostAct& act) {
  for (const std::span<std::byte> out : act.outputs) {
    Values values(out.size() / sizeof(std::int64_t));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = loaded(act.rank, act.step, act.act, i);
    }
    if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  }
  if (act.inputs.empty()) return;
  const std::lock_guard lock(mutex_);
  records_[{act.rank.value, act.instance->name, act.step, act.act}] = values_of(act.inputs[0]);
}

HostRecords MixHostActors::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

namespace {

class Oracle {
 public:
  explicit Oracle(const PhysicalGraph& graph)
      : graph_(graph), dry_(dry_run(graph, RankScope::kAllRanks)), tables_(graph) {
    for (const ProgramId p : graph.programs.keys()) {
      resolvers_.emplace_back(graph, p);
    }
  }

  MixResult run(std::int64_t steps) {
    for (step_ = 0; step_ < steps; ++step_) {
      load();
      for (const Issue& issue : dry_.order) {
        // A launch group is one point: all halves read before any writes.
        for (std::int32_t i = 0; i < issue.num_runs; ++i)
          send(issue.rank, RunId(issue.first.value + i));
        for (std::int32_t i = 0; i < issue.num_runs; ++i)
          execute(issue.rank, RunId(issue.first.value + i));
        settle();
      }
      record();
    }
    collect_state();
    return std::move(result_);
  }

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
  struct Meeting {
    std::vector<std::pair<Rank, Values>> sent;
    std::vector<Key> receivers;
    std::size_t arrived = 0, members = 0;
    bool sums = false;
  };

  const OperandResolver& resolver(Rank rank) const {
    return resolvers_[graph_.ranks[rank].program.index()];
  }

  static Key key(Rank rank, const BufferRef& ref) {
    return {rank.value, ref.instance.value, ref.reg, ref.content};
  }

  std::size_t elements(Rank rank, const BufferRef& ref) const {
    return static_cast<std::size_t>(
        shard_of(graph_, ref.info->layout, rank).local_shape().elements());
  }

  Values& value(Rank rank, const BufferRef& ref) {
    Values& values = values_[key(rank, ref)];
    if (values.empty()) values.assign(elements(rank, ref), 0);
    return values;
  }

  template <typename Visit>
  void for_each_host_act(const Visit& visit) {
    for (const Rank r : graph_.ranks.keys()) {
      const auto tables = tables_.of(graph_.ranks[r].program);
      for (const SiteId s : tables->host_sites) {
        const Site& site = tables->sites[s];
        for (std::int32_t act = 0; act < site.acts_per_step; ++act) {
          visit(r, site, resolver(r).call(site.instance, site.first_actor, act), act);
        }
      }
    }
  }

  void load() {
    for_each_host_act([&](Rank rank, const Site&, const ActorCall& call, std::int32_t act) {
      for (const BufferRef& out : call.out) {
        Values& values = value(rank, out);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = loaded(rank, step_, act, i);
      }
    });
  }

  // Contents keep their values to the end of the step.
  void record() {
    for_each_host_act([&](Rank rank, const Site& site, const ActorCall& call, std::int32_t act) {
      if (call.in.empty()) return;
      const std::string& name = graph_.program_of(rank).instances[site.instance].name;
      result_.records[{rank.value, name, step_, act}] = value(rank, call.in[0]);
    });
  }

  Meeting& meeting_of(Rank rank, RunId run) {
    return meetings_[dry_.meeting_of_run[rank.index()][run]];
  }

  void send(Rank rank, RunId run) {
    for (const ActorCall& call : resolver(rank).calls(run)) {
      if (!call.actor->communication) continue;
      Meeting& meeting = meeting_of(rank, run);
      if (!call.in.empty()) meeting.sent.push_back({rank, value(rank, call.in[0])});
    }
  }

  void execute(Rank rank, RunId run) {
    for (const ActorCall& call : resolver(rank).calls(run)) {
      if (call.actor->communication) {
        arrive(rank, run, call);
      } else {
        compute(rank, call);
      }
    }
  }

  void compute(Rank rank, const ActorCall& call) {
    std::vector<Values> in;
    for (const BufferRef& ref : call.in) in.push_back(value(rank, ref));
    const bool updates = call.actor->attributes.contains(kMixUpdates);
    for (std::size_t o = 0; o < call.out.size(); ++o) {
      Values& out = value(rank, call.out[o]);
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = mixed_over(out[i], mixed(in, o, i), call.accumulate[o], updates);
      }
    }
  }

  void arrive(Rank rank, RunId run, const ActorCall& call) {
    Meeting& meeting = meeting_of(rank, run);
    const Communication& communication = *call.actor->communication;
    const GroupId group = graph_.ranks[rank].groups[static_cast<std::size_t>(communication.group)];
    meeting.members = graph_.groups[group].ranks.size();
    meeting.sums = communication.primitive == Primitive::kAllReduce;
    require(meeting.sums || communication.primitive == Primitive::kTransfer, ErrorCode::kInternal,
            "the oracle knows sums and transfers only");
    if (!call.out.empty()) {
      value(rank, call.out[0]);
      meeting.receivers.push_back(key(rank, call.out[0]));
    }
    ++meeting.arrived;
  }

  // Completes the communications at which all members have arrived.
  void settle() {
    std::erase_if(meetings_, [&](const auto& entry) {
      const Meeting& meeting = entry.second;
      if (meeting.arrived < meeting.members) return false;
      for (const Key& receiver : meeting.receivers) {
        Values& out = values_[receiver];
        std::fill(out.begin(), out.end(), 0);
        for (const auto& [rank, sent] : meeting.sent) {
          for (std::size_t i = 0; i < out.size() && i < sent.size(); ++i) out[i] += sent[i];
        }
      }
      return true;
    });
  }

  void collect_state() {
    for (const Rank r : graph_.ranks.keys()) {
      const RankProgram& program = graph_.program_of(r);
      for (const InstanceId i : program.instances.keys()) {
        const Block& block = graph_.block_of(program.instances[i]);
        for (std::size_t reg = 0; reg < block.registers.size(); ++reg) {
          const auto frame = static_cast<std::size_t>(block.registers[reg].frame);
          if (!block.frames[frame].initially_full) continue;
          const auto number = static_cast<std::int32_t>(reg);
          result_.state[{r.value, i.value, number}] = value(r, resolver(r).buffer(i, number, 0));
        }
      }
    }
  }

  const PhysicalGraph& graph_;
  DryRun dry_;
  GraphTables tables_;
  std::vector<OperandResolver> resolvers_;
  std::map<Key, Values> values_;
  std::map<MeetingId, Meeting> meetings_;
  std::int64_t step_ = 0;
  MixResult result_;
};

}  // namespace

MixResult mix_oracle(const PhysicalGraph& graph, std::int64_t steps) {
  return Oracle(graph).run(steps);
}

}  // namespace sextant::testing
