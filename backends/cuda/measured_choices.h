// What was measured on a card and decides how kernels run, once for all ranks of a job: of several
// ways that round differently all take the same, so that copies of one value have equal bits. Ranks
// of one process share it; processes send it to each other, between equal builds on equal cards.
#pragma once

#include "actor/hosts/host_mailbox.h"
#include "backends/cuda/kernels/products/product.h"

#include <cublasLt.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>

namespace sextant {

struct ProductChoice {
  cublasLtMatmulAlgo_t algorithm{};
  double seconds = 0;  // 0: not measured
};

struct MeasuredChoices {
  // Held while a rank measures: the others wait for what it finds.
  std::mutex mutex;
  bool has_read_file = false;
  bool is_complete = false;                       // what is not known here is not measured any more
  std::map<std::string, ProductChoice> products;  // measured, here or when the file was made
  // The number of the fastest plan that a library proposes, by what the plans are for.
  std::map<std::string, std::size_t> plans;

  // Takes the mutex.
  void complete();
  HostBytes to_bytes();
  // What is known here already stays. Takes the mutex.
  void add(std::span<const std::byte> bytes);
};

}  // namespace sextant
