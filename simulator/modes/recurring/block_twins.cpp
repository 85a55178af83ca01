// Which inputs are twins is a guess by order: the k-th queue or fence that each place uses. Whether
// they are equal is seen when they are there, so a wrong guess costs time, never a picosecond.
#include "simulator/modes/recurring/block_twins.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {
namespace {}  // namespace

void TwinFolding::find_twins(const BlockStructure& s) {
  place_of_.assign(at(s.num_places + s.num_queues + s.num_fences), 0);
  for (std::int32_t p = 0; p < s.num_places; ++p) place_of_[at(p)] = p;
  for (std::int32_t q = 0; q < s.num_queues; ++q)
    place_of_[at(s.num_places + q)] = tape_.queue_places[at(s.first_queue + q)];
  std::int32_t wait = s.first_wait;
  for (std::int32_t i = 0; i < s.num_launches; ++i) {
    const BlockLaunch& launch = tape_.launches[at(s.first_launch + i)];
    for (; wait < launch.waits_end; ++wait)
      if (const std::int32_t whose = tape_.waits[at(wait)]; whose < 0)
        place_of_[at(s.num_places + s.num_queues + ~whose)] = launch.place;
  }
  first_of_.clear();
  firsts_.clear();
  kind_of_.clear();
  add_kind(s.num_places, s.num_places);
  add_kind(s.num_queues, s.num_places);
  add_kind(s.num_fences, s.num_places);
}

void TwinFolding::add_kind(std::int32_t count, std::int32_t num_places) {
  std::vector<std::int32_t> used(at(num_places));
  const std::int32_t first_kind = size_of(firsts_);
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t input = size_of(first_of_);
    const std::int32_t kind = first_kind + used[at(place_of_[at(input)])]++;
    if (kind == size_of(firsts_)) firsts_.push_back(input);
    kind_of_.push_back(kind);
    first_of_.push_back(firsts_[at(kind)]);
  }
}

void TwinFolding::fold_row(std::span<const std::int64_t> row) {
  const std::size_t begin = folded_.size();
  folded_.resize(begin + firsts_.size(), kNever);
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::int64_t& delay = folded_[begin + at(kind_of_[i])];
    delay = std::max(delay, row[i]);
  }
}

std::int32_t TwinFolding::place_of_last_row() {
  const auto width = static_cast<std::ptrdiff_t>(firsts_.size());
  const auto last = folded_.end() - width;
  auto same = folded_.begin();
  while (!std::equal(last, folded_.end(), same)) same += width;
  const auto place = static_cast<std::int32_t>((same - folded_.begin()) / width);
  if (same != last) folded_.resize(folded_.size() - firsts_.size());
  return place;
}

void TwinFolding::fold(const BlockStructure& s, std::span<const std::int64_t> rows,
                       BlockMatrix& matrix, BlockMatrices& into) {
  find_twins(s);
  matrix.first_twin = size_of(into.twins);
  into.twins.insert(into.twins.end(), first_of_.begin(), first_of_.end());
  into.twins.insert(into.twins.end(), firsts_.begin(), firsts_.end());
  folded_.clear();
  const std::size_t inputs = at(matrix.num_inputs());
  for (std::int32_t output = 0; output < matrix.num_outputs(); ++output) {
    fold_row(rows.subspan(at(output) * inputs, inputs));
    into.twins.push_back(place_of_last_row());
  }
  matrix.folded = into.maps.add(folded_, size_of(firsts_),
                                static_cast<std::int32_t>(folded_.size() / firsts_.size()));
}

}  // namespace sextant
