// Who is given up and when: times are handed in, processes are real.
#include "backends/hosts/peer_watch.h"

#include "backends/hosts/process_group.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

namespace sextant::peer_watch_test {
namespace {

using std::chrono::milliseconds;

// A process that is over, and has been waited for.
std::int64_t ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

}  // namespace

TEST_CASE("a process that says nothing for the timeout is silent, one that speaks is not") {
  const PeerWatch::Time begin{};
  PeerWatch watch(0, 3, milliseconds(100), begin);
  watch.heard(1, begin + milliseconds(60));
  CHECK_FALSE(watch.is_lost_or_quiet(2, begin + milliseconds(50)));
  CHECK(watch.is_lost_or_quiet(2, begin + milliseconds(51)));
  CHECK_FALSE(watch.is_lost_or_quiet(1, begin + milliseconds(110)));
  CHECK_FALSE(watch.look(begin + milliseconds(100)).has_value());
  CHECK(watch.look(begin + milliseconds(101)) == 2);
  CHECK(watch.state(2) == PeerState::kSilent);
  CHECK_FALSE(watch.look(begin + milliseconds(160)).has_value());  // 2 is known
  CHECK(watch.look(begin + milliseconds(161)) == 1);
  CHECK_FALSE(watch.is_lost(0));  // itself
}

TEST_CASE("a process of this machine that has ended without goodbye is gone when it stays away") {
  const PeerWatch::Time now{};
  const PeerIdentity here = own_identity();
  PeerWatch watch(0, 4, milliseconds(100), now);
  PeerIdentity gone = here, left = here, elsewhere = here;
  gone.pid = left.pid = elsewhere.pid = ended_process();
  elsewhere.machine = "another";
  watch.identify({here, gone, left, elsewhere});
  watch.left(2);
  CHECK_FALSE(watch.is_any_missing());
  CHECK_FALSE(watch.look(now).has_value());
  CHECK(watch.is_any_missing());
  // Two looks that follow each other at once are one: a goodbye may be under way.
  CHECK_FALSE(watch.look(now + PeerWatch::kTimeToArrive - milliseconds(1)).has_value());
  CHECK(watch.look(now + PeerWatch::kTimeToArrive) == 1);
  CHECK_FALSE(watch.is_any_missing());
  CHECK(watch.state(1) == PeerState::kGone);
  CHECK(watch.state(2) == PeerState::kLeft);
  CHECK(watch.state(3) == PeerState::kHere);
  CHECK_FALSE(watch.have_all_left_or_gone());
  watch.left(3);
  CHECK(watch.have_all_left_or_gone());
}

TEST_CASE("where a process runs survives its way to the others") {
  const PeerIdentity here = own_identity(), read = peer_identity_from(to_text(here));
  CHECK(read.host == here.host);
  CHECK(read.machine == here.machine);
  CHECK(read.pid == here.pid);
}

TEST_CASE("the environment says which launcher started how many processes") {
  const auto launched = [](const std::map<std::string, std::string>& variables) {
    return launched_by([&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  CHECK_FALSE(launched({}).has_value());
  CHECK_FALSE(launched({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  CHECK_FALSE(launched({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}}));
  CHECK_FALSE(launched({{"SLURM_PROCID", "0"}}).has_value());
  const auto by_mpirun = launched({{"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_STEP_NUM_TASKS", "2"}});
  REQUIRE(by_mpirun.has_value());
  CHECK(by_mpirun->launcher == "mpirun");
  CHECK(by_mpirun->process == 1);
  CHECK(by_mpirun->processes == 4);
  // srun --mpi=pmi2 sets them as well as a mpirun of another MPI.
  const auto by_somebody = launched({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  REQUIRE(by_somebody.has_value());
  CHECK(by_somebody->launcher == "a launcher");
  const auto by_srun = launched({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  REQUIRE(by_srun.has_value());
  CHECK(by_srun->launcher == "srun");
}

}  // namespace sextant::peer_watch_test
