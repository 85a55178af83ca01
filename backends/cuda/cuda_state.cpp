// First contents: normal numbers cost 40 ns each, so all cores draw them: 1.5 billion in seconds.
// What is zero, as most optimizer state, is never on the host.
#include "backends/cuda/cuda_state.h"

#include "backends/cuda/cuda_check.h"
#include "core/base/check.h"
#include "core/base/parallel.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
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
    case DType::kU8:
      fail(ErrorCode::kInternal, "no state has 8 bits");
  }
}

// By place on the card.
void CudaStateCopies::lay_out(const std::vector<Place>& places) {
  constexpr std::int64_t kWorthACopy = 4096;  // a copy costs as much as so many bytes
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return places[a].on_card < places[b].on_card; });
  offsets_.resize(places.size());
  for (const std::size_t i : order) {
    const Place& place = places[i];
    const std::int64_t from_last =
        pieces_.empty() ? kWorthACopy : place.on_card - pieces_.back().on_card;
    if (pieces_.empty() || from_last - pieces_.back().bytes >= kWorthACopy) {
      pieces_.push_back({place.on_card, size_, 0});
    }
    Piece& piece = pieces_.back();
    const std::int64_t offset = place.on_card - piece.on_card;
    offsets_[i] = piece.on_host + offset;
    piece.bytes = std::max(piece.bytes, offset + place.size.value);
    size_ = std::max(size_, aligned(piece.on_host + piece.bytes));
  }
}

CudaStateCopies::CudaStateCopies(int device, const std::vector<Place>& places) : device_(device) {
  lay_out(places);
  SEXTANT_CUDA(cudaSetDevice(device_));
  SEXTANT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  SEXTANT_CUDA(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
  SEXTANT_CUDA(cudaEventRecord(copied_, stream_));
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(size_, 1));
  const cudaError_t status =
      cudaHostAlloc(reinterpret_cast<void**>(&host_), size, cudaHostAllocDefault);
  require(status == cudaSuccess, ErrorCode::kDevice,
          "copies of states for checkpoints take {} of pinned memory, and the host gives none: {}",
          to_text(Bytes(size_)), cudaGetErrorString(status));
  for (std::size_t i = 0; i < places.size(); ++i)
    states_.emplace_back(host_ + offsets_[i], static_cast<std::size_t>(places[i].size.value));
}

CudaStateCopies::~CudaStateCopies() {
  cudaSetDevice(device_);
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (copied_ != nullptr) cudaEventDestroy(copied_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  cudaFreeHost(host_);
}

void CudaStateCopies::begin() {
  SEXTANT_CUDA(cudaSetDevice(device_));
  for (const Piece& piece : pieces_)
    SEXTANT_CUDA(cudaMemcpyAsync(host_ + piece.on_host, piece.on_card,
                                 static_cast<std::size_t>(piece.bytes), cudaMemcpyDefault,
                                 stream_));
  SEXTANT_CUDA(cudaEventRecord(copied_, stream_));
}

void CudaStateCopies::wait() {
  SEXTANT_CUDA(cudaSetDevice(device_));
  SEXTANT_CUDA(cudaEventSynchronize(copied_));
}

}  // namespace sextant
