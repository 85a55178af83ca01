// How long whoever waits looks for a message: times and what the machine says are handed in.
#include "backends/hosts/poll_patience.h"

#include <doctest/doctest.h>

namespace sextant::poll_patience_test {

TEST_CASE("who waits looks for a while, then sleeps") {
  const PollPatience patience;
  const PollPatience::Time begin{std::chrono::milliseconds(100)};
  CHECK(patience.looks_again(begin, begin));
  const PollPatience::Time end = begin + PollPatience::kLongest;
  CHECK(patience.looks_again(begin, end - std::chrono::microseconds(1)));
  CHECK_FALSE(patience.looks_again(begin, end));
}

TEST_CASE("where more threads want to run than there are processors nobody looks") {
  PollPatience patience;
  const PollPatience::Time begin{std::chrono::milliseconds(100)};
  patience.note(3, 2);
  CHECK(patience.is_crowded());
  CHECK_FALSE(patience.looks_again(begin, begin));
  patience.note(2, 2);
  CHECK(patience.looks_again(begin, begin));
}

TEST_CASE("the kernel says how many threads want to run") {
  CHECK(runnable_threads("0.20 0.18 0.12 3/80 11206\n") == 3);
  CHECK(runnable_threads("12.20 0.18 0.12 31/4080 11206\n") == 31);
  CHECK_FALSE(runnable_threads("").has_value());
  CHECK_FALSE(runnable_threads("0.20 0.18").has_value());
  CHECK_FALSE(runnable_threads("0.20 a/80").has_value());
#ifdef __linux__
  CHECK(RunnableThreads().now().value_or(0) >= 1);
#endif
}

}  // namespace sextant::poll_patience_test
