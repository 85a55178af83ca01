// The benchmarks of this folder's *_bench.cpp files in one program; their names begin with the
// stem of their file.
#include <benchmark/benchmark.h>

BENCHMARK_MAIN();
