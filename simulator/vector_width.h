// Functions compiled for every width of vectors: the choice is made when the program starts.
// Sanitizers do not cope with functions that are chosen at load time.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SEXTANT_FOR_EACH_VECTOR_WIDTH \
  __attribute__((target_clones("default", "avx2"), optimize("O3"), flatten))
#else
#define SEXTANT_FOR_EACH_VECTOR_WIDTH
#endif
