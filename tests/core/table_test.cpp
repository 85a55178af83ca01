// Tables by id and by enum: who may index them, and that ids and positions agree.
#include "core/base/table.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::table_test {
namespace {

using ShelfId = Id<struct ShelfTag>;
using BookId = Id<struct BookTag>;
enum class Colour : std::uint8_t { kRed, kGreen, kBlue };

template <typename Table, typename Key>
concept IndexedBy = requires(Table table, Key key) {
  table[key];
};

TEST_CASE("a table takes its own kind of key and no other") {
  using Shelves = Table<ShelfId, std::string>;
  static_assert(IndexedBy<Shelves, ShelfId>);
  static_assert(!IndexedBy<Shelves, BookId>);
  static_assert(!IndexedBy<Shelves, int>);
  static_assert(!IndexedBy<Shelves, std::size_t>);
  using Paints = FixedTable<Colour, int, 3>;
  static_assert(IndexedBy<Paints, Colour>);
  static_assert(!IndexedBy<Paints, int>);
  static_assert(!IndexedBy<Paints, ShelfId>);
  // The value inside is all there is: a table is as large as its vector or array.
  static_assert(sizeof(Shelves) == sizeof(std::vector<std::string>));
  static_assert(sizeof(Paints) == 3 * sizeof(int));
}

TEST_CASE("the key that adding says finds the value again") {
  Table<ShelfId, std::string> shelves;
  const ShelfId first = shelves.add("atlases");
  const ShelfId second = shelves.add("letters");
  CHECK(first == ShelfId(0));
  CHECK(shelves[first] == "atlases");
  CHECK(shelves[second] == "letters");
  CHECK(shelves.next_key() == ShelfId(2));
  shelves[first] = "maps";
  CHECK(shelves.front() == "maps");
}

TEST_CASE("the keys of a table are all its places in order") {
  const Table<ShelfId, int> pages = {10, 20, 30};
  std::vector<int> seen;
  for (const ShelfId shelf : pages.keys()) seen.push_back(shelf.value * 100 + pages[shelf]);
  CHECK(seen == std::vector<int>{10, 120, 230});
  CHECK(pages.keys().size() == 3);
  CHECK(Table<ShelfId, int>().keys().empty());
}

TEST_CASE("no value belongs to none, to an id behind the last, or to one before the first") {
  const Table<ShelfId, int> pages(2, 7);
  CHECK(pages.contains(ShelfId(1)));
  CHECK(!pages.contains(ShelfId(2)));
  CHECK(!pages.contains(ShelfId::none));
  CHECK(!ShelfId::none.is_valid());
  CHECK(ShelfId() == ShelfId::none);
  CHECK(ShelfId::none < ShelfId(0));
  CHECK(!pages.contains(ShelfId(-2)));
}

TEST_CASE("a range holds the ids from its first to the one before its end") {
  std::vector<int> seen;
  for (const BookId book : Range(BookId(3), BookId(3).plus(2))) seen.push_back(book.value);
  CHECK(seen == std::vector<int>{3, 4});
  CHECK(Range(BookId(3), BookId(3)).empty());
  BookId next(4);
  CHECK(++next == BookId(5));
}

TEST_CASE("in texts an id is its number") {
  CHECK(fmt::format("shelf {}, book {}", ShelfId(12), BookId::none) == "shelf 12, book -1");
}

TEST_CASE("a table of bits gives and takes single ones") {
  Table<ShelfId, bool> is_full(3, false);
  is_full[ShelfId(1)] = true;
  CHECK(!is_full[ShelfId(0)]);
  CHECK(is_full[ShelfId(1)]);
}

TEST_CASE("a fixed table has a value for each value of its enum from the start") {
  FixedTable<Colour, int, 3> litres;
  CHECK(litres[Colour::kBlue] == 0);
  litres[Colour::kGreen] += 5;
  int all = 0;
  for (const Colour colour : litres.keys()) all += litres[colour];
  CHECK(all == 5);
  CHECK(FixedTable<Colour, int, 3>(9)[Colour::kRed] == 9);
  // Only what has no value of its own accord can be left without one.
  static_assert(std::constructible_from<FixedTable<Colour, int, 3>, LeaveUnset>);
  static_assert(!std::constructible_from<FixedTable<Colour, std::string, 3>, LeaveUnset>);
}

}  // namespace
}  // namespace sextant::table_test
