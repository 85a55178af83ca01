// Cut, sort by bound, compile and simulate until nothing left can be better.

#include "search/search.h"

#include "compiler/expand.h"
#include "compiler/stage.h"
#include "compiler/training_graph.h"
#include "core/check.h"
#include "search/bounds.h"
#include "search/space.h"
#include "simulator/models.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace sextant {

namespace {

// A strategy that is still in the race.
struct Contender {
  std::size_t place = 0;  // in the enumeration
  Strategy strategy;
  Duration bound;
};

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

class Search {
 public:
  Search(const SearchProblem& problem, const SearchLimits& limits)
      : problem_(problem),
        limits_(limits),
        models_(make_search_models(problem)),
        memory_(limits.memory.value_or(problem.cluster->device.memory)),
        libraries_(library_memory(problem.cluster->device, 0)) {}

  SearchResult run() {
    list_contenders();
    listed_all_ = result_.complete;
    std::sort(contenders_.begin(), contenders_.end(), [](const Contender& a, const Contender& b) {
      return std::tie(a.bound, a.place) < std::tie(b.bound, b.place);
    });
    for (next_ = 0; next_ < contenders_.size(); ++next_) {
      if (limits_.use_bounds && cannot_be_beaten()) break;
      if (is_stopped()) break;
      evaluate(contenders_[next_]);
    }
    finish();
    return std::move(result_);
  }

 private:
  struct ProfiledGraph {
    LogicalGraph training;
    GraphProfile profile;
  };

  const ProfiledGraph& graph_of(const Strategy& strategy) {
    const std::string key = training_graph_key(strategy);
    auto found = graphs_.find(key);
    if (found == graphs_.end()) {
      LogicalGraph training = problem_.training_graph(strategy);
      GraphProfile profile(training);
      found = graphs_.emplace(key, ProfiledGraph{std::move(training), std::move(profile)}).first;
    }
    return found->second;
  }

  void list_contenders() {
    const StrategyFilter filter(limits_.fixed);
    const auto space = enumerate_strategies(problem_.cluster->num_devices(), problem_.global_batch);
    for (const Strategy& strategy : space) {
      if (!filter.accepts(strategy)) continue;
      const auto place = static_cast<std::size_t>(result_.enumerated++);
      if (is_stopped()) continue;
      try {
        consider(place, strategy);
      } catch (const Error& error) {
        if (!is_refusal(error)) throw;
        refuse(place, strategy, error.what());
      }
    }
    if (result_.enumerated > 0) return;
    std::string fixed;
    for (const std::string& word : limits_.fixed) fixed += " " + word;
    fail(ErrorCode::kInfeasible, "no strategy for {} devices and global batch {} has{}{}",
         problem_.cluster->num_devices(), problem_.global_batch, fixed,
         space.empty() ? " dp x tp x pp that divide them" : "");
  }

  void consider(std::size_t place, const Strategy& strategy) {
    const GraphProfile& profile = graph_of(strategy).profile;
    const std::vector<LayerPlace> places = place_layers(profile.num_layers(), strategy);
    const std::int64_t micro_batches = num_micro_batches(strategy, problem_.global_batch);
    const Bytes memory = profile.memory_bound(strategy, places, micro_batches);
    if (memory + total(libraries_) > memory_) {
      ++result_.cut_by_memory;
      reject(place, strategy,
             "at least " + text_of_excess(memory + total(libraries_), libraries_, memory_));
      return;
    }
    const Duration bound =
        std::max(flops_bound(), profile.time_bound(strategy, places, micro_batches, *models_.cost));
    contenders_.push_back({place, strategy, bound});
  }

  // All devices at their peak from the first to the last picosecond.
  Duration flops_bound() const {
    const DeviceKind& device = problem_.cluster->device;
    const double peak = peak_of(device, problem_.compute_dtype).flops_per_second.value;
    const double rate = peak * device.matmul_efficiency.value *
                        static_cast<double>(problem_.cluster->num_devices());
    const double seconds = problem_.model_flops_per_step / rate;
    // Rounded down: the durations it must not exceed are rounded one by one.
    return Duration(static_cast<std::int64_t>(seconds * 1e12 * (1 - 1e-9)));
  }

  bool cannot_be_beaten() const { return best_ && best_->step_time <= contenders_[next_].bound; }

  void evaluate(const Contender& contender) {
    const Strategy& strategy = contender.strategy;
    try {
      Candidate candidate =
          evaluate_strategy(graph_of(strategy).training, strategy, problem_.global_batch, models_);
      candidate.lower_bound = contender.bound;
      ++result_.simulated;
      if (candidate.needed_memory > memory_) {
        ++result_.cut_by_memory;
        reject(contender.place, strategy,
               text_of_excess(candidate.needed_memory, candidate.libraries, memory_));
      } else {
        keep(std::move(candidate));
      }
    } catch (const Error& error) {
      if (!is_refusal(error)) throw;
      refuse(contender.place, strategy, error.what());
    }
    report(strategy);
  }

  void keep(Candidate candidate) {
    if (!best_ || candidate.step_time < best_->step_time) {
      best_ = candidate;
      if (limits_.improved) limits_.improved(candidate);
    }
    result_.plans.push_back(std::move(candidate));
  }

  void reject(std::size_t place, const Strategy& strategy, std::string reason) {
    rejected_.emplace(place, Rejection{strategy, std::move(reason)});
  }

  void refuse(std::size_t place, const Strategy& strategy, std::string reason) {
    ++result_.refused;
    reject(place, strategy, std::move(reason));
  }

  void report(const Strategy& strategy) const {
    if (!limits_.progress) return;
    limits_.progress(fmt::format("{} of {} strategies, best {}: {}", next_ + 1, contenders_.size(),
                                 best_ ? to_text(best_->step_time) : std::string("none yet"),
                                 to_string(strategy)));
  }

  bool is_stopped() {
    if (result_.complete && limits_.stop && limits_.stop()) result_.complete = false;
    return !result_.complete;
  }

  void finish() {
    const std::size_t left = contenders_.size() - next_;
    // What was not reached before a stop may still be better than the best.
    if (result_.complete) result_.cut_by_bound = static_cast<std::int64_t>(left);
    std::stable_sort(result_.plans.begin(), result_.plans.end(),
                     [](const Candidate& a, const Candidate& b) {
                       if (a.step_time != b.step_time) return a.step_time < b.step_time;
                       return to_string(a.strategy) < to_string(b.strategy);
                     });
    for (auto& [place, rejection] : rejected_) result_.rejected.push_back(std::move(rejection));
    if (best_) result_.lower_bound = best_->step_time;
    if (result_.complete) return;
    const Duration open = listed_all_ && left > 0 ? contenders_[next_].bound : flops_bound();
    result_.lower_bound = best_ ? std::min(open, best_->step_time) : open;
  }

  const SearchProblem& problem_;
  const SearchLimits& limits_;
  SearchModels models_;
  Bytes memory_;
  const std::vector<LibraryUse> libraries_;      // what every plan has, communicators or not
  std::map<std::string, ProfiledGraph> graphs_;  // by training_graph_key
  std::vector<Contender> contenders_;
  std::size_t next_ = 0;  // first contender that was not evaluated
  bool listed_all_ = false;
  std::map<std::size_t, Rejection> rejected_;  // by place in the enumeration
  std::optional<Candidate> best_;
  SearchResult result_;
};

}  // namespace

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
