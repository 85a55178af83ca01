// The launches of a block evaluated on vectors: one component for each input.
#include "simulator/modes/recurring/block_matrix.h"

#include "core/base/at.h"
#include "simulator/modes/recurring/block_twins.h"

#include <algorithm>
#include <limits>

namespace sextant {
namespace {

// What the launches of one block are evaluated on; all vectors have `width` components.
struct Vectors {
  std::ptrdiff_t width = 0;
  std::int64_t* inputs = nullptr;  // hosts, queues and fences as they are now
  std::int64_t *queues = nullptr, *fences = nullptr;
  std::int64_t* ends = nullptr;    // by launch
  std::int64_t* begin = nullptr;   // by member of the communication at hand
  std::int64_t* slacks = nullptr;  // by queue
  std::int64_t* issued = nullptr;  // by place: launch costs until now
};

// With vectors of `kWidth` components; of any width where it is 0.
template <std::ptrdiff_t kWidth>
class Launches {
 public:
  Launches(const Vectors& vectors, std::int64_t cost) : v_(vectors), cost_(cost) {}

  void run(const BlockLaunch* launches, std::int32_t num_launches, const std::int32_t* waits,
           std::int32_t wait, const std::int64_t* durations) const {
    for (std::int32_t i = 0; i < num_launches;) {
      const std::int32_t members = launches[i].members;
      for (std::int32_t m = 0; m < members; ++m) {
        const BlockLaunch& launch = launches[i + m];
        begin(launch, waits + wait, waits + launch.waits_end, v_.begin + m * width());
        wait = launch.waits_end;
        if (m > 0) raise(v_.begin, v_.begin + m * width());
      }
      for (std::int32_t m = i; m < i + members; ++m) end(launches[m], m, durations[i]);
      i += members;
    }
  }

 private:
  std::ptrdiff_t width() const { return kWidth > 0 ? kWidth : v_.width; }

  void raise(std::int64_t* to, const std::int64_t* other) const {
    for (std::ptrdiff_t i = 0; i < width(); i += kLanes) {
      const Lanes a = lanes_at(to + i), b = lanes_at(other + i);
      lanes_at(to + i) = a > b ? a : b;
    }
  }

  void begin(const BlockLaunch& launch, const std::int32_t* wait, const std::int32_t* waits_end,
             std::int64_t* begin) const {
    std::int64_t* host = v_.inputs + launch.place * width();
    if (launch.window >= 0) raise(host, v_.ends + launch.window * width());
    const std::int64_t* queue = v_.queues + launch.queue * width();
    for (std::ptrdiff_t i = 0; i < width(); i += kLanes) {
      const Lanes issued = lanes_at(host + i), free = lanes_at(queue + i);
      lanes_at(begin + i) = issued > free ? issued : free;
      lanes_at(host + i) = issued + cost_;
    }
    for (; wait != waits_end; ++wait)
      raise(begin, *wait >= 0 ? v_.ends + *wait * width() : v_.fences + ~*wait * width());
    std::int64_t* slack = v_.slacks + launch.queue * width();
    const std::int64_t before = v_.issued[launch.place];
    v_.issued[launch.place] += cost_;
    for (std::ptrdiff_t i = 0; i < width(); i += kLanes) {
      const Lanes mine = lanes_at(begin + i) - before, least = lanes_at(slack + i);
      lanes_at(slack + i) = least < mine ? least : mine;
    }
  }

  // The first member's vector has the maximum over all.
  void end(const BlockLaunch& launch, std::int32_t number, std::int64_t duration) const {
    std::int64_t* queue = v_.queues + launch.queue * width();
    std::int64_t* end = v_.ends + number * width();
    for (std::ptrdiff_t i = 0; i < width(); i += kLanes)
      lanes_at(queue + i) = lanes_at(end + i) = lanes_at(v_.begin + i) + duration;
  }

  Vectors v_;
  std::int64_t cost_;
};

SEXTANT_FOR_EACH_VECTOR_WIDTH
void propagate(const BlockLaunch* launches, std::int32_t num_launches, const std::int32_t* waits,
               std::int32_t wait, const std::int64_t* durations, std::int64_t cost,
               const Vectors& v) {
  switch (v.width) {
    case 4:
      return Launches<4>(v, cost).run(launches, num_launches, waits, wait, durations);
    case 8:
      return Launches<8>(v, cost).run(launches, num_launches, waits, wait, durations);
    case 12:
      return Launches<12>(v, cost).run(launches, num_launches, waits, wait, durations);
    default:
      return Launches<0>(v, cost).run(launches, num_launches, waits, wait, durations);
  }
}

class Propagation {
 public:
  Propagation(const BlockTape& tape, Duration launch_cost, BlockMatrices& into)
      : tape_(tape), cost_(launch_cost.value), into_(into), twins_(tape) {}

  BlockMatrix run(const BlockStructure& s, std::span<const std::int64_t> durations) {
    prepare(s);
    propagate(tape_.launches.data() + s.first_launch, s.num_launches, tape_.waits.data(),
              s.first_wait, durations.data(), cost_, vectors_);
    return write(s);
  }

 private:
  void prepare(const BlockStructure& s) {
    columns_ = s.num_places + s.num_queues + s.num_fences;
    vectors_.width = padded_to_lanes(columns_);
    const std::size_t width = static_cast<std::size_t>(vectors_.width);
    inputs_.assign(at(columns_) * width, kNever);
    for (std::size_t i = 0; i < at(columns_); ++i) inputs_[i * width + i] = 0;
    ends_.resize(std::max(ends_.size(), at(s.num_launches) * width));
    begin_.resize(std::max(begin_.size(), at(s.num_places) * width));
    slacks_.assign(at(s.num_queues) * width, std::numeric_limits<std::int64_t>::max());
    issued_.assign(at(s.num_places), 0);
    vectors_.inputs = inputs_.data();
    vectors_.queues = inputs_.data() + s.num_places * vectors_.width;
    vectors_.fences = vectors_.queues + s.num_queues * vectors_.width;
    vectors_.ends = ends_.data();
    vectors_.begin = begin_.data();
    vectors_.slacks = slacks_.data();
    vectors_.issued = issued_.data();
  }

  BlockMatrix write(const BlockStructure& s) {
    BlockMatrix matrix{s.num_places, s.num_queues, s.num_fences, s.num_exports};
    rows_.clear();
    for (std::int32_t i = 0; i < s.num_places + s.num_queues; ++i)
      add_row(vectors_.inputs + i * vectors_.width);
    for (std::int32_t x = 0; x < s.num_exports; ++x)
      add_row(vectors_.ends + tape_.exports[at(s.first_export + x)] * vectors_.width);
    matrix.outputs = into_.maps.add(rows_, columns_, matrix.num_outputs());
    if (s.num_places > 1) twins_.fold(s, rows_, matrix, into_);
    rows_.clear();
    for (std::int32_t q = 0; q < s.num_queues; ++q) add_row(vectors_.slacks + q * vectors_.width);
    matrix.slacks = into_.maps.add(rows_, columns_, s.num_queues);
    matrix.first_delay = size_of(into_.delays);
    into_.delays.insert(into_.delays.end(), issued_.begin(), issued_.end());
    for (std::int32_t q = 0; q < s.num_queues; ++q)
      into_.delays.push_back(vectors_.slacks[q * vectors_.width + s.num_places + q]);
    return matrix;
  }

  void add_row(const std::int64_t* row) { rows_.insert(rows_.end(), row, row + columns_); }

  const BlockTape& tape_;
  std::int64_t cost_;
  BlockMatrices& into_;
  TwinFolding twins_;
  std::int32_t columns_ = 0;
  Vectors vectors_;
  std::vector<std::int64_t> inputs_, ends_, begin_, slacks_, issued_;
  std::vector<std::int64_t> rows_;  // of the map at hand
};

}  // namespace

BlockMatrices block_matrices(const BlockTape& tape, std::span<const Duration> durations,
                             Duration launch_cost) {
  BlockMatrices matrices;
  Propagation propagation(tape, launch_cost, matrices);
  std::vector<std::int64_t> lasting;
  lasting.reserve(tape.timed_of_launch.size());
  for (const std::int32_t timed : tape.timed_of_launch)
    lasting.push_back(durations[at(timed)].value);
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
      matrices.of_template.push_back(matrices.of_template[*same]);
      continue;
    }
    others.push_back(t);
    matrices.of_template.push_back(propagation.run(s, mine));
  }
  return matrices;
}

}  // namespace sextant
