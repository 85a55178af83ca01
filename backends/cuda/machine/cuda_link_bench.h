// Measures what cards of one machine send each other by NCCL, and what that and computation do to
// each other. Without CUDA headers.
#pragma once

#include "actor/calls/link_timer.h"
#include "backends/cuda/cuda_backend.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

// A rank per card, each with a launch thread that enqueues single calls as ranks of a run do: small
// communications are bound by that.
class CudaLinkBench final : public LinkTimer {
 public:
  // `most` is the largest tensor. Throws Error(kDevice) without NCCL or a card, Error(kUsage) for
  // fewer than two.
  CudaLinkBench(const std::vector<int>& gpus, const CudaOptions& each, Bytes most);
  ~CudaLinkBench() override;
  CudaLinkBench(const CudaLinkBench&) = delete;
  CudaLinkBench& operator=(const CudaLinkBench&) = delete;

  std::int64_t ranks() const override;
  LinkSetting usual(Primitive primitive) const override;
  double time(Primitive primitive, Bytes global_bytes, const LinkSetting& setting) override;
  std::optional<BesideTiming> beside(Primitive primitive, Bytes global_bytes,
                                     std::span<const KernelContext> calls) override;

 private:
  struct State;  // keeps CUDA's headers out of this one
  std::unique_ptr<State> state_;
};

}  // namespace sextant
