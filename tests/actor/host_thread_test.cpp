// The runtime's host thread on the system's threads, where a device says when a step ends.
#include "actor/host_thread.h"

#include "core/base/error.h"
#include "tests/support/pipeline_graph.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::host_thread_test {
namespace {

using namespace testing;

// No launch ends before `end_all`.
class HeldDevice final : public Device {
 public:
  HeldDevice() {
    spec_.has_memory = true;
    spec_.host_steps = 2;
  }
  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph&, Rank) override {}
  void launch(std::span<const Launch>, std::span<Fence>) override {}
  FenceState state(Fence) override { return FenceState::kPending; }
  void wait(Fence) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over_; });
  }
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  std::span<const Stamp> stamps() override { return {}; }
  void end_all() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
  }

 private:
  DeviceSpec spec_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
};

class EndOfLaunches {
 public:
  explicit EndOfLaunches(HeldDevice& device) : device_(device) {}
  ~EndOfLaunches() { device_.end_all(); }
  EndOfLaunches(const EndOfLaunches&) = delete;
  EndOfLaunches& operator=(const EndOfLaunches&) = delete;

 private:
  HeldDevice& device_;
};

// Acts `good` times, then fails.
class FailingActs final : public HostActors {
 public:
  FailingActs(std::string name, std::int64_t good) : name_(std::move(name)), left_(good) {}
  void act(const HostAct& act) override {
    if (act.actor->name == name_ && left_-- == 0)
      throw Error(ErrorCode::kBadInput, name_ + " has no more");
  }

 private:
  const std::string name_;
  std::int64_t left_;
};

class CountedActs final : public HostActors {
 public:
  void act(const HostAct& act) override {
    {
      const std::lock_guard lock(mutex_);
      ++acts_[act.actor->name];
    }
    changed_.notify_all();
  }
  // Whether there have been so many acts before 20 s are over.
  bool come_to(const std::string& name, std::int64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return acts_[name] >= count; });
  }
  std::int64_t acts(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return acts_[name];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::int64_t> acts_;
};

}  // namespace

// Two steps of three contents are launched, so these have been loaded; those of the third step wait
// for the end of the first. The source fills both of its registers meanwhile, and no more.
TEST_CASE("what makes samples acts while the loader waits for the end of a step") {
  const PhysicalGraph graph =
      pipeline_graph({.stages = 1, .micro_batches = 3, .host_actors = true, .data_actors = true});
  const ProgramTables tables(graph, ProgramId(0));
  HeldDevice device;
  CountedActs acts;
  constexpr std::int64_t kSteps = 6, kLaunched = 2 * 3, kRegisters = 2;
  HostThread host(graph, Rank(0), tables, device, acts, 0);
  const EndOfLaunches end(device);  // whatever fails, the host's threads do not wait for ever
  host.announce(kSteps);
  Protocol counters(tables, SiteOwner::kLaunchThread);
  std::vector<Message> messages;
  for (std::int64_t step = 0; step < 2; ++step)
    for (std::int32_t run = 0; run < static_cast<std::int32_t>(tables.runs.size());) {
      while (counters.issue(run, step)) {
        host.receive(messages);
        for (const Message& message : messages) counters.receive(message);
        messages.clear();
      }
      host.post(counters.outbox());
      counters.clear_outbox();
      run += tables.runs[static_cast<std::size_t>(run)].group_size;
    }
  const auto name_of = [&](bool is_loader) {
    for (const SiteId s : tables.host_sites) {
      const Site& site = tables.sites[s];
      const Instance& instance = graph.programs[ProgramId(0)].instances[site.instance];
      if (site.is_beside ? !is_loader : is_loader && site.num_inputs > 0 && site.num_writes > 0)
        return graph.actor_name(instance, site.first_actor);
    }
    return std::string();
  };
  const std::string source = name_of(false), loader = name_of(true);
  REQUIRE(!source.empty());
  REQUIRE(!loader.empty());
  REQUIRE(source != loader);
  CHECK(acts.come_to(loader, kLaunched));
  // The loader has taken the next content and waits.
  CHECK(acts.come_to(source, kLaunched + kRegisters));
  CHECK(acts.acts(loader) == kLaunched);
  device.end_all();
  CHECK(acts.come_to(source, kLaunched + 1 + kRegisters));
  host.stop("the test is over");
}

// The launch thread waits for the loader when it fails, or what makes its samples on a thread of
// its own; it is told either way.
TEST_CASE("a host actor that fails ends whoever waits") {
  const PhysicalGraph graph =
      pipeline_graph({.stages = 1, .micro_batches = 3, .host_actors = true, .data_actors = true});
  const ProgramTables tables(graph, ProgramId(0));
  // Nothing is launched, so the loader gets no credit for a second act.
  const std::pair<const char*, std::int64_t> failing[] = {
      {"make", 0}, {"make", 1}, {"make", 2}, {"load", 0}};
  for (const auto& [name, good] : failing)
    for (int run = 0; run < 20; ++run) {
      CAPTURE(name);
      CAPTURE(good);
      HeldDevice device;
      FailingActs acts(name, good);
      HostThread host(graph, Rank(0), tables, device, acts, 0);
      const EndOfLaunches end(device);
      host.announce(1);
      std::vector<Message> messages;
      const auto wait_for_contents = [&] {
        while (true) {
          host.receive(messages);
          messages.clear();
        }
      };
      CHECK_THROWS_WITH_AS(wait_for_contents(), (std::string(name) + " has no more").c_str(),
                           Error);
      CHECK_THROWS_AS(host.wait_until_idle(), Error);
    }
}

}  // namespace sextant::host_thread_test
