// Variables that launchers set for those that they start.
#include "backends/hosts/process_group.h"

#include <charconv>
#include <cstring>

namespace sextant {
namespace {

struct LauncherVariables {
  const char* launcher;
  const char* process;
  const char* processes;
};

// Several launchers set PMI's: MPICH's mpirun, srun --mpi=pmi2. Slurm sets its own for every step,
// mpirun inside an allocation included: it comes last.
constexpr LauncherVariables kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"a launcher", "PMI_RANK", "PMI_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

std::optional<std::size_t> number_of(const char* text) {
  if (text == nullptr) return std::nullopt;
  std::size_t number = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<Launched> launched_by(const EnvironmentLookup& lookup) {
  for (const LauncherVariables& variables : kLaunchers) {
    const auto process = number_of(lookup(variables.process));
    const auto processes = number_of(lookup(variables.processes));
    if (process && processes && *processes > 1 && *process < *processes)
      return Launched{variables.launcher, *process, *processes};
  }
  return std::nullopt;
}

}  // namespace sextant
