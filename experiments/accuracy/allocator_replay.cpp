// Tensors with their first and last position in the issue order, then the allocator position by
// position.
#include "experiments/accuracy/allocator_replay.h"

#include "compiler/memory/lifetimes.h"
#include "core/base/at.h"
#include "core/base/check.h"
#include "simulator/costs/caching_allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace sextant {
namespace {

constexpr int kSteps = 3;
constexpr std::int32_t kDefaultStream = 0, kGatherStream = 1, kReduceStream = 2;

struct Tensor {
  std::int64_t born = 0, dead = 0;  // positions: it is there before the first and after the last
  Bytes bytes;
  std::int32_t stream = kDefaultStream;
};

// Of one act of one layer in one direction: positions of its first and last actor that computes.
struct Window {
  std::int64_t first = -1, last = -1;
};

bool is_backward(Phase phase) {
  return phase == Phase::kRecompute || phase == Phase::kInputGrad || phase == Phase::kWeightGrad;
}

class TraceReplay {
 public:
  TraceReplay(const PhysicalGraph& graph, const RankProgram& program, const ReplayRules& rules)
      : graph_(graph), program_(program), rules_(rules) {
    for (const Instance& instance : program.instances)
      last_layer_ = std::max(last_layer_, instance.layer);
    find_positions();
    find_gathers();
    add_contents();
    tensors_.push_back({end_of_step(), end_of_step(), collected_});
    add_state();
    if (rules.gathered) add_units();
  }

  AllocatorUse run() const {
    CachingAllocator allocator;
    allocator.allocate(rules_.workspace);
    for (const Tensor& tensor : parameters_) allocator.allocate(tensor.bytes);
    for (int step = 0; step < kSteps; ++step) run_step(allocator, step == 0);
    return {allocator.peak_allocated(), allocator.peak_reserved()};
  }

 private:
  struct Place {  // of a register of an instance
    InstanceId instance;
    std::int32_t reg = 0;
    auto operator<=>(const Place&) const = default;
  };
  using UnitKey = std::tuple<int, bool, std::int32_t>;  // layer, is backward, act

  const Block& block(InstanceId instance) const {
    return graph_.block_of(program_.instances[instance]);
  }
  int layer_of(InstanceId instance) const { return program_.instances[instance].layer; }
  bool is_root(int layer) const { return layer == 0 || layer == last_layer_; }

  static const Actor* writer_of(const Block& block, std::int32_t reg) {
    for (const Actor& actor : block.actors)
      if (std::find(actor.out.begin(), actor.out.end(), reg) != actor.out.end()) return &actor;
    return nullptr;
  }

  void find_positions() {
    std::int64_t position = 0;
    for (const Run& run : program_.order)
      for (std::int32_t a = 0; a < run.num_actors; ++a, ++position) {
        const Actor& actor = at(block(run.instance).actors, run.first_actor + a);
        const bool backward = is_backward(actor.phase);
        first_act_.try_emplace({run.instance, run.first_actor + a}, position);
        if (actor.queue != QueueRole::kCompute || (!backward && actor.phase != Phase::kForward))
          continue;
        if (actor.kind == "cast" && is_once(run.instance)) continue;  // of a shard
        Window& window = windows_[{layer_of(run.instance), backward, run.act}];
        if (window.first < 0) window.first = position;
        window.last = position;
      }
    end_ = position;
  }
  // What is made of parameters once per step, whatever the number of micro-batches.
  bool is_once(InstanceId instance) const {
    return program_.instances[instance].name.ends_with(".parameters");
  }

  void find_gathers() {
    for (const InstanceId instance : program_.instances.keys()) {
      for (const Edge& edge : block(instance).edges)
        if (!edge.control)
          readers_[{instance, edge.from_register}].insert(
              at(block(instance).actors, edge.to_actor).kind);
    }
    for (const Link& link : program_.links)
      for (const std::int32_t reader : at(block(link.to).ports, link.to_port).readers)
        readers_[{link.from, link.from_register}].insert(at(block(link.to).actors, reader).kind);
  }

  void add_contents() {
    const Lifetimes lifetimes = find_lifetimes(graph_, program_);
    for (const ProgramFrame& frame : lifetimes.frames) {
      if (frame.frame->initially_full || frame.is_host) continue;
      for (std::int32_t c = 0; c < frame.contents_per_step; ++c) {
        const ContentLife& life = lifetimes.contents[frame.first_content.plus(c)];
        if (life.is_used()) add_content(frame, life, c);
      }
    }
  }

  // One tensor per register that has bytes of its own.
  void add_content(const ProgramFrame& frame, const ContentLife& life, std::int32_t act) {
    const Block& own = block(frame.instance);
    for (std::size_t r = 0; r < own.registers.size(); ++r) {
      const Register& reg = own.registers[r];
      if (reg.frame != frame.index) continue;
      const auto index = static_cast<std::int32_t>(r);
      const Actor* writer = writer_of(own, index);
      if (writer != nullptr && writer->in_place && at(writer->out, writer->in_place->out) == index)
        continue;
      Tensor tensor{life.first, life.last, size_of(reg.local)};
      if (writer != nullptr && is_replaced(frame, index, act, *writer, tensor)) continue;
      tensors_.push_back(tensor);
    }
  }

  // Changes the tensor as the rules say; true for what other tensors stand for.
  bool is_replaced(const ProgramFrame& frame, std::int32_t reg, std::int32_t act,
                   const Actor& writer, Tensor& tensor) {
    const int layer = layer_of(frame.instance);
    const Instance& instance = program_.instances[frame.instance];
    const auto index = static_cast<std::int32_t>(&writer - block(frame.instance).actors.data());
    const std::string name = fmt::format("layer{}.{}", layer, graph_.actor_name(instance, index));
    if (rules_.kept.contains(name))
      tensor.dead = std::max(tensor.dead, begin_of_backward(layer, act));
    if (rules_.collected.contains(name)) {
      tensor.dead = std::max(tensor.dead, end_of_step());
      collected_ += tensor.bytes;
    }
    const Register& local = at(block(frame.instance).registers, reg);
    return (rules_.all_in && has_other_type(frame, writer, tensor, local)) ||
           (rules_.gathered && is_sharding(frame, reg, writer, tensor));
  }

  std::int64_t end_of_step() const {  // of the last backward
    std::int64_t end = 0;
    for (const auto& [key, window] : windows_) end = std::max(end, window.last);
    return end;
  }

  // Copies of parameters go, gradients shrink: true for what is not there.
  bool has_other_type(const ProgramFrame& frame, const Actor& writer, Tensor& tensor,
                      const Register& reg) const {
    if (writer.kind == "cast" && is_once(frame.instance)) return true;
    if (frame.frame->memory == MemoryClass::kGradients) tensor.bytes = in_type(reg);
    return false;
  }
  Bytes in_type(const Register& reg) const {
    return Bytes(reg.local.shape.elements() * size_of(*rules_.all_in).value);
  }

  std::int64_t begin_of_backward(int layer, std::int32_t act) const {
    const auto found = windows_.find({layer, true, act});
    return found == windows_.end() ? 0 : found->second.first;
  }

  // True for what units hold instead.
  bool is_sharding(const ProgramFrame& frame, std::int32_t reg, const Actor& writer,
                   Tensor& tensor) {
    const int layer = layer_of(frame.instance);
    const std::set<std::string>& readers = readers_[{frame.instance, reg}];
    if (writer.kind == "all_gather" && frame.frame->memory == MemoryClass::kParameters) {
      const std::int64_t elements = at(block(frame.instance).registers, reg).local.shape.elements();
      parts_[layer][writer.name] = Bytes(elements * size_of(*rules_.gathered).value);
      return true;
    }
    if (writer.kind == "cast" && readers == std::set<std::string>{"all_gather"}) return true;
    if (writer.kind == "reduce_scatter") tensor.stream = kReduceStream;
    if (readers == std::set<std::string>{"reduce_scatter"}) {
      const Register& local = at(block(frame.instance).registers, reg);
      gradients_.push_back({layer, tensor.born, local.local.shape.elements()});
      return true;
    }
    return false;
  }

  // Output 0 of what updates state is the parameter.
  void add_state() {
    for (const InstanceId i : program_.instances.keys()) {
      const Block& own = block(i);
      for (std::size_t a = 0; a < own.actors.size(); ++a) {
        const auto found = first_act_.find({i, static_cast<int>(a)});
        const std::int64_t born = found == first_act_.end() ? 0 : found->second;
        const Actor& actor = own.actors[a];
        for (std::size_t o = 0; o < actor.out.size(); ++o) {
          const Register& reg = at(own.registers, actor.out[o]);
          if (!at(own.frames, reg.frame).initially_full) continue;
          const Bytes bytes = rules_.all_in ? in_type(reg) : size_of(reg.local);
          (o == 0 ? parameters_ : moments_).push_back({born, born, bytes});
        }
      }
    }
  }

  // ---------------------------------------------------------------- units

  struct Gradient {
    int layer = 0;
    std::int64_t born = 0, elements = 0;
  };
  struct Turn {  // of a unit
    std::int64_t gathered = 0, begins = 0, ends = 0;
    int layer = 0;
    bool backward = false;
  };

  void add_units() {
    std::vector<Turn> turns;
    std::map<std::int32_t, Window> acts;
    for (const auto& [key, window] : windows_) {
      const auto& [layer, backward, act] = key;
      Window& whole = acts[act];
      if (whole.first < 0 || window.first < whole.first) whole.first = window.first;
      whole.last = std::max(whole.last, window.last);
      if (is_root(layer)) continue;
      const bool stays = layer == last_layer_ - 1;
      if (stays && backward) continue;
      const auto end = windows_.find({layer, true, act});
      turns.push_back({window.first, window.first,
                       stays && end != windows_.end() ? end->second.last : window.last, layer,
                       backward});
    }
    for (const auto& [act, whole] : acts)
      turns.push_back({whole.first, whole.first, whole.last, 0, false});
    add_gathered(std::move(turns));
    add_gradients();
  }

  std::vector<Bytes> parts_of(int layer) const {
    std::vector<Bytes> parts;
    for (const auto& [other, sizes] : parts_)
      if (other == layer || (is_root(layer) && is_root(other)))
        for (const auto& [name, bytes] : sizes) parts.push_back(bytes);
    return parts;
  }

  void add_gathered(std::vector<Turn> turns) {
    std::stable_sort(turns.begin(), turns.end(),
                     [](const Turn& a, const Turn& b) { return a.begins < b.begins; });
    for (std::size_t i = 0; i < turns.size(); ++i) {
      Turn& turn = turns[i];
      if (turn.backward && i > 0) turn.gathered = turns[i - 1].begins;
      Tensor flat{turn.gathered, i + 1 < turns.size() ? turns[i + 1].begins : turn.ends, Bytes(),
                  kGatherStream};
      for (const Bytes part : parts_of(turn.layer)) {
        flat.bytes += part;
        tensors_.push_back({turn.begins, turn.ends, part});
      }
      tensors_.push_back(flat);
    }
  }

  void add_gradients() {
    std::map<std::int64_t, std::int64_t> reduced;  // elements by end of the unit's backward
    for (const Gradient& gradient : gradients_) {
      const std::int64_t end = end_of_backward(gradient);
      tensors_.push_back(
          {gradient.born, end, Bytes(gradient.elements * size_of(*rules_.gathered).value)});
      reduced[end] += gradient.elements;
    }
    for (auto entry = reduced.begin(); entry != reduced.end(); ++entry) {
      const auto next = std::next(entry);
      tensors_.push_back({entry->first, next == reduced.end() ? entry->first : next->first,
                          Bytes(entry->second * size_of(DType::kF32).value)});
    }
  }

  std::int64_t end_of_backward(const Gradient& gradient) const {
    std::int64_t end = gradient.born;
    for (const auto& [key, window] : windows_) {
      const auto& [layer, backward, act] = key;
      if (!backward || window.first > gradient.born) continue;
      if (layer == gradient.layer || (is_root(layer) && is_root(gradient.layer)))
        end = std::max(end, window.last);
    }
    if (!is_root(gradient.layer)) return end;
    for (const auto& [key, window] : windows_)
      if (std::get<1>(key) && is_root(std::get<0>(key))) end = std::max(end, window.last);
    return end;
  }

  // ---------------------------------------------------------------- steps

  void run_step(CachingAllocator& allocator, bool is_first) const {
    std::vector<std::vector<std::size_t>> born(static_cast<std::size_t>(end_)), dead(born.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      born[static_cast<std::size_t>(tensors_[i].born)].push_back(i);
      dead[static_cast<std::size_t>(tensors_[i].dead)].push_back(i);
    }
    std::map<std::int64_t, std::vector<Bytes>> moments;
    if (is_first)
      for (const Tensor& tensor : moments_) moments[tensor.born].push_back(tensor.bytes);
    std::vector<CachingAllocator::Block> blocks(tensors_.size());
    for (std::size_t position = 0; position < born.size(); ++position) {
      for (const std::size_t i : born[position])
        blocks[i] = allocator.allocate(tensors_[i].bytes, tensors_[i].stream);
      if (const auto found = moments.find(static_cast<std::int64_t>(position));
          found != moments.end())
        for (const Bytes bytes : found->second) allocator.allocate(bytes);
      for (const std::size_t i : dead[position]) allocator.free(blocks[i]);
    }
  }

  const PhysicalGraph& graph_;
  const RankProgram& program_;
  const ReplayRules& rules_;
  int last_layer_ = 0;
  std::int64_t end_ = 0;
  std::map<std::pair<InstanceId, std::int32_t>, std::int64_t> first_act_;  // instance, actor
  std::map<UnitKey, Window> windows_;
  std::map<Place, std::set<std::string>> readers_;
  std::map<int, std::map<std::string, Bytes>> parts_;  // gathered, by layer and gather
  std::vector<Gradient> gradients_;
  Bytes collected_;
  std::vector<Tensor> tensors_, parameters_, moments_;
};

}  // namespace

AllocatorUse replay_allocator(const PhysicalGraph& graph, const RankProgram& program,
                              const ReplayRules& rules) {
  return TraceReplay(graph, program, rules).run();
}

}  // namespace sextant
