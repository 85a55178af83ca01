// What one sender sent, in the order in which it was sent, whatever order it came in and however
// often. The sender numbers its messages 0, 1, 2, ...
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace sextant {

template <typename Item>
class ArrivalOrder {
 public:
  // What came under this number; dropped where that number has come before.
  void put(std::uint64_t number, Item item) {
    if (number < next_ || !waiting_.try_emplace(number, std::move(item)).second) {
      ++repeated_;
      return;
    }
    if (number != next_) ++early_;
  }
  // The next one of the sender's order; nothing: it has not come.
  std::optional<Item> take() {
    const auto due = waiting_.find(next_);
    if (due == waiting_.end()) return std::nullopt;
    std::optional<Item> item(std::move(due->second));
    waiting_.erase(due);
    ++next_;
    return item;
  }

  std::int64_t early() const { return early_; }        // came before one that was sent before it
  std::int64_t repeated() const { return repeated_; }  // came once more
  bool is_waiting() const { return !waiting_.empty(); }

 private:
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Item> waiting_;
  std::int64_t early_ = 0, repeated_ = 0;
};

}  // namespace sextant
