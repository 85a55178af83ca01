// Best first through the tree of strategies: subtrees fall to bounds, leaves are compiled and
// simulated in the order of a guess, neighbours of the best in between.

#include "search/search/search.h"

#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "search/bounds/estimate.h"
#include "search/bounds/node_facts.h"
#include "search/search/evaluators.h"
#include "search/search/open_nodes.h"
#include "search/search/pareto.h"
#include "search/search/rejections.h"
#include "search/search/rungs.h"
#include "search/search/search_order.h"
#include "search/space/conditions.h"
#include "search/space/neighbours.h"
#include "search/space/space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

namespace sextant {

namespace {

// What a plan is thought to take, in bounds of a node: the operators of the model count so many,
// and staging three blocks counts so many.
constexpr std::int64_t kBoundsPerOp = 10, kBoundsPerStaging = 400;

// Of the best step: what takes more by its guess is not thought to win.
constexpr double kPromising = 1.1;

// More than 200 lines: what every step of the walk learns (plans, bounds, fates) decides what each
// other part does next, so they share open nodes, the best plan and the counts.
class Search {
 public:
  Search(const SearchProblem& problem, const SearchLimits& limits)
      : problem_(problem),
        limits_(limits),
        cluster_(limited(*problem.cluster, limits.memory)),
        models_(make_search_models(problem)),
        costs_(cluster_, problem.compute_dtype, *models_.cost),
        filter_(limits.fixed, limits.forbidden),
        first_(first_graph(problem)),
        space_(cluster_.num_devices(), problem.global_batch, facts_of(first_.training), filter_),
        estimator_(cluster_, costs_, CommunicationSketch(first_.training, first_.samples, costs_)),
        facts_(problem, cluster_, costs_, first_, models_, stop_poll_) {
    models_.cluster = &cluster_;
  }

  SearchResult run() {
    result_.constraints = space_.constraints();
    find_meshes();
    for (const SpaceNode& mesh : meshes_) {
      OpenNode open{.node = mesh, .leaves = 0};
      for (const SpaceNode& child : space_.children(mesh)) {
        open.leaves_of_children.push_back(space_.count(child));
        *open.leaves += open.leaves_of_children.back();
      }
      result_.counted += *open.leaves;
      open_.push(std::move(open));
    }
    while (!ends()) {
      std::optional<OpenNode> leaf = next_neighbour();
      const bool is_neighbour = leaf.has_value();
      bool is_beside = false;  // compiled for the gap, beside leaves that are thought to win
      if (!leaf) {
        leaf = next_of_least_bound();
        is_beside = leaf && may_win();
      }
      if (!leaf) leaf = next_leaf();
      if (!leaf) break;
      // Neighbours are in the tree all the time.
      const Strategy last = leaf->node.strategy;
      if (!is_beside) ++since_best_;
      if (!evaluate(*leaf) && !is_neighbour) open_.push(std::move(*leaf));
      foresee(last);  // with what this plan has taught
      raise_least_bounds();
    }
    finish();
    return std::move(result_);
  }

 private:
  void find_meshes() {
    meshes_ = space_.meshes();
    if (meshes_.empty())
      refuse_empty_space(cluster_.num_devices(), problem_.global_batch, facts_of(first_.training),
                         filter_);
    for (SpaceNode& mesh : meshes_)
      mesh.strategy.pins.insert(mesh.strategy.pins.begin(), problem_.pins.begin(),
                                problem_.pins.end());
  }

  // --- order -------------------------------------------------------------------------------------

  double key_of(const OpenNode& open) const {
    const double key = order_.key_of(open, facts_.room_of(open.node.strategy, 0)) * haste_of(open);
    // What will hardly join the front comes late.
    constexpr double kLate = 2;
    return limits_.pareto && !is_promising(open, 1) ? kLate * key : key;
  }

  // A first plan is wanted soon: of like ones what takes less to compile, which grows with the
  // micro-batches of a step, not with the devices.
  double haste_of(const OpenNode& open) const {
    constexpr double kPerDoubling = 0.02;
    if (best_ || open.node.level < Level::kMicroBatch) return 1;
    const auto micro_batches = static_cast<double>(facts_.micro_batches_of(open.node.strategy));
    return 1 + kPerDoubling * std::log2(micro_batches);
  }

  // By guess, no plan is better by more than the factor in time and in memory.
  bool is_promising(const OpenNode& open, double margin) const {
    if (open.node.level < Level::kRecompute) return true;
    const Guess promise = order_.promise_of(open);
    const Bytes libraries = total(library_memory(cluster_.device, 0));
    const double seconds = promise.seconds / margin;
    const double bytes = (promise.bytes + static_cast<double>(libraries.value)) / margin;
    // Beyond these nothing is a time or a size.
    constexpr double kMostSeconds = 1e6, kMostBytes = 1e18;
    if (!(seconds < kMostSeconds && bytes < kMostBytes)) return false;
    return !front_.covers(duration_from_seconds(seconds), Bytes(static_cast<std::int64_t>(bytes)));
  }

  // --- the tree ----------------------------------------------------------------------------------

  // Leaves below that have no fate yet: neighbours of a best plan are compiled out of turn.
  std::int64_t undone(const OpenNode& open) const {
    const auto done = std::count_if(done_.begin(), done_.end(), [&](const Strategy& strategy) {
      return space_.contains(open.node, strategy);
    });
    return (open.leaves ? *open.leaves : space_.count(open.node)) - done;
  }
  bool is_done(const Strategy& strategy) const {
    return std::find(done_.begin(), done_.end(), strategy) != done_.end();
  }

  bool cannot_win(const OpenNode& open) const {
    if (!limits_.use_bounds) return false;
    if (limits_.pareto) return front_.covers(open.bound, open.least_memory);
    return best_ && best_->step_time <= open.bound;
  }

  // What is known of a node below another one; nothing when it has met its fate.
  std::optional<OpenNode> considered(OpenNode open, const OpenNode& parent) {
    try {
      require_pins_fit(open.node.strategy);
      // One level differs from the one above in nothing that a bound sees.
      if (open.node.level != Level::kSequence)
        open.bound = std::max(parent.bound, facts_.bound_with_replicas(open.node));
      if (cut_by_bound(open)) return std::nullopt;
      if (is_cut_by_memory(open) || cut_by_bound(open)) return std::nullopt;
      if (open.node.level >= Level::kMicroBatch)
        open.guess = estimator_.guess(facts_.profile_of(open.node.strategy), open.node,
                                      facts_.places_of(open.node.strategy),
                                      facts_.micro_batches_of(open.node.strategy));
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      refuse(open, error.what());
      return std::nullopt;
    } catch (const CompileStopped&) {
      stopped_ = true;  // what is known so far holds
    }
    open.key = key_of(open);
    return open;
  }

  // Returns how many children there were.
  std::int64_t expand(const OpenNode& open) {
    std::vector<SpaceNode> children = space_.children(open.node);
    for (std::size_t i = 0; i < children.size(); ++i) {
      // What is known of the parent holds for it.
      OpenNode child{
          .node = std::move(children[i]), .bound = open.bound, .least_memory = open.least_memory};
      if (!open.leaves_of_children.empty()) child.leaves = open.leaves_of_children[i];
      if (is_stopped()) {
        open_.push(std::move(child));
        continue;
      }
      if (child.node.level == Level::kPieces && is_done(child.node.strategy)) continue;
      if (auto known = considered(std::move(child), open)) open_.push(std::move(*known));
    }
    return static_cast<std::int64_t>(children.size());
  }

  // The most promising leaf; nothing when the tree is walked or the search was stopped.
  std::optional<OpenNode> next_leaf() {
    while (!is_stopped()) {
      std::optional<OpenNode> open = open_.pop_first();
      if (!open) break;
      if (cut_by_bound(*open)) continue;
      if (open->node.level == Level::kPieces) {
        const Rung before = open->rung;
        const bool is_raised = raises_bound(*open);
        // Layers that were staged say what they keep, even where they take no longer.
        if (open->rung != before && is_cut_by_memory(*open)) continue;
        if (is_raised) {
          open_.push(std::move(*open));
          continue;
        }
      }
      // What was learned since may put it behind others.
      const double key = key_of(*open);
      if (key > open->key * 1.001) {
        open->key = key;
        open_.push(std::move(*open));
        continue;
      }
      if (open->node.level != Level::kPieces) {
        expand(*open);
        continue;
      }
      if (!is_done(open->node.strategy)) return open;
    }
    return std::nullopt;
  }

  // The gap is held open by what nobody would look into for its guess. After each plan some of what
  // has the least bounds is looked into, for about the time that it took: all of that, whether or
  // not the gap is small enough before.
  void raise_least_bounds() {
    if (!best_ || !limits_.use_bounds) return;
    std::vector<OpenNode> known;  // leaves of which only compiling says more
    const auto ops = static_cast<std::int64_t>(first_.training.ops().size());
    std::int64_t left = ops * kBoundsPerOp;
    while (left > 0 && !is_stopped()) {
      std::optional<OpenNode> open = open_.pop_least_bound();
      if (!open) break;
      if (cut_by_bound(*open) || is_done_leaf(*open)) continue;
      const std::int64_t staged = facts_.staging_work();
      const bool is_raised = raises_bound(*open);
      left -= 1 + (facts_.staging_work() - staged) * kBoundsPerStaging;
      if (is_raised) {
        if (!is_cut_by_memory(*open)) open_.push(std::move(*open));
      } else if (open->node.level != Level::kPieces) {
        left -= expand(*open);
      } else {
        known.push_back(std::move(*open));
      }
    }
    for (OpenNode& leaf : known) open_.push(std::move(leaf));
  }

  // Whether some leaf is thought to be faster than the best, or nearly.
  bool may_win() const { return open_.least_key() < kPromising * to_seconds(best_->step_time); }

  // Every other leaf that is none of the neighbours is the one that holds the gap open, where all
  // of its bounds are known: only its plan says more. Every one, when none is thought to win.
  std::optional<OpenNode> next_of_least_bound() {
    if (!best_ || !limits_.use_bounds || limits_.pareto) return std::nullopt;
    least_bounds_turn_ = !least_bounds_turn_;
    if (!least_bounds_turn_ && may_win()) return std::nullopt;
    std::optional<OpenNode> open = open_.pop_least_bound();
    if (!open) return std::nullopt;
    const bool is_leaf = open->node.level == Level::kPieces && open->rung == Rung::kOwnLayers;
    if (is_leaf && !cannot_win(*open) && !is_done(open->node.strategy)) return open;
    open_.push(std::move(*open));
    return std::nullopt;
  }
  bool is_done_leaf(const OpenNode& open) const {
    return open.node.level == Level::kPieces && is_done(open.node.strategy);
  }

  // Adds what is known of layers to the bound, rung by rung; of a leaf its own layers come before
  // it is compiled, which takes far longer. False: it is there already, or nothing is known.
  bool raises_bound(OpenNode& open) {
    if (!limits_.use_bounds || open.node.level < Level::kMicroBatch) return false;
    try {
      while (const std::optional<Rung> next = rungs_.next(open, best_.has_value())) {
        open.rung = *next;
        const std::optional<Duration> raised = rungs_.bound_at(*next, open);
        if (*next == Rung::kOwnLayers && facts_.knows_layers(open.node.strategy)) {
          open.with_layers = raised;
          order_.note_layers(open);
        }
        if (!raised || *raised <= open.bound) continue;
        open.bound = *raised;
        return true;
      }
      return false;
    } catch (const CompileStopped&) {
      stopped_ = true;
      return false;
    }
  }

  // Strategies one step away from the best, or from one of the front, every other time.
  std::optional<OpenNode> next_neighbour() {
    neighbours_turn_ = !neighbours_turn_;
    if (!neighbours_turn_ || !best_) return std::nullopt;
    if (!limits_.pareto && neighbours_of_ != best_->strategy) find_neighbours(best_->strategy);
    while (true) {
      while (!neighbours_.empty()) {
        OpenNode open = std::move(neighbours_.back());
        neighbours_.pop_back();
        if (is_done(open.node.strategy)) continue;
        while (!cannot_win(open) && raises_bound(open)) {
        }
        if (!is_near(open) || cannot_win(open)) continue;
        if (facts_.excess_of(open.node).missing > Bytes(0)) continue;
        // By its layers it may be behind another one.
        open.key = key_of(open);
        if (neighbours_.empty() || open.key <= neighbours_.back().key) return open;
        put_neighbour(std::move(open));
      }
      if (unvisited_.empty()) return std::nullopt;
      const Strategy from = std::move(unvisited_.back());
      unvisited_.pop_back();
      find_neighbours(from);
    }
  }

  static bool is_less_promising(const OpenNode& a, const OpenNode& b) { return a.key > b.key; }

  // The most promising is taken first, from behind.
  void put_neighbour(OpenNode open) {
    const auto place =
        std::upper_bound(neighbours_.begin(), neighbours_.end(), open, is_less_promising);
    neighbours_.insert(place, std::move(open));
  }

  bool is_near(const OpenNode& open) const {
    if (limits_.pareto) return is_promising(open, kPromising);
    return key_of(open) < to_seconds(best_->step_time) * kPromising;
  }

  void find_neighbours(const Strategy& from) {
    neighbours_of_ = from;
    neighbours_.clear();
    for (Strategy& strategy : neighbours_in(space_, meshes_, from)) {
      if (is_stopped()) return;
      SpaceNode node{Level::kPieces, std::move(strategy)};
      if (is_done(node.strategy)) continue;
      // Their fates are the tree's to tell; what is known here is only looked at.
      try {
        OpenNode open{.node = std::move(node)};
        open.bound = facts_.bound_with_replicas(open.node);
        const NodeFacts::Excess excess = facts_.excess_of(open.node);
        open.least_memory = excess.least;
        if (cannot_win(open) || excess.missing > Bytes(0)) continue;
        open.guess = estimator_.guess(facts_.profile_of(open.node.strategy), open.node,
                                      facts_.places_of(open.node.strategy),
                                      facts_.micro_batches_of(open.node.strategy));
        open.key = key_of(open);
        neighbours_.push_back(std::move(open));
      } catch (const Error& error) {
        if (!is_refusal(error)) throw;
      } catch (const CompileStopped&) {
        stopped_ = true;
        return;
      }
    }
    std::stable_sort(neighbours_.begin(), neighbours_.end(), is_less_promising);
    constexpr std::size_t kMost = 16;
    if (neighbours_.size() > kMost)
      neighbours_.erase(neighbours_.begin(), neighbours_.end() - kMost);
  }

  // Words of a pin are one for each axis of the mesh.
  static void require_pins_fit(const Strategy& strategy) {
    const std::size_t axes = axes_of(strategy).count;
    for (const WordPin& pin : strategy.pins)
      require(pin.words.size() == axes, ErrorCode::kInfeasible,
              "{} has {}, and the mesh of the strategy {}", to_string(pin),
              counted(pin.words.size(), "word"), counted(axes, "axis", "axes"));
  }

  // --- fates -------------------------------------------------------------------------------------

  // False: it was stopped, and the leaf has no fate.
  bool evaluate(const OpenNode& leaf) {
    const Strategy& strategy = leaf.node.strategy;
    try {
      require_pins_fit(strategy);
      Candidate candidate = evaluated(strategy);
      candidate.lower_bound = leaf.bound;
      order_.learn(leaf, candidate, facts_.room_of(strategy, 0));
      if (candidate.needed_memory > candidate.capacity) {
        order_.note_miss();
        miss(candidate);
      } else {
        order_.note_plan(strategy);
        keep(std::move(candidate));
      }
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      order_.note_refusal(strategy);
      refuse(leaf, error.what());
    } catch (const CompileStopped&) {
      stopped_ = true;
      return false;
    }
    ++result_.compiled;
    done_.push_back(strategy);
    report(strategy);
    return true;
  }

  // By whoever has begun with it.
  Candidate evaluated(const Strategy& strategy) {
    if (limits_.evaluators != nullptr) {
      foresee(strategy);
      if (auto found = limits_.evaluators->take(strategy, stop_poll_))
        return taken(std::move(*found));
    }
    return evaluate_strategy(facts_.graph_of(strategy), strategy, problem_.global_batch, models_,
                             stop_poll_);
  }

  void foresee(const Strategy& now) {
    if (limits_.evaluators != nullptr) limits_.evaluators->expect(likely_next(now));
  }

  // What comes after this one if it teaches nothing: neighbours and leaves in turn.
  std::vector<Strategy> likely_next(const Strategy& now) {
    const std::size_t most = 2 * limits_.evaluators->wanted();
    std::vector<Strategy> neighbours, leaves, next;
    const auto is_new = [&](const Strategy& strategy) {
      return !(strategy == now) && !is_done(strategy);
    };
    for (auto open = neighbours_.rbegin(); open != neighbours_.rend(); ++open)
      if (neighbours.size() < most && is_new(open->node.strategy))
        neighbours.push_back(open->node.strategy);
    open_.for_first([&](const OpenNode& open) {
      if (open.node.level == Level::kPieces && is_new(open.node.strategy))
        leaves.push_back(open.node.strategy);
      return leaves.size() < most;
    });
    // It is a neighbour's turn now: a leaf's is next.
    std::vector<Strategy>&first = neighbours_turn_ ? leaves : neighbours,
    &second = neighbours_turn_ ? neighbours : leaves;
    for (std::size_t i = 0; i < most; ++i)
      for (std::vector<Strategy>* list : {&first, &second})
        if (i < list->size()) next.push_back(std::move((*list)[i]));
    return next;
  }

  void keep(Candidate candidate) {
    ++result_.simulated;
    const bool is_first = !best_;
    if (!best_ || candidate.step_time < best_->step_time) {
      best_ = candidate;
      since_best_ = 0;
      if (limits_.improved) limits_.improved(candidate);
    }
    if (is_first) open_.reorder([&](const OpenNode& open) { return key_of(open); });
    if (limits_.pareto && front_.add(candidate.step_time, candidate.most_needed)) {
      since_best_ = 0;
      unvisited_.push_back(candidate.strategy);
    }
    result_.plans.push_back(std::move(candidate));
  }

  bool cut_by_bound(const OpenNode& open) {
    if (!cannot_win(open)) return false;
    result_.cut_by_bound += undone(open);
    return true;
  }

  // By what is known so far: layers that were staged say more.
  bool is_cut_by_memory(OpenNode& open) {
    if (open.node.level < Level::kSchedule) return false;
    const NodeFacts::Excess excess = facts_.excess_of(open.node);
    open.least_memory = std::max(open.least_memory, excess.least);
    if (excess.missing <= Bytes(0)) return false;
    cut_by_memory(open, excess);
    return true;
  }

  void cut_by_memory(const OpenNode& open, const NodeFacts::Excess& excess) {
    const SpaceNode& node = open.node;
    const std::int64_t leaves = undone(open);
    if (leaves == 0) return;
    result_.cut_by_memory += leaves;
    rejections_.note_bound(node.strategy, leaves, excess, library_memory(cluster_.device, 0));
    if (!best_) cut_.push({.node = node, .key = static_cast<double>(excess.missing.value)});
  }

  void miss(const Candidate& candidate) {
    ++result_.cut_by_memory;
    result_.misses.push_back(candidate);
    rejections_.note_miss(candidate);
  }

  void refuse(const OpenNode& open, const std::string& reason) {
    const std::int64_t leaves = undone(open);
    if (leaves == 0) return;
    result_.refused += leaves;
    rejections_.note_refusal(open.node.strategy, leaves, reason);
  }

  // --- the end -----------------------------------------------------------------------------------

  void report(const Strategy& strategy) const {
    if (!limits_.progress) return;
    const std::string best =
        best_ ? fmt::format(
                    "best {}, gap {:.1f} %", to_text(best_->step_time),
                    100 * gap_of(best_->step_time, std::min(open_.least_bound(), best_->step_time)))
              : std::string("none yet");
    limits_.progress(
        fmt::format("{}, {}: {}", counted(result_.compiled, "plan"), best, to_string(strategy)));
  }

  static double gap_of(Duration best, Duration bound) {
    return to_seconds(best - bound) / to_seconds(best);
  }

  bool is_good_enough() const {
    return best_ && limits_.enough_gap > 0 && !limits_.pareto &&
           result_.simulated >= limits_.least_plans &&
           gap_of(best_->step_time, std::min(open_.least_bound(), best_->step_time)) <=
               limits_.enough_gap;
  }
  bool is_stopped() {
    if (!stopped_ && asks_to_stop()) stopped_ = true;
    return stopped_;
  }
  bool asks_to_stop() {
    if (!limits_.stop) return false;
    const std::lock_guard lock(stop_mutex_);
    return limits_.stop();
  }
  bool ends() {
    const bool is_tired = limits_.patience && best_ && since_best_ >= *limits_.patience;
    return is_tired || is_stopped() || is_good_enough();
  }

  void finish() {
    Duration least(std::numeric_limits<std::int64_t>::max());
    open_.for_each([&](const OpenNode& open) {
      const std::int64_t leaves = undone(open);
      if (cannot_win(open)) {
        result_.cut_by_bound += leaves;
      } else if (leaves > 0) {
        result_.open += leaves;
        least = std::min(least, open.bound);
      }
    });
    std::stable_sort(result_.plans.begin(), result_.plans.end(),
                     [](const Candidate& a, const Candidate& b) {
                       if (a.step_time != b.step_time) return a.step_time < b.step_time;
                       return to_string(a.strategy) < to_string(b.strategy);
                     });
    if (best_) least = std::min(least, best_->step_time);
    if (best_ || result_.open > 0) result_.lower_bound = least;
    if (!best_) find_closest();  // after the counts, which say whether the search is complete
    result_.rejections = rejections_.by_kind();
  }

  // Without a plan: what needs least, down to the leaves, and one that was compiled.
  void find_closest() {
    try {
      // What is open may need less than all that was cut.
      if (result_.complete()) find_least_memory();
    } catch (const CompileStopped&) {
      stopped_ = true;
    }
    result_.closest = rejections_.closest();
  }
  void find_least_memory() {
    while (!is_stopped()) {
      const std::optional<OpenNode> popped = cut_.pop_first();
      if (!popped) return;
      const OpenNode& least = *popped;
      if (least.node.level == Level::kPieces) {
        const NodeFacts::Excess excess = facts_.excess_of(least.node);
        result_.least_memory = excess.needed + total(library_memory(cluster_.device, 0));
        for (const Candidate& miss : result_.misses)
          result_.least_memory = std::min(*result_.least_memory, miss.needed_memory);
        compile_closest(least.node.strategy);
        return;
      }
      for (SpaceNode& child : space_.children(least.node)) {
        const double missing = static_cast<double>(facts_.excess_of(child).missing.value);
        cut_.push({.node = std::move(child), .key = missing});
      }
    }
  }
  void compile_closest(const Strategy& strategy) {
    if (is_stopped()) return;
    try {
      rejections_.note_closest(evaluate_strategy(facts_.graph_of(strategy), strategy,
                                                 problem_.global_batch, models_, stop_poll_));
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
  NodeFacts facts_;
  Rungs rungs_{facts_, space_};
  SearchOrder order_;
  std::vector<SpaceNode> meshes_;

  OpenNodes open_;
  std::vector<Strategy> done_;        // compiled
  std::vector<OpenNode> neighbours_;  // of one plan, the most promising last
  std::optional<Strategy> neighbours_of_;
  std::vector<Strategy> unvisited_;  // of the front, whose neighbours nobody has looked at
  bool neighbours_turn_ = false, least_bounds_turn_ = false;
  std::int64_t since_best_ = 0;

  OpenNodes cut_;  // by memory, while there is no plan; the key is what is missing
  Rejections rejections_;
  std::optional<Candidate> best_;
  ParetoFront front_;  // of the plans, where it is asked for
  bool stopped_ = false;
  std::mutex stop_mutex_;
  const StopPoll stop_poll_{[this] { return asks_to_stop(); }};
  SearchResult result_;
};

// Graphs that stand for many strategies are asked for by a few of their settings, and this is not
// among them.
SearchProblem in_precision(SearchProblem problem, Precision precision) {
  if (precision == Precision::kCompute) return problem;
  problem.training_graph = [build = problem.training_graph, precision](Strategy strategy) {
    strategy.precision = precision;
    return build(strategy);
  };
  if (problem.shorter_graph)
    problem.shorter_graph = [build = problem.shorter_graph, precision](Strategy strategy,
                                                                       int blocks) {
      strategy.precision = precision;
      return build(strategy, blocks);
    };
  return problem;
}

}  // namespace

double SearchResult::gap() const {
  if (plans.empty()) return 1;
  const double best = to_seconds(plans.front().step_time);
  return best > 0 ? (best - to_seconds(lower_bound)) / best : 0;
}

SearchResult search(const SearchProblem& problem, const SearchLimits& limits) {
  require(problem.cluster != nullptr && problem.training_graph != nullptr, ErrorCode::kUsage,
          "a search needs a cluster and a training graph");
  require(problem.global_batch >= 1, ErrorCode::kUsage, "global batch {}, wanted at least 1",
          problem.global_batch);
  const Precision precision = StrategyFilter(limits.fixed, limits.forbidden).base().precision;
  const SearchProblem own = in_precision(problem, precision);
  // Refused here where the device has no such products, and not plan by plan.
  if (precision == Precision::kFp8)
    make_search_models(own).cost->duration(
        {.flops = 0, .read = {}, .written = {}, .kernel = "scaled_matmul:16x16x16"});
  return Search(own, limits).run();
}

}  // namespace sextant
