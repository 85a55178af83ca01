// Which of cuBLASLt's algorithms a product uses: the first one that its heuristic names, or the
// fastest of those it names, measured on this card. A choice is made once per kind of product and
// kept, in memory and, where the user gives a path, in a file.
#pragma once

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/kernels/products/product.h"
#include "backends/cuda/kernels/products/product_measure.h"
#include "backends/cuda/measured_choices.h"

#include <memory>
#include <optional>
#include <string>

namespace sextant {

struct BatchChoice {
  ProductChoice choice;
  BatchTimes times;
};

class ProductChoices {
 public:
  // Reads the file if there is one. Throws Error(kBadInput) when it is something else; one of
  // another card, of another cuBLASLt or of another version of Sextant is told and not used.
  explicit ProductChoices(const CudaOptions& options);

  // Nothing: no algorithm, or measured to be slower than the members of the fused operator apart.
  // Measures where the options say so, on memory of its own, taken and given back here: what
  // `call` points to is not touched. With `deterministic` nothing is measured or read from a file,
  // and the work of one product is never split along k.
  std::optional<ProductChoice> of(const ProductCall& call, CudaContext& device);
  // Of `batch`, not packed, with its time and that of as many calls like `each`, measured in turn.
  // Nothing where one of them has no algorithm or nothing is measured.
  std::optional<BatchChoice> of_batch(const ProductCall& batch, const ProductCall& each,
                                      CudaContext& device);
  // What the members behind the product of a call take if they run one by one, as modelled: at 80 %
  // of the memory's bandwidth, and 2 us to start and end one, 6 us one that sums in two stages.
  double seconds_of_members(const ProductCall& call) const;

 private:
  // These two with the mutex of the choices held.
  std::optional<ProductChoice> measured(const ProductCall& call, CudaContext& device);
  std::optional<ProductChoice> known(const ProductCall& call, CudaContext& device) const;
  bool pays(const ProductCall& call, const ProductChoice& choice, CudaContext& device);
  std::optional<BatchTimes> measured_times(const ProductCall& batch, const ProductChoice& choice,
                                           const ProductCall& each, const ProductChoice& alone,
                                           CudaContext& device);
  void tell(const std::string& text) const;
  void read_file();
  void write_file() const;

  const CudaOptions options_;
  const bool measures_;
  std::string card_;
  double bytes_per_second_ = 0;  // of memory, at its clock
  const std::shared_ptr<MeasuredChoices> choices_;
};

}  // namespace sextant
