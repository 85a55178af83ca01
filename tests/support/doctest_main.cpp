// The `main` of every test program; compiled once, because the doctest implementation is the slow part of it.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
