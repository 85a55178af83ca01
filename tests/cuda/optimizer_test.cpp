// Updates of many parameters in one launch against the CPU's reference, over several steps.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sextant::optimizer_test {
namespace {

constexpr double kRate = 0.01;

// What a parameter and its update consist of.
struct Parameter {
  std::int64_t elements = 0;
  DType gradient = DType::kF32;
  Attributes attributes;
  std::size_t misalignment = 0;  // of its states, in bytes
};

Attributes options(double decay, double beta2 = 0.95) {
  return {{"learning_rate", kRate}, {"weight_decay", decay}, {"beta1", 0.9},
          {"beta2", beta2},         {"epsilon", 1e-8},       {"momentum", 0.75}};
}

Attributes with(Attributes attributes, const std::string& name, const AttributeValue& value) {
  attributes.set(name, value);
  return attributes;
}

// Weights decay, biases do not; sizes around the chunk of a block, one that is empty, odd tails,
// addresses that allow no wide access, schedules and options of their own.
std::vector<Parameter> mixed_parameters() {
  std::vector<Parameter> parameters;
  for (const DType gradient : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t elements : {1, 3, 4, 1023, 4096, 4097, 100'003})
      parameters.push_back({elements, gradient, options(elements > 1000 ? 0.1 : 0.0), 0});
  parameters.push_back({0, DType::kF32, options(0.1), 0});
  parameters.push_back({5000, DType::kBF16, options(0.1), 4});
  Attributes scheduled = with(options(0.0, 0.999), "schedule", std::string("cosine"));
  scheduled = with(with(scheduled, "warm_up", std::int64_t{2}), "total_updates", std::int64_t{5});
  parameters.push_back({777, DType::kF16, scheduled, 0});
  parameters.push_back({778, DType::kF32, with(options(0.1), "nesterov", true), 8});
  for (const std::int64_t elements : {1, 4099})
    parameters.push_back({elements, DType::kF64, options(0.1), 0});
  return parameters;
}

// Those of one block each, which begin their updates themselves.
std::vector<Parameter> small_parameters() {
  std::vector<Parameter> parameters;
  for (const Parameter& parameter : mixed_parameters())
    if (parameter.elements > 0 && parameter.elements <= 2048) parameters.push_back(parameter);
  parameters.push_back({2048, DType::kBF16, options(0.1), 0});
  return parameters;
}

// Parameters with their gradients and states, and one control for all.
class Optimizer {
 public:
  Optimizer(const std::string& kind, const std::vector<Parameter>& parameters)
      : control_({Shape{2}, DType::kF64}, {0.5, 1.0}) {
    const std::size_t moments = kind == "sgd" ? 0 : kind == "momentum" ? 1 : 2;
    for (const Parameter& parameter : parameters) {
      const std::uint64_t salt = 10 * gradients_.size();
      const TensorType gradient{Shape{parameter.elements}, parameter.gradient};
      const TensorType state{gradient.shape,
                             parameter.gradient == DType::kF64 ? DType::kF64 : DType::kF32};
      gradients_.push_back(
          std::make_unique<TwinTensor>(gradient, digits(parameter.elements, salt, 1.0)));
      std::vector<TwinTensor*> out;
      for (std::size_t i = 0; i <= moments; ++i) {
        // Second moments are no negative numbers.
        std::vector<double> values = digits(parameter.elements, salt + 1 + i, 2.0);
        if (i > 0)
          for (double& value : values) value = std::abs(value) * 0.01;
        out.push_back(add_state(state, values, parameter.misalignment));
      }
      out.push_back(add_state({Shape(), DType::kI64}, {0.0}, 0));
      calls_.push_back(std::make_unique<TwinCall>(
          kind, parameter.attributes, std::vector<TwinTensor*>{gradients_.back().get(), &control_},
          std::move(out)));
    }
  }

  std::vector<std::unique_ptr<CudaKernel>> kernels(CudaContext& device) const {
    std::vector<KernelContext> calls;
    for (const auto& call : calls_) calls.push_back(call->for_device());
    return cuda_kernels().make_all(calls, device);
  }
  void run_reference() {
    for (const auto& call : calls_) call->run_reference();
  }
  void set_gradients(std::uint64_t salt) {
    for (const auto& gradient : gradients_)
      gradient->set(digits(gradient->type().shape.elements(), salt++, 1.0));
  }

  TwinTensor& control() { return control_; }
  const std::vector<std::unique_ptr<TwinTensor>>& gradients() const { return gradients_; }
  const std::vector<std::unique_ptr<TwinTensor>>& states() const { return states_; }

 private:
  TwinTensor* add_state(const TensorType& type, const std::vector<double>& values,
                        std::size_t misalignment) {
    states_.push_back(std::make_unique<TwinTensor>(type, values, misalignment));
    return states_.back().get();
  }

  TwinTensor control_;
  std::vector<std::unique_ptr<TwinTensor>> gradients_, states_;
  std::vector<std::unique_ptr<TwinCall>> calls_;
};

// With u the roundoff of the state: a step rounds a moment four times and the step of the
// parameter, of size rate times a direction below 10, twenty times; the reference rounds once. So
// after n steps states of size up to 4 differ by at most n (4 u 4 + 20 u 10 rate).
double bound(const TensorType& type, int steps) {
  const double u = type.dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
  return steps * (16 * u + 200 * u * kRate);
}

void check_states(const Optimizer& optimizer, int steps) {
  for (const auto& state : optimizer.states()) {
    const std::vector<double> found = state->device_values(), wanted = state->host_values();
    if (state->type().dtype == DType::kI64) {
      CHECK(found == wanted);
      continue;
    }
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::isnan(found[i]) ? 1e30 : std::abs(found[i] - wanted[i]));
    CHECK_MESSAGE(worst <= bound(state->type(), steps), to_string(state->type().shape), " ",
                  to_string(state->type().dtype), " is off by ", worst, " after ", steps, " steps");
  }
}

std::vector<std::vector<std::byte>> bytes_of(const std::vector<std::unique_ptr<TwinTensor>>& all) {
  std::vector<std::vector<std::byte>> bytes;
  for (const auto& tensor : all) bytes.push_back(tensor->device_bytes());
  return bytes;
}

}  // namespace

TEST_CASE("updates of many parameters are one kernel and agree with the reference over steps" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  for (const auto& [kind, is_small] : {std::pair("sgd", false),
                                       {"momentum", false},
                                       {"adamw", false},
                                       {"sgd", true},
                                       {"momentum", true},
                                       {"adamw", true}}) {
    CAPTURE(kind);
    CAPTURE(is_small);
    Optimizer optimizer(kind, is_small ? small_parameters() : mixed_parameters());
    const auto kernels = optimizer.kernels(device);
    REQUIRE(kernels.size() == 1);
    for (int step = 1; step <= 6; ++step) {
      CAPTURE(step);
      optimizer.set_gradients(static_cast<std::uint64_t>(1000 * step));
      // The fourth step is skipped: nothing moves, and nothing counts.
      optimizer.control().set({step == 4 ? 0.0 : 0.5, step == 4 ? 0.0 : 1.0});
      const auto before = bytes_of(optimizer.states());
      kernels[0]->enqueue(nullptr);
      optimizer.run_reference();
      check_states(optimizer, step);
      CHECK((bytes_of(optimizer.states()) == before) == (step == 4));
    }
  }
}

TEST_CASE("the direction of LAMB agrees with the reference, and is zero for a step without update" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  TwinTensor control({Shape{2}, DType::kF64}, {0.25, 1.0});
  for (const auto& [type, size] :
       {std::pair(DType::kF32, 5003), {DType::kF64, 5003}, {DType::kF32, 1001}})
    for (const bool accumulate : {false, true}) {
      const TensorType state{Shape{size}, type};
      TwinTensor gradient(state, digits(size, 1, 1.0)), parameter(state, digits(size, 2, 2.0));
      TwinTensor m(state, digits(size, 3, 0.5)), step({Shape(), DType::kI64}, {3.0});
      std::vector<double> squares = digits(size, 4, 0.01);
      for (double& value : squares) value = std::abs(value) + 0.01;
      TwinTensor v(state, squares), direction(state, digits(size, 5, 1.0));
      TwinTensor rate({Shape(), DType::kF64}, {2.0});
      TwinCall call("lamb_direction", options(0.1), {&gradient, &parameter, &control},
                    {&direction, &m, &v, &step, &rate});
      KernelContext on_device = call.for_device();
      on_device.accumulate[0] = accumulate;
      const auto kernels = cuda_kernels().make_all(std::vector{on_device}, device);
      for (const double flag : {1.0, 0.0}) {
        control.set({0.25 * flag, flag});
        const std::vector<double> there = direction.device_values();
        for (const auto& kernel : kernels) kernel->enqueue(nullptr);
        call.run_reference();
        CHECK(step.device_values() == step.host_values());
        CHECK(rate.device_values() == rate.host_values());
        std::vector<double> found = direction.device_values();
        const std::vector<double> wanted = direction.host_values();
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (accumulate) found[i] -= there[i];
          // Twenty roundings of numbers below 30, and of what it was added to.
          CHECK(std::abs(found[i] - wanted[i]) <= (type == DType::kF64 ? 0x1p-53 : 0x1p-24) * 700);
        }
      }
    }
}

TEST_CASE("one gradient that is not finite skips the update of all, a large norm is clipped" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  Optimizer optimizer("adamw", mixed_parameters());
  TwinTensor tokens({Shape(), DType::kF32}, {4.0}), norm({Shape(), DType::kF64}, {0.0});
  std::vector<std::unique_ptr<TwinTensor>> stats;
  std::vector<std::unique_ptr<TwinCall>> calls;
  std::vector<TwinTensor*> summands;
  for (const auto& gradient : optimizer.gradients()) {
    stats.push_back(
        std::make_unique<TwinTensor>(TensorType{Shape{2}, DType::kF64}, std::vector<double>{0, 0}));
    summands.push_back(stats.back().get());
    calls.push_back(std::make_unique<TwinCall>("gradient_stats", Attributes(),
                                               std::vector{gradient.get()},
                                               std::vector{stats.back().get()}));
  }
  TwinTensor sum({Shape{2}, DType::kF64}, {0, 0});
  calls.push_back(
      std::make_unique<TwinCall>("add_stats", Attributes(), summands, std::vector{&sum}));
  calls.push_back(std::make_unique<TwinCall>("update_control", Attributes{{"max_norm", 1.0}},
                                             std::vector{&tokens, &sum},
                                             std::vector{&optimizer.control(), &norm}));
  std::vector<KernelContext> on_device;
  for (const auto& call : calls) on_device.push_back(call->for_device());
  auto kernels = cuda_kernels().make_all(on_device, device);
  CHECK(kernels.size() == 3);  // all statistics in one
  for (auto& kernel : optimizer.kernels(device)) kernels.push_back(std::move(kernel));

  for (int step = 1; step <= 3; ++step) {
    CAPTURE(step);
    optimizer.set_gradients(static_cast<std::uint64_t>(500 * step));
    if (step == 2) {
      TwinTensor& bad = *optimizer.gradients()[5];
      std::vector<double> values = bad.host_values();
      values.back() = std::numeric_limits<double>::infinity();
      values.front() = std::numeric_limits<double>::quiet_NaN();
      bad.set(values);
    }
    const auto before = bytes_of(optimizer.states());
    for (const auto& kernel : kernels) kernel->enqueue(nullptr);
    for (const auto& call : calls) call->run_reference();
    optimizer.run_reference();
    const std::vector<double> found = sum.device_values(), wanted = sum.host_values();
    CHECK(found[0] == doctest::Approx(wanted[0]).epsilon(1e-12));
    CHECK(found[1] == (step == 2 ? 2.0 : 0.0));
    CHECK(wanted[1] == found[1]);
    const std::vector<double> control = optimizer.control().device_values();
    CHECK(control[1] == (step == 2 ? 0.0 : 1.0));
    if (step == 2) {
      CHECK(bytes_of(optimizer.states()) == before);
    } else {
      // Clipped to a norm of 1: the coefficient is 1 over the norm of the plain sum.
      CHECK(control[0] == doctest::Approx(1.0 / std::sqrt(wanted[0])).epsilon(1e-12));
      check_states(optimizer, step);
    }
  }
}

TEST_CASE("statistics of many tensors are those of each alone, bit by bit" *
          doctest::skip(!has_gpu())) {
  CudaContext device(CudaOptions{});
  std::vector<std::unique_ptr<TwinTensor>> tensors, together, alone;
  std::vector<std::unique_ptr<TwinCall>> calls;
  std::vector<KernelContext> all;
  for (const std::int64_t elements : {0, 1, 7, 16384, 16385, 1'000'003})
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF64}) {
      tensors.push_back(std::make_unique<TwinTensor>(
          TensorType{Shape{elements}, type},
          digits(elements, static_cast<std::uint64_t>(elements), 3.0)));
      const auto add = [&](std::vector<std::unique_ptr<TwinTensor>>& stats) {
        stats.push_back(std::make_unique<TwinTensor>(TensorType{Shape{2}, DType::kF64},
                                                     std::vector<double>{-1, -1}));
        calls.push_back(std::make_unique<TwinCall>("gradient_stats", Attributes(),
                                                   std::vector{tensors.back().get()},
                                                   std::vector{stats.back().get()}));
        return calls.back()->for_device();
      };
      all.push_back(add(together));
      cuda_kernels().make(add(alone), device)->enqueue(nullptr);
    }
  const auto kernels = cuda_kernels().make_all(all, device);
  REQUIRE(kernels.size() == 1);
  kernels[0]->enqueue(nullptr);
  CHECK(bytes_of(together) == bytes_of(alone));
}

}  // namespace sextant::optimizer_test
