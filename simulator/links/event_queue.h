// Events in (time, sequence) order. A heap of four children per node: half the levels of a binary
// one, and the children of a node share a cache line or two.
#pragma once

#include "core/base/units.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sextant {

template <typename Payload>
class EventQueue {
 public:
  struct Event {
    Time time;
    std::int64_t sequence = 0;  // events of equal times come in the order they were pushed
    Payload payload = {};
  };

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const Event& top() const { return heap_.front(); }

  void push(Time time, Payload payload) {
    heap_.push_back({time, next_sequence_++, payload});
    rise(heap_.size() - 1);
  }

  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

 private:
  static constexpr std::size_t kChildren = 4;

  static bool comes_before(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
  }

  void rise(std::size_t at) {
    const Event event = heap_[at];
    while (at > 0) {
      const std::size_t parent = (at - 1) / kChildren;
      if (!comes_before(event, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  // Puts `event` at the root and down to its place.
  void sink(const Event& event) {
    std::size_t at = 0;
    for (;;) {
      const std::size_t first = at * kChildren + 1;
      if (first >= heap_.size()) break;
      std::size_t least = first;
      const std::size_t end = std::min(first + kChildren, heap_.size());
      for (std::size_t child = first + 1; child < end; ++child)
        if (comes_before(heap_[child], heap_[least])) least = child;
      if (!comes_before(heap_[least], event)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = event;
  }

  std::vector<Event> heap_;
  std::int64_t next_sequence_ = 0;
};

}  // namespace sextant
