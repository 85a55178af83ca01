// Asking cuBLASLt, measuring what it names, and keeping what was found.
#include "backends/cuda/kernels/products/product_choices.h"

#include "backends/cuda/cuda_check.h"
#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr int kMostCandidates = 64;
constexpr int kFileVersion = 3;  // which algorithms contend, and how, is part of it
constexpr std::string_view kFormat = "sextant_cublaslt_algorithms";
constexpr std::size_t kWords = sizeof(cublasLtMatmulAlgo_t::data) / sizeof(std::uint64_t);

// What all matrices of a batch begin at a multiple of; 256 is as much as anybody asks for.
std::uint32_t alignment_of(const void* data, std::int64_t elements, DType dtype,
                           std::int32_t count) {
  std::uint64_t bits = std::bit_cast<std::uintptr_t>(data) | 256;
  if (count > 1) bits |= static_cast<std::uint64_t>(elements * size_of(dtype).value);
  return std::uint32_t{1} << std::countr_zero(bits);
}

bool is_aligned(const ProductAddresses& at) {
  std::uintptr_t bits = 0;
  for (const void* data : {at.a, at.b, at.c, static_cast<const void*>(at.d),
                           static_cast<const void*>(at.bias), static_cast<const void*>(at.aux)})
    bits |= std::bit_cast<std::uintptr_t>(data);
  return bits % 256 == 0;
}

class Preference {
 public:
  Preference(const ProductCall& call, bool deterministic) {
    const Product& product = call.product;
    const ProductAddresses& at = call.addresses;
    SEXTANT_CUBLAS(cublasLtMatmulPreferenceInit(&preference_));
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kProductWorkspaceBytes});
    const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute, const void* data,
                           std::int64_t elements, DType dtype) {
      // Others are aligned as the first, and by pointers as the arrays of pointers.
      const bool is_packed = product.places == BatchPlaces::kPacked;
      set(attribute, alignment_of(data, elements, dtype, is_packed ? product.count : 1));
    };
    const std::int64_t results = product.m * product.n;
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, at.a, product.m * product.k, product.in);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, at.b, product.k * product.n,
          product.type_of_b());
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, at.c != nullptr ? at.c : at.d, results,
          product.out);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, at.d, results, product.out);
    // Parts of a sum are added as they were computed, never rounded to the type of the result.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(deterministic ? CUBLASLT_REDUCTION_SCHEME_NONE
                                                 : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  cublasLtMatmulPreference_t get() { return &preference_; }

 private:
  template <typename Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    SEXTANT_CUBLAS(
        cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof(value)));
  }

  cublasLtMatmulPreferenceOpaque_t preference_{};
};

// The heuristic's, best first.
std::vector<cublasLtMatmulAlgo_t> named_by_heuristic(const ProductCall& call, int most,
                                                     CudaContext& device) {
  Preference preference(call, device.deterministic());
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(device.cublas(), &call.operation, &call.a, &call.b, &call.d,
                                     &call.d, preference.get(), most, results.data(), &found);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  // Combinations of types and epilogues that cuBLASLt does not know are answered in several ways.
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
  for (int i = 0; i < found; ++i)
    if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
  return algorithms;
}

bool runs_as(const cublasLtMatmulAlgo_t& algorithm, const ProductCall& call,
             const CudaContext& device) {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(
      device.cublas(), &call.operation, &call.a, &call.b, &call.d, &call.d, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kProductWorkspaceBytes;
}

bool are_same(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::equal(std::begin(a.data), std::end(a.data), std::begin(b.data));
}

// The same product with nothing behind it.
ProductCall plain_of(const ProductCall& call) {
  Product product = call.product;
  product.epilogue = ProductEpilogue::kNone;
  ProductAddresses addresses = call.addresses;
  if (addresses.c != addresses.d) addresses.c = nullptr;
  addresses.bias = addresses.aux = nullptr;
  addresses.bias_stride = 0;
  return ProductCall(product, addresses);
}

// What the heuristic names for the call and, where something follows the product, for the plain
// one: it names fewer and other algorithms for an epilogue than can run it.
std::vector<cublasLtMatmulAlgo_t> candidates_of(const ProductCall& call, CudaContext& device) {
  auto candidates = named_by_heuristic(call, kMostCandidates, device);
  if (call.product.epilogue == ProductEpilogue::kNone || candidates.empty()) return candidates;
  for (const auto& algorithm : named_by_heuristic(plain_of(call), kMostCandidates, device)) {
    const bool is_known =
        std::any_of(candidates.begin(), candidates.end(),
                    [&](const auto& candidate) { return are_same(candidate, algorithm); });
    if (!is_known && runs_as(algorithm, call, device)) candidates.push_back(algorithm);
  }
  return candidates;
}

nlohmann::ordered_json words_of(const cublasLtMatmulAlgo_t& algorithm) {
  nlohmann::ordered_json words = nlohmann::ordered_json::array();
  for (const std::uint64_t word : algorithm.data) words.push_back(fmt::format("{:x}", word));
  return words;
}

cublasLtMatmulAlgo_t algorithm_of(const JsonCursor& cursor) {
  const std::vector<JsonCursor> words = cursor.elements();
  if (words.size() != kWords) cursor.refuse(fmt::format("wanted {} words", kWords));
  cublasLtMatmulAlgo_t algorithm{};
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::string& text = words[i].text();
    std::uint64_t word = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
    if (error != std::errc() || end != text.data() + text.size())
      words[i].refuse(fmt::format("'{}' is no hexadecimal number of 64 bits", text));
    algorithm.data[i] = word;
  }
  return algorithm;
}

std::string version_text() { return std::to_string(cublasLtGetVersion()); }

}  // namespace

ProductChoices::ProductChoices(const CudaOptions& options)
    : options_(options),
      measures_(options.tune_matmuls && !options.deterministic),
      choices_(options.choices ? options.choices : std::make_shared<MeasuredChoices>()) {
  cudaDeviceProp properties{};
  SEXTANT_CUDA(cudaGetDeviceProperties(&properties, options.device));
  card_ = fmt::format("{}, sm_{}{}, {} multiprocessors", properties.name, properties.major,
                      properties.minor, properties.multiProcessorCount);
  int kilohertz = 0, bits = 0;
  SEXTANT_CUDA(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, options.device));
  SEXTANT_CUDA(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, options.device));
  bytes_per_second_ = 2e3 * kilohertz * bits / 8;  // two transfers a clock
  if (options.matmul_cache.empty() || options.deterministic) return;
  const std::lock_guard lock(choices_->mutex);
  if (!std::exchange(choices_->has_read_file, true)) read_file();
}

std::optional<ProductChoice> ProductChoices::of(const ProductCall& call, CudaContext& device) {
  if (!options_.deterministic && is_aligned(call.addresses)) {
    std::unique_lock lock(choices_->mutex);
    std::optional<ProductChoice> choice = known(call, device);
    if (!choice && measures_ && !choices_->is_complete) choice = measured(call, device);
    lock.unlock();
    if (choice) return pays(call, *choice, device) ? choice : std::nullopt;
  }
  const std::vector<cublasLtMatmulAlgo_t> candidates = named_by_heuristic(call, 1, device);
  if (candidates.empty()) return std::nullopt;
  return ProductChoice{candidates.front(), 0};
}

std::optional<ProductChoice> ProductChoices::known(const ProductCall& call,
                                                   CudaContext& device) const {
  const auto found = choices_->products.find(call.key());
  if (found == choices_->products.end()) return std::nullopt;
  if (runs_as(found->second.algorithm, call, device)) return found->second;
  tell(fmt::format("{}: the algorithm kept for {} does not run here and is not used",
                   options_.matmul_cache, call.key()));
  return std::nullopt;
}

std::optional<ProductChoice> ProductChoices::measured(const ProductCall& call,
                                                      CudaContext& device) {
  const std::vector<cublasLtMatmulAlgo_t> candidates = candidates_of(call, device);
  if (candidates.empty()) return std::nullopt;
  // What is kept may take its time.
  const MeasuringEffort effort =
      options_.matmul_cache.empty() ? MeasuringEffort::kShort : MeasuringEffort::kUnderLoad;
  const std::optional<MeasuredProduct> best = fastest_product(call, candidates, effort, device);
  if (!best) {
    tell(fmt::format("product {}: no memory to measure algorithms, the first one is taken",
                     call.key()));
    return std::nullopt;
  }
  const ProductChoice choice{candidates[best->candidate], best->seconds};
  choices_->products[call.key()] = choice;
  if (!options_.matmul_cache.empty()) write_file();
  return choice;
}

std::optional<BatchChoice> ProductChoices::of_batch(const ProductCall& batch,
                                                    const ProductCall& each, CudaContext& device) {
  if (!measures_) return std::nullopt;
  const std::optional<ProductChoice> alone = of(each, device);
  const std::optional<ProductChoice> choice = of(batch, device);
  if (!alone || !choice || choice->seconds == 0) return std::nullopt;
  const std::lock_guard lock(choices_->mutex);
  const std::optional<BatchTimes> times = measured_times(batch, *choice, each, *alone, device);
  if (!times || times->together <= 0 || times->apart <= 0) return std::nullopt;
  return BatchChoice{*choice, *times};
}

// Kept among the products as two of them, each with the algorithm that it was measured with.
std::optional<BatchTimes> ProductChoices::measured_times(const ProductCall& batch,
                                                         const ProductChoice& choice,
                                                         const ProductCall& each,
                                                         const ProductChoice& alone,
                                                         CudaContext& device) {
  const std::string together = fmt::format("{} together: {}", batch.key(), each.key());
  const std::string apart = fmt::format("{} apart: {}", batch.key(), each.key());
  const auto known_together = choices_->products.find(together);
  const auto known_apart = choices_->products.find(apart);
  if (known_together != choices_->products.end() && known_apart != choices_->products.end())
    return BatchTimes{known_together->second.seconds, known_apart->second.seconds};
  if (choices_->is_complete) return std::nullopt;
  const std::optional<BatchTimes> times =
      times_of_batch(batch, choice.algorithm, each, alone.algorithm, device);
  if (!times) {
    tell(fmt::format("product {}: no memory to measure it as one, it is not", batch.key()));
    return std::nullopt;
  }
  choices_->products[together] = {choice.algorithm, times->together};
  choices_->products[apart] = {alone.algorithm, times->apart};
  if (!options_.matmul_cache.empty()) write_file();
  return times;
}

double ProductChoices::seconds_of_members(const ProductCall& call) const {
  const bool sums = call.product.epilogue == ProductEpilogue::kSumOfA ||
                    call.product.epilogue == ProductEpilogue::kSumOfB;
  return call.member_bytes() / (0.8 * bytes_per_second_) + (sums ? 6e-6 : 2e-6);
}

// Against the plain product and the passes of its members.
bool ProductChoices::pays(const ProductCall& call, const ProductChoice& choice,
                          CudaContext& device) {
  if (call.member_bytes() == 0 || choice.seconds == 0) return true;
  const std::optional<ProductChoice> alone = of(plain_of(call), device);
  if (!alone || alone->seconds == 0) return true;
  return choice.seconds <= alone->seconds + seconds_of_members(call);
}

void ProductChoices::tell(const std::string& text) const {
  if (options_.notice) options_.notice(text);
}

void ProductChoices::read_file() {
  if (!std::filesystem::exists(options_.matmul_cache)) return;
  const JsonDocument document = read_json_file(options_.matmul_cache);
  const JsonCursor root = document.root();
  if (!root.is_object() || !root.contains(kFormat))
    root.refuse("no file of measured matrix products");
  const auto differs = [&](std::string_view what, const std::string& found,
                           const std::string& wanted) {
    if (found == wanted) return false;
    tell(fmt::format("{}: measured with {} {}, here it is {}: not used", options_.matmul_cache,
                     what, found, wanted));
    return true;
  };
  if (differs("format", std::to_string(root.at(kFormat).integer()), std::to_string(kFileVersion)) ||
      differs("card", root.at("card").text(), card_) ||
      differs("cuBLASLt", root.at("cublaslt").text(), version_text()))
    return;
  const JsonCursor products = root.at("products");
  for (const std::string& key : products.keys()) {
    const JsonCursor product = products.at(key);
    // What another process has measured and told stays.
    choices_->products.emplace(
        key, ProductChoice{algorithm_of(product.at("algorithm")), product.at("seconds").real()});
  }
}

void ProductChoices::write_file() const {
  nlohmann::ordered_json root;
  root[std::string(kFormat)] = kFileVersion;
  root["card"] = card_;
  root["cublaslt"] = version_text();
  nlohmann::ordered_json& products = root["products"] = nlohmann::ordered_json::object();
  for (const auto& [key, choice] : choices_->products)
    products[key] = {{"seconds", choice.seconds}, {"algorithm", words_of(choice.algorithm)}};
  // Another process that reads meanwhile finds the old file or the new one.
  const std::string aside = fmt::format("{}.{}", options_.matmul_cache, getpid());
  std::ofstream file(aside);
  file << to_readable_text(root);
  file.close();
  std::error_code error;
  if (file.good()) std::filesystem::rename(aside, options_.matmul_cache, error);
  if (file.good() && !error) return;
  // A part of it, from a full disk for instance, must not stand where the whole did.
  std::error_code ignored;
  std::filesystem::remove(aside, ignored);
  tell(fmt::format("{}: cannot be written{}", options_.matmul_cache,
                   error ? ": " + error.message() : std::string()));
}

}  // namespace sextant
