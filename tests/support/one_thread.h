// For cases of one thread that take long: TEST_CASE("..." * doctest::skip(kSkipsOneThread)). Under
// the thread sanitizer they take ten times as long and can show nothing.
#pragma once

namespace sextant::testing {

#if defined(__SANITIZE_THREAD__)
constexpr bool kSkipsOneThread = true;
#else
constexpr bool kSkipsOneThread = false;
#endif

}  // namespace sextant::testing
