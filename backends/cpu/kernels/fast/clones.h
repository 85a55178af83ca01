// Loops that the compiler writes once per generation of processors and chooses from when the
// program starts: distributions compile for one without AVX.
#pragma once

#include <cstddef>  // which C library this is

// For functions of plain loops over arrays, not templates. What such a loop calls must be
// SEXTANT_INLINE, or it is compiled for the oldest processor. Sanitizers instrument the choice,
// which runs before they do. GCC 12 is the first that knows the levels, and the choice is the
// loader's of glibc.
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__x86_64__) && \
    defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SEXTANT_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define SEXTANT_CLONES
#endif

#define SEXTANT_INLINE inline __attribute__((always_inline))
