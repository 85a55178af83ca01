// Best first through the tree of strategies: subtrees fall to bounds, leaves are compiled and
// simulated in the order of a guess, neighbours of the best in between.

#include "search/search.h"

#include "compiler/expand.h"
#include "compiler/stage.h"
#include "compiler/training_graph.h"
#include "core/at.h"
#include "core/check.h"
#include "core/divisors.h"
#include "core/nearest.h"
#include "core/operator.h"
#include "search/bounds.h"
#include "search/estimate.h"
#include "search/neighbours.h"
#include "search/space.h"
#include "simulator/models.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace sextant {

namespace {

// Training graphs are large, and leaves of one graph come close together.
constexpr std::size_t kKeptGraphs = 4;

std::string text_of_excess(Bytes needed, const std::vector<LibraryUse>& libraries,
                           Bytes available) {
  const std::string beside =
      libraries.empty()
          ? ""
          : fmt::format(" (libraries {}: {})", to_text(total(libraries)), to_text(libraries));
  return fmt::format("memory: {} of {}{}", to_text(needed), to_text(available), beside);
}

bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::kInfeasible || error.code() == ErrorCode::kBadInput;
}

// A reason without its numbers, names and hints: what refusals of one kind have in common.
std::string kind_of_reason(const std::string& reason) {
  std::string kind;
  bool quoted = false;
  for (const char c : reason.substr(0, reason.find(';'))) {
    if (c == '\'') quoted = !quoted;
    if (!quoted && std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  }
  return kind;
}

// Samples of a micro-batch: a graph in a file has its own.
std::optional<std::int64_t> batch_of(const LogicalGraph& graph) {
  for (const LogicalOp& op : graph.ops()) {
    if (!op.inputs.empty() || !graph.registry().get(op.kind).on_host) continue;
    const Shape& shape = graph.tensor(op.outputs[0]).type.shape;
    if (shape.rank() > 0) return shape[0];
  }
  return std::nullopt;
}

// The cluster as the limits leave it.
Cluster limited(const Cluster& cluster, const std::optional<Bytes>& memory) {
  Cluster result = cluster;
  if (!memory) return result;
  Bytes most = result.device.memory;
  for (const OtherDevices& other : result.other_devices) most = std::max(most, other.device.memory);
  require(*memory <= most, ErrorCode::kUsage, "--memory {}: the devices of {} have {}",
          to_text(*memory), cluster.name, to_text(most));
  result.device.memory = std::min(result.device.memory, *memory);
  for (OtherDevices& other : result.other_devices)
    other.device.memory = std::min(other.device.memory, *memory);
  return result;
}

// A node that is not expanded, or a leaf that is not compiled.
struct OpenNode {
  SpaceNode node;
  Duration bound;
  Guess guess;
  double key = 0;           // what comes first
  std::int64_t number = 0;  // of equal keys, the older
};

// A heap has its largest in front.
bool comes_later(const OpenNode& a, const OpenNode& b) {
  return std::tie(a.key, a.number) > std::tie(b.key, b.number);
}

class Search {
 public:
  Search(const SearchProblem& problem, const SearchLimits& limits)
      : problem_(problem),
        limits_(limits),
        cluster_(limited(*problem.cluster, limits.memory)),
        models_(make_search_models(problem)),
        costs_(cluster_, problem.compute_dtype, *models_.cost),
        filter_(limits.fixed, limits.forbidden),
        first_(first_graph()),
        space_(cluster_.num_devices(), problem.global_batch, facts_of(first_.training), filter_),
        estimator_(cluster_, costs_, CommunicationSketch(first_.training, first_.samples)) {
    models_.cluster = &cluster_;
  }

  SearchResult run() {
    result_.constraints = space_.constraints();
    require_some_space();
    for (const SpaceNode& mesh : meshes_) {
      result_.counted += space_.count(mesh);
      push({mesh, Duration(), {}, 0, 0});
    }
    while (!ends()) {
      std::optional<OpenNode> leaf = next_neighbour();
      const bool is_neighbour = leaf.has_value();
      if (!leaf) leaf = next_leaf();
      if (!leaf) break;
      if (limits_.may_compile && !limits_.may_compile()) {
        stopped_ = true;
        if (!is_neighbour) push(std::move(*leaf));  // neighbours are in the tree all the time
        break;
      }
      evaluate(*leaf);
    }
    finish();
    return std::move(result_);
  }

 private:
  struct FirstGraph {
    LogicalGraph training;
    std::int64_t samples = 1;
  };

  // Of the fewest samples that the model can have: what it is like does not depend on them.
  FirstGraph first_graph() const {
    std::optional<Error> refusal;
    for (const std::int64_t samples : divisors_of(problem_.global_batch)) {
      Strategy plain;
      plain.micro_batch = samples;
      try {
        LogicalGraph training = problem_.training_graph(plain);
        const std::int64_t batch = batch_of(training).value_or(samples);
        return {std::move(training), batch};
      } catch (const Error& error) {
        if (!is_refusal(error)) throw;
        if (!refusal) refusal = error;
      }
    }
    throw *refusal;
  }

  // --- conditions --------------------------------------------------------------------------------

  void require_some_space() {
    meshes_ = space_.meshes();
    for (SpaceNode& mesh : meshes_)
      mesh.strategy.pins.insert(mesh.strategy.pins.begin(), problem_.pins.begin(),
                                problem_.pins.end());
    if (!meshes_.empty()) return;
    const ModelFacts facts = facts_of(first_.training);
    const auto count_with = [&](const StrategyFilter& filter) {
      return StrategySpace(cluster_.num_devices(), problem_.global_batch, facts, filter)
          .meshes()
          .size();
    };
    require(count_with(StrategyFilter()) > 0, ErrorCode::kInfeasible,
            "no strategy for {} devices and global batch {}: no dp x cp x tp x pp divides them",
            cluster_.num_devices(), problem_.global_batch);
    std::string all;
    for (const StrategyFilter::Condition& condition : filter_.conditions()) {
      const bool fixes = condition.option == "--fix";
      const std::vector<std::string> alone = {condition.text}, none;
      require(count_with(StrategyFilter(fixes ? alone : none, fixes ? none : alone)) > 0,
              ErrorCode::kUsage, "{} {}: no strategy of this model on these devices is left; {}",
              condition.option, condition.text, possible_values(condition.key));
      all += (all.empty() ? "" : " ") + condition.option + " " + condition.text;
    }
    fail(ErrorCode::kUsage, "{}: each is possible, but no strategy meets all of them", all);
  }

  std::string possible_values(const std::string& key) const {
    return fmt::format("{} can be {}", key, comma_list(space_.values_of(key)));
  }

  // --- what is known of a node -------------------------------------------------------------------

  const LogicalGraph& graph_of(const Strategy& strategy) {
    const std::string key = training_graph_key(strategy);
    const auto known = std::find_if(graphs_.begin(), graphs_.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (known != graphs_.end()) {
      std::rotate(graphs_.begin(), known, known + 1);
    } else {
      graphs_.emplace(graphs_.begin(), key, problem_.training_graph(strategy));
      if (graphs_.size() > kKeptGraphs) graphs_.pop_back();
    }
    return graphs_.front().second;
  }

  // Throws what building the graph throws, each time.
  const GraphProfile& profile_of(const Strategy& strategy) {
    const std::int64_t samples = strategy.dp * strategy.micro_batch;
    const auto known = profiles_.find(samples);
    if (known != profiles_.end()) return known->second;
    if (const auto refused = refused_samples_.find(samples); refused != refused_samples_.end())
      throw refused->second;
    try {
      const LogicalGraph training = problem_.training_graph(plain_strategy(strategy));
      const std::int64_t batch = batch_of(training).value_or(samples);
      require(batch == samples, ErrorCode::kInfeasible,
              "the graph has a batch of {} samples, and dp={} x micro_batch={} = {}", batch,
              strategy.dp, strategy.micro_batch, samples);
      return profiles_.emplace(samples, GraphProfile(training)).first->second;
    } catch (const Error& error) {
      if (is_refusal(error)) refused_samples_.emplace(samples, error);
      throw;
    }
  }

  const std::vector<LayerPlace>& places_of(const Strategy& strategy) {
    const auto key = std::tuple(strategy.pp, strategy.virtual_stages,
                                strategy.schedule == Schedule::kZeroBubbleV);
    const auto known = places_.find(key);
    if (known != places_.end()) return known->second;
    return places_.emplace(key, place_layers(first_.training.num_layers(), strategy)).first->second;
  }

  static GraphProfile::Open open_at(const SpaceNode& node) {
    return {.recompute = node.level < Level::kRecompute,
            .zero = node.level < Level::kZero,
            .pieces = node.level < Level::kPieces && node.strategy.tp > 1};
  }

  Duration bound_of(const SpaceNode& node) {
    const Strategy& strategy = node.strategy;
    if (node.level == Level::kMesh) return Duration();
    const std::int64_t micro_batches = num_micro_batches(strategy, problem_.global_batch);
    const GraphProfile& profile = profile_of(strategy);
    if (node.level == Level::kMicroBatch)
      return profile.least_time(strategy, micro_batches, costs_);
    return profile.time_bound(strategy, places_of(strategy), micro_batches, costs_, open_at(node));
  }

  // Most that a device of the stage has beside what libraries take in any case.
  Bytes room_of(const Strategy& strategy, std::int64_t stage) const {
    const auto room = [](const DeviceKind& device) {
      return device.memory - total(library_memory(device, 0));
    };
    if (cluster_.other_devices.empty()) return room(cluster_.device);
    const std::int64_t ranks = strategy.ranks() / strategy.pp;
    Bytes most = room(cluster_.device_of(Rank(static_cast<std::int32_t>(stage * ranks))));
    for (std::int64_t rank = stage * ranks; rank < (stage + 1) * ranks; ++rank)
      most = std::max(most, room(cluster_.device_of(Rank(static_cast<std::int32_t>(rank)))));
    return most;
  }

  // By how much the memory bound is above what the stage with least room has; below zero: not.
  struct Excess {
    Bytes missing = Bytes(std::numeric_limits<std::int64_t>::min());
    Bytes needed, room;
  };
  Excess excess_of(const SpaceNode& node) {
    const Strategy& strategy = node.strategy;
    const std::vector<Bytes> bytes = profile_of(strategy).memory_bound(
        strategy, places_of(strategy), num_micro_batches(strategy, problem_.global_batch),
        open_at(node));
    Excess worst;
    for (std::size_t stage = 0; stage < bytes.size(); ++stage) {
      const Bytes room = room_of(strategy, static_cast<std::int64_t>(stage));
      if (bytes[stage] - room <= worst.missing) continue;
      worst = {bytes[stage] - room, bytes[stage], room};
    }
    return worst;
  }

  // --- order -------------------------------------------------------------------------------------

  using MeshKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static MeshKey mesh_key(const Strategy& strategy) {
    return {strategy.tp, strategy.cp, strategy.ep, strategy.pp};
  }

  // What compiled plans say of the guesses: of this mesh, else of all; no mesh is thought to need
  // much more than its guess before it was tried.
  struct Correction {
    double time = 1, memory = 1;
    void learn(double seconds_ratio, double bytes_ratio, bool is_first) {
      constexpr double kNew = 0.5;
      const double share = is_first ? 1 : kNew;
      time += share * (seconds_ratio - time);
      memory += share * (bytes_ratio - memory);
    }
  };
  const Correction& correction_of(const Strategy& strategy) const {
    const auto own = corrections_.find(mesh_key(strategy));
    return own == corrections_.end() ? correction_ : own->second;
  }
  void learn(const OpenNode& leaf, const Candidate& candidate) {
    if (leaf.guess.seconds <= 0 || leaf.guess.bytes <= 0) return;
    const double time = to_seconds(candidate.step_time) / leaf.guess.seconds;
    const double memory = static_cast<double>(candidate.peak_memory.value) / leaf.guess.bytes;
    const auto [own, is_new] = corrections_.try_emplace(mesh_key(leaf.node.strategy));
    own->second.learn(time, memory, is_new);
    constexpr double kMostMemory = 1.25;
    correction_.learn(time, std::min(memory, kMostMemory), corrections_.size() == 1 && is_new);
  }

  double key_of(const OpenNode& open) const {
    const Correction& correction = correction_of(open.node.strategy);
    const double seconds = std::max(open.guess.seconds * correction.time, to_seconds(open.bound));
    if (open.node.level < Level::kRecompute) return seconds;
    // What will not fit comes late; the more so the more plans in a row did not.
    const double margin = 1 + 0.05 * static_cast<double>(misses_in_a_row_);
    const double room = static_cast<double>(room_of(open.node.strategy, 0).value);
    const double over = open.guess.bytes * correction.memory * margin / room - 1;
    const double again = repeats_more(open.node) ? 1.3 : 1;
    const bool was_refused = refused_like_.contains(likeness(open.node.strategy));
    return seconds * again * (over > 0 ? 1.2 + 30 * over : 1) * (was_refused ? 100 : 1);
  }

  // A plan with less recomputation and else the same fits.
  bool repeats_more(const SpaceNode& node) const {
    if (node.level < Level::kPieces) return false;
    const auto amount = [](const Recompute& recompute) {
      switch (recompute.kind) {
        case Recompute::Kind::kNone:
          return 0.0;
        case Recompute::Kind::kSelective:
          return 0.5;
        case Recompute::Kind::kLayers:
          return static_cast<double>(recompute.layers);
        case Recompute::Kind::kFull:
          break;
      }
      return 1e9;
    };
    return std::any_of(result_.plans.begin(), result_.plans.end(), [&](const Candidate& plan) {
      if (plan.strategy.micro_batch != node.strategy.micro_batch ||
          plan.strategy.tp != node.strategy.tp || plan.strategy.pp != node.strategy.pp)
        return false;  // most are out before anything is copied
      Strategy same = plan.strategy;
      same.recompute = node.strategy.recompute;
      return same == node.strategy &&
             amount(plan.strategy.recompute) < amount(node.strategy.recompute);
    });
  }

  // Refusals mostly depend on these alone.
  static std::string likeness(const Strategy& strategy) {
    return fmt::format("{} {} {} {} {} {}", strategy.tp, strategy.cp, to_string(strategy.context),
                       strategy.ep, strategy.sequence_parallel, strategy.pieces);
  }

  void push(OpenNode open) {
    open.number = pushed_++;
    heap_.push_back(std::move(open));
    std::push_heap(heap_.begin(), heap_.end(), comes_later);
  }
  OpenNode pop() {
    std::pop_heap(heap_.begin(), heap_.end(), comes_later);
    OpenNode open = std::move(heap_.back());
    heap_.pop_back();
    return open;
  }

  // --- the tree ----------------------------------------------------------------------------------

  // Leaves below that have no fate yet: neighbours of a best plan are compiled out of turn.
  std::int64_t undone(const SpaceNode& node) const {
    const auto done = std::count_if(done_.begin(), done_.end(), [&](const Strategy& strategy) {
      return space_.contains(node, strategy);
    });
    return space_.count(node) - done;
  }
  bool is_done(const Strategy& strategy) const {
    return std::find(done_.begin(), done_.end(), strategy) != done_.end();
  }

  bool cannot_win(Duration bound) const {
    return limits_.use_bounds && best_ && best_->step_time <= bound;
  }

  // What is known of a node whose parent's bound is given; nothing when it has met its fate.
  std::optional<OpenNode> considered(SpaceNode node, Duration parent_bound) {
    OpenNode open{std::move(node), parent_bound, {}, 0, 0};
    try {
      require_pins_fit(open.node.strategy);
      // One level differs from the one above in nothing that a bound sees.
      if (open.node.level != Level::kSequence)
        open.bound = std::max(parent_bound, bound_of(open.node));
      if (cannot_win(open.bound)) {
        result_.cut_by_bound += undone(open.node);
        return std::nullopt;
      }
      if (open.node.level >= Level::kSchedule && open.node.level != Level::kSequence) {
        const Excess excess = excess_of(open.node);
        if (excess.missing > Bytes(0)) {
          cut_by_memory(open.node, excess);
          return std::nullopt;
        }
      }
      if (open.node.level >= Level::kMicroBatch)
        open.guess = estimator_.guess(profile_of(open.node.strategy), open.node,
                                      places_of(open.node.strategy),
                                      num_micro_batches(open.node.strategy, problem_.global_batch));
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      refuse(open.node, error.what());
      return std::nullopt;
    }
    open.key = key_of(open);
    return open;
  }

  void expand(const OpenNode& open) {
    for (SpaceNode& child : space_.children(open.node)) {
      if (child.level == Level::kPieces && is_done(child.strategy)) continue;
      if (auto known = considered(std::move(child), open.bound)) push(std::move(*known));
    }
  }

  // The most promising leaf; nothing when the tree is walked or the search was stopped.
  std::optional<OpenNode> next_leaf() {
    while (!heap_.empty() && !is_stopped()) {
      OpenNode open = pop();
      if (cannot_win(open.bound)) {
        result_.cut_by_bound += undone(open.node);
        continue;
      }
      // What was learned since may put it behind others.
      const double key = key_of(open);
      if (key > open.key * 1.001) {
        open.key = key;
        push(std::move(open));
        continue;
      }
      if (open.node.level != Level::kPieces) {
        expand(open);
        continue;
      }
      if (!is_done(open.node.strategy)) return open;
    }
    return std::nullopt;
  }

  // Strategies one step away from the best, every other time.
  std::optional<OpenNode> next_neighbour() {
    neighbours_turn_ = !neighbours_turn_;
    if (!neighbours_turn_ || !best_) return std::nullopt;
    if (neighbours_of_ != best_->strategy) find_neighbours();
    while (!neighbours_.empty()) {
      OpenNode open = std::move(neighbours_.back());
      neighbours_.pop_back();
      constexpr double kPromising = 1.1;
      const bool is_near = key_of(open) < to_seconds(best_->step_time) * kPromising;
      if (is_near && !cannot_win(open.bound) && !is_done(open.node.strategy)) return open;
    }
    return std::nullopt;
  }

  void find_neighbours() {
    neighbours_of_ = best_->strategy;
    neighbours_.clear();
    for (Strategy& strategy : neighbours_in(space_, meshes_, best_->strategy)) {
      SpaceNode node{Level::kPieces, std::move(strategy)};
      if (is_done(node.strategy)) continue;
      // Their fates are the tree's to tell; what is known here is only looked at.
      try {
        OpenNode open{std::move(node), Duration(), {}, 0, 0};
        open.bound = bound_of(open.node);
        if (cannot_win(open.bound) || excess_of(open.node).missing > Bytes(0)) continue;
        open.guess = estimator_.guess(profile_of(open.node.strategy), open.node,
                                      places_of(open.node.strategy),
                                      num_micro_batches(open.node.strategy, problem_.global_batch));
        open.key = key_of(open);
        open.number = static_cast<std::int64_t>(neighbours_.size());
        neighbours_.push_back(std::move(open));
      } catch (const Error& error) {
        if (!is_refusal(error)) throw;
      }
    }
    std::sort(neighbours_.begin(), neighbours_.end(), comes_later);  // the first is taken last
    constexpr std::size_t kMost = 16;
    if (neighbours_.size() > kMost)
      neighbours_.erase(neighbours_.begin(), neighbours_.end() - kMost);
  }

  // Words of a pin are one for each axis of the mesh.
  static void require_pins_fit(const Strategy& strategy) {
    const std::size_t axes = axes_of(strategy).count;
    for (const WordPin& pin : strategy.pins)
      require(pin.words.size() == axes, ErrorCode::kInfeasible,
              "{} has {} words, and the mesh of the strategy {} axes", to_string(pin),
              pin.words.size(), axes);
  }

  // --- fates -------------------------------------------------------------------------------------

  void evaluate(const OpenNode& leaf) {
    const Strategy& strategy = leaf.node.strategy;
    ++result_.compiled;
    ++since_best_;
    try {
      require_pins_fit(strategy);
      Candidate candidate =
          evaluate_strategy(graph_of(strategy), strategy, problem_.global_batch, models_);
      candidate.lower_bound = leaf.bound;
      learn(leaf, candidate);
      if (candidate.needed_memory > candidate.capacity) {
        ++misses_in_a_row_;
        miss(candidate);
      } else {
        misses_in_a_row_ = 0;
        keep(std::move(candidate));
      }
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      refused_like_.insert(likeness(strategy));
      refuse(leaf.node, error.what());
    }
    done_.push_back(strategy);
    report(strategy);
  }

  void keep(Candidate candidate) {
    ++result_.simulated;
    if (!best_ || candidate.step_time < best_->step_time) {
      best_ = candidate;
      since_best_ = 0;
      if (limits_.improved) limits_.improved(candidate);
    }
    result_.plans.push_back(std::move(candidate));
  }

  Rejection& rejection(Rejection::Kind kind, const std::string& what) {
    const auto known =
        std::find_if(result_.rejections.begin(), result_.rejections.end(),
                     [&](const Rejection& one) { return one.kind == kind && one.what == what; });
    if (known != result_.rejections.end()) return *known;
    result_.rejections.push_back({kind, what, 0, {}, ""});
    return result_.rejections.back();
  }

  void cut_by_memory(const SpaceNode& node, const Excess& excess) {
    const std::int64_t leaves = undone(node);
    if (leaves == 0) return;
    result_.cut_by_memory += leaves;
    Rejection& kind = rejection(Rejection::Kind::kMemoryBound, "");
    kind.count += leaves;
    if (kind.reason.empty() || excess.missing < least_bound_excess_) {
      least_bound_excess_ = excess.missing;
      kind.example = node.strategy;
      const auto libraries = library_memory(cluster_.device, 0);
      const Bytes beside = total(libraries);
      kind.reason =
          "at least " + text_of_excess(excess.needed + beside, libraries, excess.room + beside);
    }
    if (!best_)
      cut_.push_back({node, Duration(), {}, static_cast<double>(excess.missing.value), 0});
  }

  void miss(const Candidate& candidate) {
    ++result_.cut_by_memory;
    Rejection& kind = rejection(Rejection::Kind::kMemoryPlan, "");
    ++kind.count;
    if (is_closest(candidate)) {
      kind.example = candidate.strategy;
      kind.reason =
          text_of_excess(candidate.needed_memory, candidate.libraries, candidate.capacity);
      closest_ = {candidate.strategy, candidate.needed_memory, candidate.capacity};
    }
  }
  bool is_closest(const Candidate& candidate) const {
    return !closest_ ||
           candidate.needed_memory - candidate.capacity < closest_->needed - closest_->capacity;
  }

  void refuse(const SpaceNode& node, const std::string& reason) {
    const std::int64_t leaves = undone(node);
    if (leaves == 0) return;
    result_.refused += leaves;
    Rejection& kind = rejection(Rejection::Kind::kRefused, kind_of_reason(reason));
    if (kind.count == 0) {
      kind.example = node.strategy;
      kind.reason = reason;
    }
    kind.count += leaves;
  }

  // --- the end -----------------------------------------------------------------------------------

  void report(const Strategy& strategy) const {
    if (!limits_.progress) return;
    const std::string best =
        best_
            ? fmt::format("best {}, gap {:.1f} %", to_text(best_->step_time),
                          100 * gap_of(best_->step_time, std::min(open_bound(), best_->step_time)))
            : std::string("none yet");
    limits_.progress(fmt::format("{} plans, {}: {}", result_.compiled, best, to_string(strategy)));
  }

  static double gap_of(Duration best, Duration bound) {
    return to_seconds(best - bound) / to_seconds(best);
  }

  Duration open_bound() const {
    Duration least(std::numeric_limits<std::int64_t>::max());
    for (const OpenNode& open : heap_) least = std::min(least, open.bound);
    return least;
  }

  bool is_good_enough() const {
    return best_ && limits_.enough_gap > 0 &&
           gap_of(best_->step_time, std::min(open_bound(), best_->step_time)) <= limits_.enough_gap;
  }
  bool is_stopped() {
    if (!stopped_ && limits_.stop && limits_.stop()) stopped_ = true;
    return stopped_;
  }
  bool ends() {
    const bool is_tired = limits_.patience && best_ && since_best_ >= *limits_.patience;
    return is_tired || is_stopped() || is_good_enough();
  }

  void finish() {
    Duration least(std::numeric_limits<std::int64_t>::max());
    for (const OpenNode& open : heap_) {
      const std::int64_t leaves = undone(open.node);
      if (cannot_win(open.bound)) {
        result_.cut_by_bound += leaves;
      } else if (leaves > 0) {
        result_.open += leaves;
        least = std::min(least, open.bound);
      }
    }
    std::stable_sort(result_.plans.begin(), result_.plans.end(),
                     [](const Candidate& a, const Candidate& b) {
                       if (a.step_time != b.step_time) return a.step_time < b.step_time;
                       return to_string(a.strategy) < to_string(b.strategy);
                     });
    if (best_) least = std::min(least, best_->step_time);
    if (best_ || result_.open > 0) result_.lower_bound = least;
    if (!best_) find_closest();
    std::sort(result_.rejections.begin(), result_.rejections.end(),
              [](const Rejection& a, const Rejection& b) {
                return std::tie(a.kind, a.what) < std::tie(b.kind, b.what);
              });
  }

  // Without a plan: what needs least, down to the leaves, and one that was compiled.
  void find_closest() {
    if (cut_.empty()) {
      result_.closest = closest_;
      return;
    }
    std::make_heap(cut_.begin(), cut_.end(), comes_later);
    while (!cut_.empty()) {
      std::pop_heap(cut_.begin(), cut_.end(), comes_later);
      const OpenNode least = std::move(cut_.back());
      cut_.pop_back();
      if (least.node.level == Level::kPieces) {
        const Excess excess = excess_of(least.node);
        result_.least_memory = excess.needed + total(library_memory(cluster_.device, 0));
        compile_closest(least.node.strategy);
        break;
      }
      for (SpaceNode& child : space_.children(least.node)) {
        const double missing = static_cast<double>(excess_of(child).missing.value);
        cut_.push_back({std::move(child), Duration(), {}, missing, pushed_++});
        std::push_heap(cut_.begin(), cut_.end(), comes_later);
      }
    }
    result_.closest = closest_;
  }
  void compile_closest(const Strategy& strategy) {
    if (stopped_) return;
    try {
      const Candidate candidate =
          evaluate_strategy(graph_of(strategy), strategy, problem_.global_batch, models_);
      if (is_closest(candidate)) closest_ = {strategy, candidate.needed_memory, candidate.capacity};
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
    }
  }

  const SearchProblem& problem_;
  const SearchLimits& limits_;
  const Cluster cluster_;
  SearchModels models_;
  const LeastCosts costs_;
  const StrategyFilter filter_;
  const FirstGraph first_;
  const StrategySpace space_;
  const Estimator estimator_;
  std::vector<SpaceNode> meshes_;

  std::vector<std::pair<std::string, LogicalGraph>> graphs_;  // by training_graph_key, recent first
  std::map<std::int64_t, GraphProfile> profiles_;             // by samples
  std::map<std::int64_t, Error> refused_samples_;             // the model has no such batch
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, std::vector<LayerPlace>> places_;

  std::vector<OpenNode> heap_;
  std::int64_t pushed_ = 0;
  std::vector<Strategy> done_;        // compiled
  std::vector<OpenNode> neighbours_;  // of the best, the most promising last
  std::optional<Strategy> neighbours_of_;
  bool neighbours_turn_ = false;
  Correction correction_;
  std::map<MeshKey, Correction> corrections_;
  std::set<std::string> refused_like_;
  std::int64_t misses_in_a_row_ = 0, since_best_ = 0;

  std::vector<OpenNode> cut_;  // by memory, while there is no plan; the key is what is missing
  Bytes least_bound_excess_;
  std::optional<ClosestMiss> closest_;
  std::optional<Candidate> best_;
  bool stopped_ = false;
  SearchResult result_;
};

}  // namespace

double SearchResult::gap() const {
  if (plans.empty()) return 1;
  const double best = to_seconds(plans.front().step_time);
  return best > 0 ? (best - to_seconds(lower_bound)) / best : 0;
}

SearchModels make_search_models(const SearchProblem& problem) {
  TimingModels models = make_timing_models(*problem.cluster, problem.compute_dtype);
  return {std::move(models.cost), std::move(models.network), problem.cluster};
}

Candidate evaluate_strategy(const LogicalGraph& training, const Strategy& strategy,
                            std::int64_t global_batch, const SearchModels& models) {
  ExpandOptions options;
  options.schedule = strategy.schedule;
  options.checks = false;
  const PhysicalGraph graph =
      compile(training, strategy, global_batch, *models.cost, *models.network, options);
  Simulation simulation = simulate(graph, *models.cost, *models.network);
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.step_time = simulation.step_time;
  candidate.peak_memory = simulation.peak_memory;
  candidate.needed_memory = candidate.peak_memory;
  if (models.cluster != nullptr) {
    DeviceMemory memory = device_memory(graph, *models.cluster);
    candidate.needed_memory = memory.needed();
    candidate.capacity = memory.capacity;
    candidate.libraries = std::move(memory.libraries);
  }
  candidate.parts = simulation.parts;
  candidate.memory_by_class = std::move(simulation.peak_memory_by_class);
  return candidate;
}

SearchResult search(const SearchProblem& problem, const SearchLimits& limits) {
  require(problem.cluster != nullptr && problem.training_graph != nullptr, ErrorCode::kUsage,
          "a search needs a cluster and a training graph");
  require(problem.global_batch >= 1, ErrorCode::kUsage, "global batch {}, wanted at least 1",
          problem.global_batch);
  return Search(problem, limits).run();
}

}  // namespace sextant
