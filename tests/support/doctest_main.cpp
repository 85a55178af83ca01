// The `main` of every test program; compiled once, because the implementation is the slow part of
// doctest.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
