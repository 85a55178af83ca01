// How much there is to move beside how much computation decides.
#include "backends/cuda/ranks/program_company.h"

#include "actor/protocol/overlap.h"
#include "backends/cuda/ranks/communicator_key.h"

#include <algorithm>
#include <cstddef>

namespace sextant {
namespace {

CompanyLoad load_of(std::span<const RunEntry> runs, const ProgramWaits& waits,
                    std::span<const double> seconds, std::span<const double> bytes,
                    const std::vector<bool>& beside) {
  CompanyLoad load;
  double computation = 0;
  std::vector<double> slow(runs.size());
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const bool computes = runs[r].queue == QueueRole::kCompute;
    slow[r] = computes ? seconds[r] : bytes[r] / kSlowBytesPerSecond;
    if (computes) computation += seconds[r];
    if (!beside[r]) continue;
    load.bytes += bytes[r];
    if (computes) load.seconds += seconds[r];
  }
  if (computation > 0) load.waiting_share = waiting_time(runs, waits, slow) / computation;
  return load;
}

}  // namespace

double link_bytes(const CollectiveScript& script, std::size_t members) {
  const auto others = static_cast<double>(members) - 1;
  double sent = 0, received = 0;  // elements
  for (const ExchangeCall& call : script.exchange) {
    const auto elements = static_cast<double>(call.elements);
    switch (call.kind) {
      case ExchangeCall::Kind::kAllReduce:
        sent += 2 * others / static_cast<double>(members) * elements;
        break;
      case ExchangeCall::Kind::kAllGather:
      case ExchangeCall::Kind::kReduceScatter:
        sent += others * elements;
        break;
      case ExchangeCall::Kind::kSend:
        sent += elements;
        break;
      case ExchangeCall::Kind::kReceive:
        received += elements;
        break;
    }
  }
  return std::max(sent, received) * static_cast<double>(size_of(script.dtype).value);
}

ProgramCompany company_of(std::span<const RunEntry> runs, const ProgramWaits& waits,
                          std::span<const double> seconds, std::span<const double> bytes,
                          int processors_of_slow) {
  ProgramCompany company;
  company.beside = overlap_of(runs, waits).beside;
  company.goes_slowly = processors_of_slow > 0 &&
                        sextant::goes_slowly(load_of(runs, waits, seconds, bytes, company.beside));
  if (company.goes_slowly) company.taken = processors_of_slow;
  return company;
}

}  // namespace sextant
