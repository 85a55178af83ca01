// What comes first, and what layers and plans teach of it.
#include "search/search/search_order.h"

#include "compiler/strategy/strategy.h"
#include "search/search/search.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

namespace sextant::search_order_test {
namespace {

constexpr Bytes kRoom(1000), kCapacity(1100);

Duration seconds(double value) { return duration_from_seconds(value); }

OpenNode leaf(const std::string& strategy, double guessed, std::optional<double> with_layers = {},
              double outside = 0) {
  OpenNode open;
  open.node = {Level::kPieces, parse_strategy(strategy)};
  open.guess = {.seconds = guessed, .bytes = 500, .outside = outside};
  if (with_layers) open.with_layers = seconds(*with_layers);
  return open;
}

Candidate plan(const OpenNode& of, double step, Bytes needed = Bytes(600)) {
  Candidate candidate;
  candidate.strategy = of.node.strategy;
  candidate.step_time = seconds(step);
  candidate.peak_memory = needed - (kCapacity - kRoom);
  candidate.needed_memory = needed;
  candidate.capacity = kCapacity;
  return candidate;
}

double key(const SearchOrder& order, const OpenNode& open) { return order.key_of(open, kRoom); }

TEST_CASE("a leaf whose layers are known comes by them and by what is outside of them") {
  SearchOrder order;
  // A guess of 5 s that is far too low: layers say 8, transfers 1.
  const OpenNode known = leaf("tp=4", 5, 8, 1), other = leaf("tp=8", 6);
  CHECK(key(order, known) == doctest::Approx(9));
  CHECK(key(order, other) == doctest::Approx(6));
  // A plan of it takes 10 % more: so do leaves of all meshes by their layers; guesses double.
  order.learn(known, plan(known, 9.9), kRoom);
  CHECK(key(order, known) == doctest::Approx(9.9));
  CHECK(key(order, leaf("tp=8", 5, 4)) == doctest::Approx(4.4));
  CHECK(key(order, other) == doctest::Approx(6 * 9.9 / 5));
  // The mesh's own plans count before those of others.
  const OpenNode of_tp8 = leaf("tp=8", 6, 10);
  order.learn(of_tp8, plan(of_tp8, 13), kRoom);
  CHECK(key(order, leaf("tp=8", 5, 4)) == doctest::Approx(5.2));
  CHECK(key(order, known) == doctest::Approx(9.9));
}

TEST_CASE("before there is a plan, layers say how much too low guesses are") {
  SearchOrder order;
  order.note_layers(leaf("tp=4", 5, 15));
  // Half of the way from 1 to 3.
  CHECK(key(order, leaf("tp=8", 6)) == doctest::Approx(12));
  // More leaves of one mesh say nothing of others, but of their own mesh.
  order.note_layers(leaf("tp=4", 5, 15));
  CHECK(key(order, leaf("tp=4", 6)) == doctest::Approx(6 * 2.5));
  CHECK(key(order, leaf("tp=8", 6)) == doctest::Approx(12));
  // What one mesh has in excess of its guess and another one has not is the first one's own.
  order.note_layers(leaf("tp=8", 6, 3));
  CHECK(key(order, leaf("tp=8", 6)) == doctest::Approx(6));
  CHECK(key(order, leaf("tp=2", 6)) == doctest::Approx(6));
  CHECK(key(order, leaf("tp=4", 6)) == doctest::Approx(6 * 2.5));
  const OpenNode compiled = leaf("tp=2", 10, 10);
  order.learn(compiled, plan(compiled, 11), kRoom);
  order.note_layers(leaf("tp=8", 1, 30));
  CHECK(key(order, leaf("tp=8", 10)) == doctest::Approx(11));
  CHECK(key(order, leaf("tp=4", 10)) == doctest::Approx(11));
}

TEST_CASE("communicators of plans are part of what a guess of memory errs by") {
  SearchOrder order;
  // 500 bytes were guessed; 560 are taken of a room of 1000, beside libraries of 100.
  const OpenNode compiled = leaf("tp=2", 10);
  CHECK(order.promise_of(compiled).bytes == doctest::Approx(500 * 1.05));
  order.learn(compiled, plan(compiled, 10, Bytes(660)), kRoom);
  CHECK(order.promise_of(compiled).bytes == doctest::Approx(560));
}

}  // namespace
}  // namespace sextant::search_order_test
