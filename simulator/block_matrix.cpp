// The launches of a block evaluated on vectors: one component for each input.
#include "simulator/block_matrix.h"

#include <algorithm>
#include <limits>

namespace sextant {
namespace {

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
std::int32_t size_of(const auto& values) { return static_cast<std::int32_t>(values.size()); }

// Far below all that a sum of times can reach.
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min() / 4;

class Propagation {
 public:
  Propagation(const BlockTape& tape, Duration launch_cost, BlockMatrices& into)
      : tape_(tape), cost_(launch_cost.value), into_(into) {}

  void run(const BlockStructure& s, std::span<const std::int64_t> durations) {
    prepare(s);
    const BlockLaunch* launches = tape_.launches.data() + s.first_launch;
    std::int32_t wait = s.first_wait;
    for (std::int32_t i = 0; i < s.num_launches;) {
      const std::int32_t members = launches[i].members;
      for (std::int32_t m = i; m < i + members; ++m) {
        issue(launches[m]);
        begin(launches[m], wait, begin_.data() + at(m - i) * columns_);
        wait = launches[m].waits_end;
      }
      for (std::int32_t m = 1; m < members; ++m)
        raise(begin_.data(), begin_.data() + at(m) * columns_);
      for (std::int32_t m = i; m < i + members; ++m) end(launches[m], m, durations[at(i)]);
      i += members;
    }
    write(s);
  }

 private:
  void prepare(const BlockStructure& s) {
    places_ = at(s.num_places);
    queues_ = at(s.num_queues);
    columns_ = places_ + queues_ + at(s.num_fences);
    ends_.resize(at(s.num_launches) * columns_);
    begin_.resize(std::max(begin_.size(), places_ * columns_));
    state_.assign((places_ + queues_ + at(s.num_fences)) * columns_, kNever);
    for (std::size_t i = 0; i < columns_; ++i) state_[i * columns_ + i] = 0;
    slacks_.assign(queues_ * columns_, std::numeric_limits<std::int64_t>::max());
    issued_.assign(places_, 0);
  }

  std::int64_t* host(std::int32_t place) { return state_.data() + at(place) * columns_; }
  std::int64_t* queue(std::int32_t number) {
    return state_.data() + (places_ + at(number)) * columns_;
  }
  std::int64_t* fence(std::int32_t number) {
    return state_.data() + (places_ + queues_ + at(number)) * columns_;
  }
  std::int64_t* end_of(std::int32_t launch) { return ends_.data() + at(launch) * columns_; }

  void raise(std::int64_t* to, const std::int64_t* other) const {
    for (std::size_t i = 0; i < columns_; ++i) to[i] = std::max(to[i], other[i]);
  }

  void issue(const BlockLaunch& launch) {
    if (launch.window >= 0) raise(host(launch.place), end_of(launch.window));
  }

  // The host goes on after the launch; the slack of the queue takes note.
  void begin(const BlockLaunch& launch, std::int32_t wait, std::int64_t* begin) {
    std::int64_t* host_now = host(launch.place);
    std::copy_n(host_now, columns_, begin);
    for (std::size_t i = 0; i < columns_; ++i) host_now[i] += cost_;
    raise(begin, queue(launch.queue));
    for (; wait < launch.waits_end; ++wait) {
      const std::int32_t whose = tape_.waits[at(wait)];
      raise(begin, whose >= 0 ? end_of(whose) : fence(~whose));
    }
    std::int64_t* slack = slacks_.data() + at(launch.queue) * columns_;
    const std::int64_t before = cost_ * issued_[at(launch.place)]++;
    for (std::size_t i = 0; i < columns_; ++i) slack[i] = std::min(slack[i], begin[i] - before);
  }

  // Members have the maximum of their begins in the first.
  void end(const BlockLaunch& launch, std::int32_t number, std::int64_t duration) {
    std::int64_t* end = end_of(number);
    for (std::size_t i = 0; i < columns_; ++i) end[i] = begin_[i] + duration;
    std::copy_n(end, columns_, queue(launch.queue));
  }

  void write(const BlockStructure& s) {
    for (std::int32_t p = 0; p < s.num_places; ++p) write_row(host(p));
    for (std::int32_t q = 0; q < s.num_queues; ++q) write_row(queue(q));
    for (std::int32_t x = 0; x < s.num_exports; ++x)
      write_row(end_of(tape_.exports[at(s.first_export + x)]));
    for (std::size_t q = 0; q < queues_; ++q) write_row(slacks_.data() + q * columns_);
    for (const std::int64_t launches : issued_) into_.delays.push_back(launches * cost_);
    for (std::size_t q = 0; q < queues_; ++q)
      into_.delays.push_back(slacks_[q * columns_ + places_ + q]);
  }

  void write_row(const std::int64_t* row) {
    for (std::size_t i = 0; i < columns_; ++i)
      if (row[i] > kNever / 2) into_.terms.push_back({row[i], static_cast<std::int32_t>(i)});
    into_.row_begins.push_back(size_of(into_.terms));
  }

  const BlockTape& tape_;
  std::int64_t cost_;
  BlockMatrices& into_;
  std::size_t places_ = 0, queues_ = 0, columns_ = 0;
  std::vector<std::int64_t> state_;  // hosts, queues, fences
  std::vector<std::int64_t> ends_, begin_, slacks_, issued_;
};

}  // namespace

BlockMatrices block_matrices(const BlockTape& tape, std::span<const Duration> durations,
                             Duration launch_cost) {
  BlockMatrices matrices;
  matrices.row_begins.push_back(0);
  Propagation propagation(tape, launch_cost, matrices);
  std::vector<std::int64_t> lasting(tape.timed_of_launch.size());
  for (std::size_t i = 0; i < lasting.size(); ++i)
    lasting[i] = durations[at(tape.timed_of_launch[i])].value;
  std::vector<std::vector<std::size_t>> known(tape.structures.size());  // templates
  for (std::size_t t = 0; t < tape.templates.size(); ++t) {
    const BlockTemplate& block = tape.templates[t];
    const BlockStructure& s = tape.structures[at(block.structure)];
    const auto mine = std::span(lasting).subspan(at(block.first_timed), at(s.num_launches));
    std::vector<std::size_t>& others = known[at(block.structure)];
    const auto same = std::find_if(others.begin(), others.end(), [&](std::size_t other) {
      return std::equal(mine.begin(), mine.end(),
                        lasting.begin() + tape.templates[other].first_timed);
    });
    if (same != others.end()) {
      matrices.first_row.push_back(matrices.first_row[*same]);
      matrices.first_delay.push_back(matrices.first_delay[*same]);
      continue;
    }
    others.push_back(t);
    matrices.first_row.push_back(size_of(matrices.row_begins) - 1);
    matrices.first_delay.push_back(size_of(matrices.delays));
    propagation.run(s, mine);
  }
  return matrices;
}

}  // namespace sextant
