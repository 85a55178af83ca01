// Normal numbers cost 40 ns each, so all cores draw them: 1.5 billion in seconds. What is zero, as
// most optimizer state, is never on the host.
#include "backends/cuda/cuda_state.h"

#include "backends/cuda/cuda_check.h"
#include "core/base/check.h"
#include "core/base/parallel.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace sextant {
namespace {

constexpr std::int64_t kPiece = 1 << 16;   // elements that one thread draws at a time
constexpr std::int64_t kUpload = 1 << 26;  // elements on the host at a time

// 16-bit formats round from float, as on the CPU.
template <typename Element>
Element element(double value) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16> || std::is_same_v<Element, __half>)
    return Element(static_cast<float>(value));
  else if constexpr (std::is_same_v<Element, bool>)
    return value != 0.0;
  else
    return static_cast<Element>(value);
}

template <typename Element>
void draw(const InitialContents& contents, std::int64_t first, std::int64_t count, Element* to) {
  const auto pieces = static_cast<std::size_t>((count + kPiece - 1) / kPiece);
  for_each_in_parallel(pieces, [&](std::size_t piece) {
    const std::int64_t begin = static_cast<std::int64_t>(piece) * kPiece;
    std::vector<double> values(static_cast<std::size_t>(std::min(kPiece, count - begin)));
    contents.fill(first + begin, values);
    std::transform(values.begin(), values.end(), to + begin, element<Element>);
  });
}

template <typename Element>
void fill(const InitialContents& contents, std::byte* destination) {
  const std::int64_t elements = contents.elements();
  const auto size = static_cast<std::int64_t>(sizeof(Element));
  const auto on_host =
      std::make_unique<Element[]>(static_cast<std::size_t>(std::min(elements, kUpload)));
  for (std::int64_t first = 0; first < elements; first += kUpload) {
    const std::int64_t count = std::min(kUpload, elements - first);
    draw(contents, first, count, on_host.get());
    SEXTANT_CUDA(cudaMemcpy(destination + first * size, on_host.get(),
                            static_cast<std::size_t>(count * size), cudaMemcpyDefault));
  }
}

}  // namespace

void fill_on_device(const InitialContents& contents, DType dtype, std::byte* destination) {
  if (contents.elements() == 0) return;
  if (contents.constant() == 0.0) {
    const Bytes size = size_of(TensorType{Shape{contents.elements()}, dtype});
    SEXTANT_CUDA(cudaMemset(destination, 0, static_cast<std::size_t>(size.value)));
    return;
  }
  switch (dtype) {
    case DType::kF64:
      return fill<double>(contents, destination);
    case DType::kF32:
      return fill<float>(contents, destination);
    case DType::kBF16:
      return fill<__nv_bfloat16>(contents, destination);
    case DType::kF16:
      return fill<__half>(contents, destination);
    case DType::kI64:
      return fill<std::int64_t>(contents, destination);
    case DType::kI32:
      return fill<std::int32_t>(contents, destination);
    case DType::kBool:
      return fill<bool>(contents, destination);
    case DType::kE4M3:
    case DType::kE5M2:
      fail(ErrorCode::kInternal, "no state has 8 bits");
  }
}

}  // namespace sextant
