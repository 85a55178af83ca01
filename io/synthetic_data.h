// Data for inputs that no file of the user's fills: one global batch, which every step reads again.
// Every value is a function of (seed, input, sample, place in the sample), so any plan trains on
// the same samples.
#pragma once

#include "core/base/units.h"
#include "core/graphs/host_actors.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

class SyntheticData {
 public:
  // Keeps no more than `room`; what is beyond it is drawn anew in every step.
  SyntheticData(std::uint64_t seed, Bytes room) : seed_(seed), room_(room) {}

  // Dim 0 of an input counts samples. Integers lie below the input's `limit`, or are 0 and 1
  // without one; u8 is any byte, reals are normal. What a rank holds is drawn once and copied from
  // then on, where the device keeps it not even that. Any thread. Throws Error(kBadInput) for a
  // type that is neither u8, f32, f64, i32 nor i64.
  void fill(const HostAct& act);
  Bytes kept() const;

 private:
  struct Part {
    std::once_flag drawn;
    std::vector<std::byte> bytes;
  };
  // An input, and in numbers its type, range, samples and box: equal keys hold equal values.
  using Key = std::pair<std::string, std::vector<std::int64_t>>;

  // Nothing where there is no room for one more.
  Part* part_of(Key key, Bytes size);

  const std::uint64_t seed_;
  const Bytes room_;
  mutable std::mutex mutex_;  // of the table, not of the parts
  std::map<Key, Part> parts_;
  Bytes kept_;
};

}  // namespace sextant
