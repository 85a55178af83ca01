// How many processors collectives take from the computation beside them, by hand: computation of so
// many seconds, one collective of so many bytes behind the first run.
#include "backends/cuda/ranks/program_company.h"

#include "backends/cuda/ranks/communicator_key.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace sextant::program_company_test {
namespace {

// Run 0 computes, run 1 reduces what it made, the others compute; nobody waits for the reduction.
ProgramCompany company(double bytes, const std::vector<double>& seconds,
                       int processors_of_slow = 4) {
  std::vector<RunEntry> runs(seconds.size());
  ProgramWaits waits;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    runs[r].queue = r == 1 ? QueueRole::kCollective : QueueRole::kCompute;
    runs[r].unit = static_cast<std::int32_t>(r == 0 ? 0 : r == 1 ? 0 : r - 1);
    if (r == 1) waits.waits.push_back({0});
    waits.end.push_back(static_cast<std::int32_t>(waits.waits.size()));
  }
  std::vector<double> moved(runs.size());
  moved[1] = bytes;
  return company_of(runs, waits, seconds, moved, processors_of_slow);
}

}  // namespace

TEST_CASE("a collective that has much more time than it takes goes slowly, and all beside is cut") {
  const ProgramCompany found = company(0.1 * kSlowBytesPerSecond, {1, 0, 1, 1});
  CHECK(found.goes_slowly);
  CHECK(found.beside == std::vector{true, true, true, true});
  CHECK(found.taken == 4);
}

TEST_CASE("a collective that has no time to lose goes fast, and nothing is cut") {
  // Slowly it would take 3 of 4 s.
  const ProgramCompany found = company(3 * kSlowBytesPerSecond, {1, 0, 0.5, 0.4, 2.1});
  CHECK(!found.goes_slowly);
  CHECK(found.beside == std::vector{true, true, true, true, true});
  CHECK(found.taken == 0);
}

TEST_CASE("an exchange that takes what it finds cuts nothing") {
  const ProgramCompany found = company(0.1 * kSlowBytesPerSecond, {1, 0, 1, 1}, 0);
  CHECK(!found.goes_slowly);
  CHECK(found.taken == 0);
}

TEST_CASE("what passes a link grows with the members of a group, and not with what each has") {
  const auto script = [](ExchangeCall::Kind kind) {
    ExchangeCall call;
    call.kind = kind;
    call.elements = 100;
    CollectiveScript made;
    made.dtype = DType::kF32;
    made.exchange = {call};
    return made;
  };
  CHECK(link_bytes(script(ExchangeCall::Kind::kAllReduce), 2) == 400);
  CHECK(link_bytes(script(ExchangeCall::Kind::kAllReduce), 4) == 600);
  CHECK(link_bytes(script(ExchangeCall::Kind::kAllGather), 4) == 1200);  // 100 of each
  CHECK(link_bytes(script(ExchangeCall::Kind::kReduceScatter), 2) == 400);
  CollectiveScript exchange = script(ExchangeCall::Kind::kSend);
  exchange.exchange.push_back(script(ExchangeCall::Kind::kReceive).exchange[0]);
  CHECK(link_bytes(exchange, 4) == 400);  // both at once
}

}  // namespace sextant::program_company_test
