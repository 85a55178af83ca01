// Products of equal sizes in one call of cuBLASLt against the exact results. Factors and what is
// added are multiples of 1/4 below 1, so all sums are exact in f32 and a result is rounded once.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/shared/noise.h"
#include "backends/cuda/kernels/shared/stopwatch.h"
#include "backends/cuda/measured_choices.h"
#include "core/base/elements.h"
#include "core/base/quantile.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::products_together_test {
namespace {

using Source = ActorMember::Operand::Source;
using Values = std::vector<double>;

Values rounded(const Values& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype).value));
  store_from_double(dtype, values, bytes.data());
  Values result(values.size());
  load_as_double(dtype, bytes.data(), result);
  return result;
}

// Device memory that is handed out at multiples of 256, in order.
class Slab {
 public:
  explicit Slab(std::size_t bytes) : bytes_(bytes) {
    SEXTANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), bytes));
  }
  ~Slab() { cudaFree(data_); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  std::byte* take(std::size_t bytes) {
    std::byte* const taken = data_ + used_;
    used_ += (bytes + 255) / 256 * 256;
    REQUIRE(used_ <= bytes_);
    return taken;
  }

 private:
  const std::size_t bytes_;
  std::byte* data_ = nullptr;
  std::size_t used_ = 0;
};

class Tensor {
 public:
  Tensor(TensorType type, int salt, Slab& slab)
      : type_(std::move(type)), device_(slab.take(bytes())) {
    const auto count = static_cast<std::uint64_t>(type_.shape.elements());
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t mixed = i * 2654435761U + i / 7 + 97U * static_cast<std::uint64_t>(salt);
      values_.push_back(0.25 * (static_cast<double>(mixed % 1009 % 7) - 3));
    }
    reset();
  }
  Tensor(TensorType type, Slab& slab) : type_(std::move(type)), device_(slab.take(bytes())) {
    SEXTANT_CUDA(enqueue_noise({device_, type_.dtype, type_.shape.elements()}, nullptr));
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const Values& values() const { return values_; }
  double at(std::int64_t index) const { return values_[static_cast<std::size_t>(index)]; }
  void reset() {
    std::vector<std::byte> stored(bytes());
    store_from_double(type_.dtype, values_, stored.data());
    SEXTANT_CUDA(cudaMemcpy(device_, stored.data(), bytes(), cudaMemcpyHostToDevice));
  }
  Values on_device() const {
    std::vector<std::byte> stored(bytes());
    SEXTANT_CUDA(cudaDeviceSynchronize());
    SEXTANT_CUDA(cudaMemcpy(stored.data(), device_, bytes(), cudaMemcpyDeviceToHost));
    Values result(values_.size());
    load_as_double(type_.dtype, stored.data(), result);
    return result;
  }
  KernelOperand operand() const {
    KernelOperand operand;
    operand.data = device_;
    operand.local = type_;
    return operand;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(size_of(type_).value); }

  TensorType type_;
  Values values_;
  std::byte* const device_;
};

struct Sizes {
  std::int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{128, 64, 96}, {256, 128, 512}, {65, 33, 129}, {7, 40, 24}};

// Operands of calls lie at equal distances, or each call has more behind it than the one before.
enum class Lie : std::uint8_t { kRegular, kAnywhere };

std::string name_of(const std::string& kind, Lie lie) {
  return kind + (lie == Lie::kRegular ? " at equal distances" : " anywhere");
}

// Calls that share their first input, with what they must give.
class Calls {
 public:
  // Blank: operands are noise, and nothing is known of results; for times.
  Calls(std::string kind, Lie lie, bool is_blank = false)
      : kind_(std::move(kind)),
        lie_(lie),
        is_blank_(is_blank),
        slab_(std::size_t{is_blank ? 512U : 64U} << 20) {}

  // y = x w (+ b).
  void add_matmuls(const Sizes& sizes, std::size_t count, bool transposed) {
    const auto& [m, n, k] = sizes;
    const DType half = DType::kBF16;
    const Tensor& x = tensor({{m, k}, half});
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor& w = tensor({transposed ? Shape{n, k} : Shape{k, n}, half});
      const Tensor& b = tensor({{n}, half});
      const Tensor& y = tensor({{m, n}, half});
      Values expected;
      for (std::int64_t row = 0; row < m && !is_blank_; ++row)
        for (std::int64_t column = 0; column < n; ++column) {
          double sum = kind_ == "matmul_bias" ? b.at(column) : 0;
          for (std::int64_t l = 0; l < k; ++l)
            sum += x.at(row * k + l) * w.at(transposed ? column * k + l : l * n + column);
          expected.push_back(sum);
        }
      expect(y, rounded(expected, half));
      const Attributes attributes{{"transpose_w", transposed}};
      if (kind_ == "matmul") {
        add({&x, &w}, {&y}, false).attributes = attributes;
        continue;
      }
      Actor& actor = add({&x, &w, &b}, {&y}, false);
      const ActorMember::Operand made{Source::kInner, 0};
      actor.inner.push_back({"inner", LayoutId(), y.operand().local});
      actor.members = {
          {"matmul", "member", attributes, {{Source::kInput, 0}, {Source::kInput, 1}}, {made}},
          {"bias_add", "member", {}, {made, {Source::kInput, 2}}, {{Source::kOutput, 0}}}};
    }
  }

  // dw (+)= x^T dy and db (+)= the sums of dy, in f32.
  void add_gradients(const Sizes& sizes, std::size_t count, bool transposed, bool accumulates) {
    const auto& [n, k, rows] = sizes;
    const Tensor& x = tensor({{rows, k}, DType::kBF16});
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor& dy = tensor({{rows, n}, DType::kBF16});
      const Tensor& dw = tensor({transposed ? Shape{n, k} : Shape{k, n}, DType::kF32});
      const Tensor& db = tensor({{n}, DType::kF32});
      Values weight;
      for (std::int64_t at = 0; at < k * n && !is_blank_; ++at) {
        const std::int64_t a = transposed ? at % k : at / n, b = transposed ? at / k : at % n;
        double sum = accumulates ? dw.at(at) : 0;
        for (std::int64_t row = 0; row < rows; ++row) sum += x.at(row * k + a) * dy.at(row * n + b);
        weight.push_back(sum);
      }
      expect(dw, weight);
      const Attributes attributes{{"transpose_w", transposed}};
      if (kind_ == "matmul_grad_weight") {
        add({&x, &dy}, {&dw}, accumulates).attributes = attributes;
        continue;
      }
      expect(db, sums_of(dy, rows, n, accumulates ? &db : nullptr));
      add({&x, &dy}, {&dw, &db}, accumulates).members = {
          {"matmul_grad_weight",
           "member",
           attributes,
           {{Source::kInput, 0}, {Source::kInput, 1}},
           {{Source::kOutput, 0}}},
          {"reduce_to_bias", "member", {}, {{Source::kInput, 1}}, {{Source::kOutput, 1}}}};
    }
  }

  // db (+)= the sums of dy [rows, n], in f32.
  void add_sums(std::int64_t rows, std::int64_t n, std::size_t count, bool accumulates) {
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor& dy = tensor({{rows, n}, DType::kBF16});
      const Tensor& db = tensor({{n}, DType::kF32});
      expect(db, sums_of(dy, rows, n, accumulates ? &db : nullptr));
      add({&dy}, {&db}, accumulates);
    }
  }

  // Of the calls that are added from here on.
  void set_kind(std::string kind) { kind_ = std::move(kind); }
  std::span<const KernelContext> contexts() const { return contexts_; }

  // Three times, as a step that is replayed does not reset anything but what accumulates.
  bool gives_expected(CudaKernel& kernel) {
    bool is_right = true;
    for (int time = 0; time < 3; ++time) {
      for (Tensor& tensor : tensors_) tensor.reset();
      kernel.enqueue(nullptr);
      for (const auto& [tensor, values] : expected_) is_right &= tensor->on_device() == values;
    }
    return is_right;
  }

 private:
  const Tensor& tensor(TensorType type) {
    if (is_blank_) return tensors_.emplace_back(std::move(type), slab_);
    return tensors_.emplace_back(std::move(type), static_cast<int>(tensors_.size()), slab_);
  }
  void expect(const Tensor& tensor, Values values) {
    if (!is_blank_) expected_.emplace_back(&tensor, std::move(values));
  }
  // Of the columns, behind what `before` holds.
  Values sums_of(const Tensor& dy, std::int64_t rows, std::int64_t columns,
                 const Tensor* before) const {
    Values sums;
    for (std::int64_t column = 0; column < columns && !is_blank_; ++column) {
      double sum = before != nullptr ? before->at(column) : 0;
      for (std::int64_t row = 0; row < rows; ++row) sum += dy.at(row * columns + column);
      sums.push_back(sum);
    }
    return sums;
  }
  Actor& add(const std::vector<const Tensor*>& in, const std::vector<const Tensor*>& out,
             bool accumulates) {
    Actor& actor = actors_.emplace_back();
    actor.kind = kind_;
    actor.name = "call";
    KernelContext& call = contexts_.emplace_back();
    call.actor = &actor;
    for (const Tensor* tensor : in) call.in.push_back(tensor->operand());
    for (const Tensor* tensor : out) call.out.push_back(tensor->operand());
    call.accumulate.assign(out.size(), accumulates);
    if (lie_ == Lie::kAnywhere) slab_.take(256 * contexts_.size());
    return actor;
  }

  std::string kind_;
  const Lie lie_;
  const bool is_blank_;
  Slab slab_;
  std::deque<Tensor> tensors_;
  std::deque<Actor> actors_;
  std::vector<KernelContext> contexts_;
  std::vector<std::pair<const Tensor*, Values>> expected_;
};

// Of one of ten launches, a median.
double seconds_of(CudaKernel& kernel) {
  Stopwatch watch;
  std::vector<double> times;
  for (int round = 0; round < 6; ++round)
    times.push_back(watch.seconds(10, [&] { kernel.enqueue(watch.stream()); }));
  return median(times);
}

// In seconds: a product takes one, a batch next to nothing or as much as its products.
void set_seconds(const std::string& key, ProductChoice& choice, bool is_faster) {
  const int count = key[key.find('*') + 1] - '0';
  if (key.find(" apart: ") != std::string::npos) choice.seconds = count;
  if (key.find(" together: ") != std::string::npos) choice.seconds = is_faster ? 1e-3 : count;
}

// A device that measured every batch to be faster than its products apart, or slower.
class DecidedDevice {
 public:
  DecidedDevice() {
    options_.tune_matmuls = true;
    options_.choices = std::make_shared<MeasuredChoices>();
    device_ = std::make_unique<CudaContext>(options_);
  }
  CudaContext& device() { return *device_; }
  // What was measured so far.
  void decide(bool together) {
    for (auto& [key, choice] : options_.choices->products) set_seconds(key, choice, together);
  }

 private:
  CudaOptions options_;
  std::unique_ptr<CudaContext> device_;
};

CudaKernelOfCalls made_together(const Calls& calls, DecidedDevice& decided, bool together) {
  const CudaKernelTable table = cuda_kernels();
  table.make_together(calls.contexts(), decided.device());  // measures
  decided.decide(together);
  return table.make_together(calls.contexts(), decided.device());
}

// How many of how many groups cuBLASLt made as one; all of those are right.
struct Count {
  int made = 0, all = 0;
};

void check(Calls& calls, DecidedDevice& decided, Count& count) {
  const CudaKernelTable table = cuda_kernels();
  const std::string key = table.key_together(calls.contexts()[0]);
  REQUIRE(!key.empty());
  for (const KernelContext& call : calls.contexts()) CHECK(table.key_together(call) == key);
  ++count.all;
  const CudaKernelOfCalls made = made_together(calls, decided, true);
  if (made.num_calls == calls.contexts().size()) {
    ++count.made;
    CHECK(calls.gives_expected(*made.kernel));
  }
  CHECK(made_together(calls, decided, false).num_calls == 0);
}

}  // namespace

TEST_CASE("two and three matmuls in one call give the exact products, rounded once" *
          doctest::skip(!has_gpu())) {
  DecidedDevice decided;
  std::map<std::string, Count> counts;
  for (const char* const kind : {"matmul", "matmul_bias"})
    for (const Sizes& sizes : kSizes)
      for (const std::size_t count : {2, 3})
        for (const int variant : {0, 1, 2, 3}) {
          const bool transposed = variant % 2 == 1;
          const Lie lie = variant / 2 == 1 ? Lie::kAnywhere : Lie::kRegular;
          CAPTURE(kind);
          CAPTURE(sizes.m);
          CAPTURE(count);
          CAPTURE(variant);
          Calls calls(kind, lie);
          calls.add_matmuls(sizes, count, transposed);
          check(calls, decided, counts[name_of(kind, lie)]);
        }
  for (const auto& [kind, count] : counts)
    MESSAGE("cuBLASLt makes " << count.made << " of " << count.all << " groups of " << kind);
  // Where rows are multiples of 16 bytes.
  CHECK(counts[name_of("matmul", Lie::kRegular)].made >= 8);
  CHECK(counts[name_of("matmul", Lie::kAnywhere)].made >= 8);
  CHECK(counts[name_of("matmul_bias", Lie::kRegular)].made >= 8);
}

TEST_CASE("two and three gradients of weights in one call are exact, written and added" *
          doctest::skip(!has_gpu())) {
  DecidedDevice decided;
  std::map<std::string, Count> counts;
  for (const char* const kind : {"matmul_grad_weight", "matmul_grad_weight_bias"})
    for (const Sizes& sizes : kSizes)
      for (const std::size_t count : {2, 3})
        for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
          const bool transposed = variant % 2 == 1, accumulates = variant / 2 % 2 == 1;
          const Lie lie = variant / 4 == 1 ? Lie::kAnywhere : Lie::kRegular;
          CAPTURE(kind);
          CAPTURE(sizes.m);
          CAPTURE(count);
          CAPTURE(variant);
          Calls calls(kind, lie);
          calls.add_gradients(sizes, count, transposed, accumulates);
          check(calls, decided, counts[name_of(kind, lie)]);
        }
  for (const auto& [kind, count] : counts) {
    MESSAGE("cuBLASLt makes " << count.made << " of " << count.all << " groups of " << kind);
    CHECK(count.made >= 16);
  }
}

TEST_CASE("gradients of weights with and without that of a bias are one call" *
          doctest::skip(!has_gpu())) {
  DecidedDevice decided;
  Count count;
  for (const bool accumulates : {false, true}) {
    Calls calls("matmul_grad_weight", Lie::kAnywhere);
    calls.add_gradients(kSizes[0], 1, false, accumulates);
    calls.set_kind("matmul_grad_weight_bias");
    calls.add_gradients(kSizes[0], 3, false, accumulates);
    check(calls, decided, count);
  }
  CHECK(count.made == count.all);
}

TEST_CASE("sums of several matrices in one launch are the exact sums of each" *
          doctest::skip(!has_gpu())) {
  const CudaKernelTable table = cuda_kernels();
  CudaContext device(CudaOptions{});
  struct Matrix {
    std::int64_t rows, columns;
  };
  // Clusters, narrow tiles of blocks, tiles that end beyond the matrix, single columns, no rows.
  for (const auto& [rows, columns] : {Matrix{4096, 512}, Matrix{4096, 1024}, Matrix{300, 72},
                                      Matrix{65, 33}, Matrix{3, 8}, Matrix{0, 16}})
    for (const std::size_t count : {2, 3, 4})
      for (const bool accumulates : {false, true}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(count);
        CAPTURE(accumulates);
        Calls calls("reduce_to_bias", Lie::kRegular);
        calls.add_sums(rows, columns, count, accumulates);
        const CudaKernelOfCalls made = table.make_together(calls.contexts(), device);
        REQUIRE(made.num_calls == count);
        CHECK(calls.gives_expected(*made.kernel));
      }
}

TEST_CASE("what is made together of a layer of GPT-2 medium, 16 x 1024 tokens, is no slower" *
          doctest::skip(!has_gpu())) {
  constexpr std::int64_t kTokens = 16384, kWidth = 1024;
  constexpr double kNoise = 1.05;
  CudaOptions options;
  options.tune_matmuls = true;
  options.choices = std::make_shared<MeasuredChoices>();
  CudaContext device(options);
  const CudaKernelTable table = cuda_kernels();
  const auto check = [&](const std::string& name, const Calls& calls) {
    const CudaKernelOfCalls made = table.make_together(calls.contexts(), device);
    if (made.num_calls == 0) return;
    double apart = 0;
    for (std::size_t call = 0; call < made.num_calls; ++call) {
      const auto alone = table.make(calls.contexts()[call], device);
      if (!alone) {  // alone its members were measured to be faster one by one
        MESSAGE(name << ": not compared");
        return;
      }
      apart += seconds_of(*alone);
    }
    CHECK_MESSAGE(seconds_of(*made.kernel) <= kNoise * apart, name);
  };
  for (const std::string kind : {"matmul", "matmul_bias"})
    for (const Lie lie : {Lie::kRegular, Lie::kAnywhere}) {
      Calls calls(kind, lie, true);
      calls.add_matmuls({kTokens, kWidth, kWidth}, 3, false);
      check(name_of(kind, lie), calls);
    }
  for (const std::string kind : {"matmul_grad_weight", "matmul_grad_weight_bias"})
    for (const Lie lie : {Lie::kRegular, Lie::kAnywhere}) {
      Calls calls(kind, lie, true);
      calls.add_gradients({kWidth, kWidth, kTokens}, 4, false, false);
      check(name_of(kind, lie), calls);
    }
  Calls sums("reduce_to_bias", Lie::kRegular, true);
  sums.add_sums(kTokens, kWidth, 3, false);
  check("reduce_to_bias", sums);
}

TEST_CASE("four calls of which three are faster together leave the last to itself" *
          doctest::skip(!has_gpu())) {
  CudaOptions options;
  options.tune_matmuls = true;
  options.choices = std::make_shared<MeasuredChoices>();
  CudaContext device(options);
  Calls calls("matmul", Lie::kRegular);
  calls.add_matmuls({128, 64, 96}, 4, false);
  const CudaKernelTable table = cuda_kernels();
  table.make_together(calls.contexts(), device);  // measures
  // Four take 2.5 times what one does, three and one 2, two and two 3.
  for (auto& [key, choice] : options.choices->products) {
    set_seconds(key, choice, false);
    if (key.find(" together: ") == std::string::npos) continue;
    choice.seconds = key.find("*4") != std::string::npos   ? 2.5
                     : key.find("*3") != std::string::npos ? 1
                                                           : 1.5;
  }
  CHECK(table.make_together(calls.contexts(), device).num_calls == 3);
  CHECK(table.make_together(calls.contexts().first(3), device).num_calls == 3);
  CHECK(table.make_together(calls.contexts().last(2), device).num_calls == 2);
}

TEST_CASE("nothing is made together with deterministic, untuned, or in 32 bits" *
          doctest::skip(!has_gpu())) {
  const CudaKernelTable table = cuda_kernels();
  Calls calls("matmul", Lie::kRegular);
  calls.add_matmuls({128, 64, 96}, 3, false);
  for (const bool deterministic : {false, true}) {
    CudaOptions options;
    options.deterministic = deterministic;
    options.tune_matmuls = deterministic;
    CudaContext device(options);
    CHECK(table.make_together(calls.contexts(), device).num_calls == 0);
  }
  KernelContext wide = calls.contexts()[0];
  for (auto* operands : {&wide.in, &wide.out})
    for (KernelOperand& operand : *operands) operand.local.dtype = DType::kF32;
  CHECK(table.key_together(wide).empty());
}

}  // namespace sextant::products_together_test
