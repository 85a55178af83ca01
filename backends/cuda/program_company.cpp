// First how much there is to move beside how much computation; if that says fast, when.
#include "backends/cuda/program_company.h"

#include "actor/protocol/overlap.h"
#include "backends/cuda/communicator_key.h"

#include <cstddef>

namespace sextant {
namespace {

// Computation as long as it is, communications at this rate.
std::vector<double> modelled(std::span<const RunEntry> runs, std::span<const double> seconds,
                             std::span<const double> bytes, double bytes_per_second) {
  std::vector<double> modelled(runs.size());
  for (std::size_t r = 0; r < runs.size(); ++r)
    modelled[r] = runs[r].queue == QueueRole::kCompute ? seconds[r] : bytes[r] / bytes_per_second;
  return modelled;
}

CompanyLoad load_of(std::span<const RunEntry> runs, const ProgramWaits& waits,
                    std::span<const double> seconds, std::span<const double> bytes,
                    const std::vector<bool>& beside) {
  CompanyLoad load;
  double computation = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const bool computes = runs[r].queue == QueueRole::kCompute;
    if (computes) computation += seconds[r];
    if (!beside[r]) continue;
    load.bytes += bytes[r];
    if (computes) load.seconds += seconds[r];
  }
  if (computation > 0) {
    const std::vector<double> slow = modelled(runs, seconds, bytes, kSlowBytesPerSecond);
    load.waiting_share = modelled_step(runs, waits, slow).waited / computation;
  }
  return load;
}

}  // namespace

ProgramCompany company_of(std::span<const RunEntry> runs, const ProgramWaits& waits,
                          std::span<const double> seconds, std::span<const double> bytes,
                          const ExchangeBlocks& blocks) {
  ProgramCompany company;
  company.beside = overlap_of(runs, waits).beside;
  company.taken.assign(runs.size(), 0);
  if (blocks.slow == 0) return company;
  company.goes_slowly = sextant::goes_slowly(load_of(runs, waits, seconds, bytes, company.beside));
  const std::vector<bool> cut =
      company.goes_slowly
          ? company.beside
          : modelled_step(runs, waits, modelled(runs, seconds, bytes, kFastBytesPerSecond))
                .begins_beside;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (cut[r] && runs[r].queue == QueueRole::kCompute)
      company.taken[r] = company.goes_slowly ? blocks.slow : blocks.fast;
  return company;
}

}  // namespace sextant
