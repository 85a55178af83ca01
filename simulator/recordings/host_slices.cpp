// Times of host acts are on the clock of the launches.
#include "simulator/recordings/host_slices.h"

#include "core/base/ids.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace sextant {
namespace {

Time last_end(const Timeline& timeline) {
  Time end = timeline.first_begin();
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : rank.runs) end = std::max(end, run.end);
  return end;
}

}  // namespace

void add_host_slices(const Recording& recording, const Timeline& timeline,
                     std::vector<TraceSlice>& slices) {
  const Time begin = timeline.first_begin(), end = last_end(timeline);
  std::map<std::pair<Rank, std::string>, std::int32_t> lanes;
  std::map<Rank, std::int32_t> lanes_of_rank;
  std::map<Rank, std::vector<TraceSlice>> acts;
  for (const RecordedHostAct& act : recording.host_acts) {
    const auto [lane, is_new] = lanes.try_emplace({act.rank, act.actor}, 0);
    if (is_new) lane->second = lanes_of_rank[act.rank]++;
    if (act.end <= begin || act.begin >= end) continue;
    acts[act.rank].push_back({act.rank, QueueRole::kHost, act.actor,
                              std::max(act.begin, begin) - begin, std::min(act.end, end) - begin,
                              static_cast<std::int32_t>(act.act), lane->second});
  }
  for (auto& [rank, of_rank] : acts) {
    std::stable_sort(of_rank.begin(), of_rank.end(), [](const TraceSlice& a, const TraceSlice& b) {
      return std::pair(a.lane, a.begin) < std::pair(b.lane, b.begin);
    });
    const auto behind =
        std::find_if(slices.rbegin(), slices.rend(), [&, r = rank](const TraceSlice& slice) {
          return slice.rank == r;
        }).base();
    slices.insert(behind, of_rank.begin(), of_rank.end());
  }
}

}  // namespace sextant
