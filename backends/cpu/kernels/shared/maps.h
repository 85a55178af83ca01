// Reference kernels that compute every element of the output from the elements of the inputs at the
// same place, in double. Inputs may stretch: an extent of 1, or a missing leading dim, repeats.
#pragma once

#include "backends/cpu/kernels/shared/reference.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sextant {

// Where an operand's element for the i-th element of the output lies.
class StretchedIndex {
 public:
  StretchedIndex(const Shape& operand, const Shape& output) : is_whole_(operand == output) {
    const std::size_t missing = output.rank() - operand.rank();
    std::int64_t stride = 1;
    for (std::size_t dim = output.rank(); dim-- > 0;) {
      const std::int64_t own = dim < missing ? 1 : operand[dim - missing];
      dims_.push_back({.extent = output[dim], .stride = own == 1 ? 0 : stride});
      stride *= own;
    }
  }

  std::size_t operator[](std::size_t i) const {
    if (is_whole_) return i;
    std::int64_t rest = static_cast<std::int64_t>(i), at = 0;
    for (const Dim& dim : dims_) {
      at += rest % dim.extent * dim.stride;
      rest /= dim.extent;
    }
    return static_cast<std::size_t>(at);
  }

 private:
  struct Dim {
    std::int64_t extent = 0, stride = 0;
  };
  bool is_whole_;
  std::vector<Dim> dims_;  // last first
};

namespace maps_detail {

struct Operand {
  Values values;
  StretchedIndex index;
  double operator[](std::size_t i) const { return values[index[i]]; }
};

template <typename Function, std::size_t... kInputs>
void map_inputs(const KernelContext& context, Workspace& workspace, const Function& function,
                std::index_sequence<kInputs...>) {
  const Shape& shape = context.out[0].local.shape;
  const std::array<Operand, sizeof...(kInputs)> in = {
      Operand{load_input(context, kInputs, workspace),
              StretchedIndex(context.in[kInputs].local.shape, shape)}...};
  const Output y(context, 0);
  for (std::size_t i = 0; i < y.size(); ++i) y.put(i, function(in[kInputs][i]...));
}

}  // namespace maps_detail

// y = function(inputs...) for a function of `kInputs` doubles.
template <std::size_t kInputs, typename Function>
void map_elements(const KernelContext& context, Workspace& workspace, const Function& function) {
  maps_detail::map_inputs(context, workspace, function, std::make_index_sequence<kInputs>());
}

// The same as a kernel, for functions without attributes.
template <double (*kFunction)(double)>
void unary(const KernelContext& context, Workspace& workspace) {
  map_elements<1>(context, workspace, kFunction);
}

template <double (*kFunction)(double, double)>
void binary(const KernelContext& context, Workspace& workspace) {
  map_elements<2>(context, workspace, kFunction);
}

template <double (*kFunction)(double, double, double)>
void ternary(const KernelContext& context, Workspace& workspace) {
  map_elements<3>(context, workspace, kFunction);
}

}  // namespace sextant
