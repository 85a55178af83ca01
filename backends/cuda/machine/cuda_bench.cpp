// Times launches by events.
#include "backends/cuda/machine/cuda_bench.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/machine/bench_fill.h"
#include "backends/cuda/machine/bench_operands.h"
#include "core/base/check.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// Several times the second-level cache of any card (H200: 50 MB).
constexpr std::size_t kPastCaches = std::size_t{256} << 20;
constexpr int kWarmUpRuns = 3, kRuns = 20;
constexpr int kLaunches = 2000;
// The load between runs is a product of 1.5 ms on an H200, and a little memory traffic. What is
// measured follows the product, at whose clock it begins. With traffic for an eighth of the time
// attention took a tenth less than within steps.
constexpr std::int64_t kLoadExtent = 8192;
constexpr double kLoadReads = 1, kReadShare = 0.04;
constexpr double kReadSeconds = 60e-6;  // of so many bytes as are read at once, near enough
constexpr int kMostReads = 100;
constexpr int kLoadsToWarmUp = 300;

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06 ..." where there is such a file.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (std::count(word.begin(), word.end(), '.') >= 1 &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  int version = 0;
  SEXTANT_CUDA(cudaDriverGetVersion(&version));
  return "for CUDA " + cuda_version(version);
}

KernelOperand matrix(std::int64_t rows, std::int64_t columns, DType dtype) {
  KernelOperand made;
  made.local = {Shape{rows, columns}, dtype};
  made.box.dims = {{.offset = 0, .extent = rows}, {.offset = 0, .extent = columns}};
  return made;
}

// Row-major [m, k] x [k, n]; its operands lie nowhere yet.
struct LoadingProduct {
  LoadingProduct(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
    actor.kind = "matmul";
    actor.name = "product";
    call.actor = &actor;
    call.in = {matrix(m, k, dtype), matrix(k, n, dtype)};
    call.out = {matrix(m, n, dtype)};
    call.accumulate = {false};
  }
  LoadingProduct(const LoadingProduct&) = delete;
  LoadingProduct& operator=(const LoadingProduct&) = delete;

  Actor actor;
  KernelContext call;
};

// A product with memory of its own, ready to be launched again and again.
class LoadProduct {
 public:
  LoadProduct(const CudaOptions& options, const CudaKernelTable& kernels, cudaStream_t stream)
      : context_(options), memory_([stream](void* to, std::size_t bytes) {
          SEXTANT_CUDA(enqueue_fill_normal(to, bytes, stream));
        }) {
    context_.begin_step(0, stream);
    const std::size_t size = aligned_bytes(product_.call.out[0].local);
    require(memory_.reserve(3 * size), ErrorCode::kDevice, "the card has no memory to stay busy");
    product_.call.in[0].data = memory_.at(0);
    product_.call.in[1].data = memory_.at(size);
    product_.call.out[0].data = memory_.at(2 * size);
    kernels_ = kernels.make_all(std::span(&product_.call, 1), context_);
    context_.allocate_scratch();
  }
  void enqueue(cudaStream_t stream) {
    for (const auto& kernel : kernels_) kernel->enqueue(stream);
  }

 private:
  CudaContext context_;
  BenchPool memory_;
  LoadingProduct product_{kLoadExtent, kLoadExtent, kLoadExtent, DType::kBF16};
  std::vector<std::unique_ptr<CudaKernel>> kernels_;
};

}  // namespace

struct CudaBench::State {
  explicit State(const CudaOptions& given)
      : options(given), kernels(cuda_kernels()), zeros([this](void* to, std::size_t bytes) {
          SEXTANT_CUDA(cudaMemsetAsync(to, 0, bytes, stream));
        }) {
    SEXTANT_CUDA(cudaSetDevice(options.device));
    SEXTANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    operands = std::make_unique<BenchOperands>(stream);
    SEXTANT_CUDA(cudaEventCreate(&begin));
    SEXTANT_CUDA(cudaEventCreate(&end));
    require(zeros.reserve(2 * kPastCaches), ErrorCode::kDevice,
            "the card has no {} of memory to measure with",
            to_text(Bytes(static_cast<std::int64_t>(2 * kPastCaches))));
    new_context();
  }
  ~State() {
    cudaEventDestroy(end);
    cudaEventDestroy(begin);
    cudaStreamDestroy(stream);
  }

  // Scratch is allocated once per context, so every launch that is measured has its own.
  void new_context() {
    context.reset();
    context = std::make_unique<CudaContext>(options);
    context->begin_step(0, stream);
  }
  void past_caches() {
    SEXTANT_CUDA(enqueue_read(zeros.at(0), kPastCaches,
                              reinterpret_cast<std::uint32_t*>(zeros.at(kPastCaches)), stream));
  }
  // Before a run of about so many seconds whose operands are in no cache.
  void work_between(double seconds) {
    const double reads = load ? kLoadReads + kReadShare * seconds / kReadSeconds : 1;
    for (int i = 0; i < std::min(static_cast<int>(reads), kMostReads); ++i) past_caches();
    if (load) load->enqueue(stream);
  }
  double seconds_of(const std::function<void()>& work) {
    SEXTANT_CUDA(cudaEventRecord(begin, stream));
    work();
    SEXTANT_CUDA(cudaEventRecord(end, stream));
    SEXTANT_CUDA(cudaEventSynchronize(end));
    float milliseconds = 0;
    SEXTANT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    return static_cast<double>(milliseconds) * 1e-3;
  }
  KernelTiming repeat(int runs, bool is_cold, const std::function<void()>& work) {
    std::vector<double> seconds;
    double once = 0;
    for (int run = 0; run < kWarmUpRuns + runs; ++run) {
      if (is_cold) work_between(once);
      once = seconds_of(work);
      if (run >= kWarmUpRuns) seconds.push_back(once);
    }
    return timing_of(std::move(seconds));
  }

  CudaOptions options;
  CudaKernelTable kernels;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  std::unique_ptr<CudaContext> context;
  std::unique_ptr<LoadProduct> load;  // none: the device rests between runs
  std::unique_ptr<BenchOperands> operands;
  BenchPool zeros;
};

CudaBench::CudaBench(const CudaOptions& options) {
  require(num_cuda_devices() > 0, ErrorCode::kDevice, "no GPU to measure: {}",
          why_no_cuda_device());
  state_ = std::make_unique<State>(options);
}

CudaBench::~CudaBench() = default;

CudaCard CudaBench::card() const {
  CudaCard card;
  card.name = cuda_device_name(state_->options.device);
  card.driver = driver_version();
  int version = 0, clock_khz = 0;
  SEXTANT_CUDA(cudaRuntimeGetVersion(&version));
  card.runtime = cuda_version(version);
  SEXTANT_CUDA(cudaDeviceGetAttribute(&card.multiprocessors, cudaDevAttrMultiProcessorCount,
                                      state_->options.device));
  SEXTANT_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, state_->options.device));
  card.clock_hz = 1e3 * clock_khz;
  std::size_t free = 0, total = 0;
  SEXTANT_CUDA(cudaMemGetInfo(&free, &total));
  card.memory = Bytes(static_cast<std::int64_t>(total));
  return card;
}

KernelTiming CudaBench::copy(Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes.value);
  require(state_->operands->inputs().reserve(size) && state_->operands->outputs().reserve(size),
          ErrorCode::kDevice, "the card has no memory to copy {}", to_text(bytes));
  return state_->repeat(kRuns, true, [&] {
    SEXTANT_CUDA(cudaMemcpyAsync(state_->operands->outputs().at(0),
                                 state_->operands->inputs().at(0), size, cudaMemcpyDeviceToDevice,
                                 state_->stream));
  });
}

KernelTiming CudaBench::matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  const LoadingProduct product(m, n, k, dtype);
  const auto timing = time(std::span(&product.call, 1), false);
  require(timing.has_value(), ErrorCode::kDevice, "no product {}x{}x{} in {}", m, n, k,
          to_string(dtype));
  return *timing;
}

double CudaBench::launch_s() {
  const auto launch = [this] { SEXTANT_CUDA(enqueue_nothing(state_->stream)); };
  for (int i = 0; i < kLaunches; ++i) launch();
  SEXTANT_CUDA(cudaStreamSynchronize(state_->stream));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) launch();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  SEXTANT_CUDA(cudaStreamSynchronize(state_->stream));
  return spent.count() / kLaunches;
}

// A graph of empty kernels: what is left between two of them when the host is no limit.
double CudaBench::kernel_overhead_s() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  SEXTANT_CUDA(cudaStreamBeginCapture(state_->stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kLaunches; ++i) SEXTANT_CUDA(enqueue_nothing(state_->stream));
  SEXTANT_CUDA(cudaStreamEndCapture(state_->stream, &graph));
  SEXTANT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  const KernelTiming timing =
      state_->repeat(10, false, [&] { SEXTANT_CUDA(cudaGraphLaunch(executable, state_->stream)); });
  SEXTANT_CUDA(cudaGraphExecDestroy(executable));
  SEXTANT_CUDA(cudaGraphDestroy(graph));
  return timing.median_s / kLaunches;
}

void CudaBench::keep_busy() {
  if (state_->load) return;
  state_->load = std::make_unique<LoadProduct>(state_->options, state_->kernels, state_->stream);
  for (int i = 0; i < kLoadsToWarmUp; ++i) state_->work_between(0);
  SEXTANT_CUDA(cudaStreamSynchronize(state_->stream));
}

void CudaBench::set_id_limit(std::int64_t limit) {
  require(limit > 0, ErrorCode::kUsage, "ids below {}: wanted a positive limit", limit);
  state_->operands->set_id_limit(limit);
}

bool CudaBench::go_together(std::string_view kind) const { return state_->kernels.has_many(kind); }

bool CudaBench::has_kernel(std::string_view kind) const {
  const std::vector<std::string> kinds = state_->kernels.kinds();
  return std::binary_search(kinds.begin(), kinds.end(), kind);
}

std::optional<KernelTiming> CudaBench::time(std::span<const KernelContext> calls) {
  return time(calls, true);
}

std::optional<KernelTiming> CudaBench::time(std::span<const KernelContext> calls, bool is_cold) {
  std::vector<KernelContext> placed(calls.begin(), calls.end());
  if (!state_->operands->place(placed)) return std::nullopt;
  state_->new_context();
  std::vector<std::unique_ptr<CudaKernel>> kernels;
  try {
    kernels = state_->kernels.make_all(placed, *state_->context);
  } catch (const NoCudaKernel&) {
    return std::nullopt;
  }
  state_->context->allocate_scratch();
  const KernelTiming timing = state_->repeat(kRuns, is_cold, [&] {
    for (const auto& kernel : kernels) kernel->enqueue(state_->stream);
  });
  if (const auto fault = state_->context->fault()) fail(ErrorCode::kDevice, "{}", *fault);
  return timing;
}

}  // namespace sextant
