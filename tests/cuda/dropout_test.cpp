// Dropout on a GPU keeps the elements that the CPU keeps, on every shard, act and step; and fused
// chains of element-wise operators give what their members give one by one.
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "core/base/elements.h"
#include "core/tensors/sbp.h"
#include "tests/cpu/kernel_call.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/device_call.h"
#include "tests/cuda/gpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace sextant::dropout_test {
namespace {

using Numbers = std::vector<double>;
using Source = ActorMember::Operand::Source;

constexpr DType kFloating[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

std::size_t elements(const Shape& shape) { return static_cast<std::size_t>(shape.elements()); }

// Ones where the mask keeps, on the CPU.
Numbers mask_on_cpu(const TestOperand& ones, const Attributes& attributes, std::uint64_t seed,
                    const ActPosition& act) {
  const TestOperand out{ones.type, {}, ones.offsets, ones.global};
  return KernelCall("dropout", attributes)
      .input(ones)
      .output(out)
      .during(seed, act)
      .run(reference_kernels())[0];
}

Numbers mask_on_gpu(const TestOperand& ones, const Attributes& attributes, std::uint64_t seed,
                    const ActPosition& act) {
  CudaContext device(CudaOptions{});
  device.begin_step(act.step, nullptr);
  DeviceCall call("dropout", attributes);
  call.input(ones).output({ones.type, {}, ones.offsets, ones.global}).during(seed, act);
  const auto make = [](const KernelContext& context, CudaContext& on) {
    return cuda_kernels().make(context, on);
  };
  call.kernel(make, device)->enqueue(nullptr);
  const Numbers result = call.results()[0];
  CHECK(call.is_guarded());
  return result;
}

// A fused actor of element-wise members on whole tensors.
struct FusedCall {
  Actor actor;
  std::vector<TwinTensor*> in, out;
  std::vector<bool> accumulate;

  KernelContext context() const {
    KernelContext call;
    call.actor = &actor;
    for (const TwinTensor* tensor : in) call.in.push_back(tensor->on_device());
    for (const TwinTensor* tensor : out) call.out.push_back(tensor->on_device());
    call.accumulate = accumulate;
    call.hierarchy = {1};
    call.coordinates = {0};
    call.seed = 11;
    call.act = {.layer = 3, .step = 0, .micro_batch = 1};
    return call;
  }
};

struct Member {
  std::string kind;
  Attributes attributes;
  std::vector<ActorMember::Operand> in;
  ActorMember::Operand out;
};

Actor fused_actor(const std::string& kind, const std::vector<Member>& members,
                  const std::vector<TensorType>& inner) {
  Actor actor;
  actor.kind = actor.name = kind;
  for (const Member& member : members) {
    ActorMember made;
    made.kind = made.name = member.kind;
    made.attributes = member.attributes;
    made.in = member.in;
    made.out = {member.out};
    actor.members.push_back(made);
  }
  for (const TensorType& type : inner)
    actor.inner.push_back({.name = "inner", .layout = LayoutId(0), .local = type});
  return actor;
}

struct Chain {
  std::string kind;
  std::vector<Member> members;  // with what is between them inside
  std::vector<Shape> in;        // shapes of the inputs
  bool may_show_inner = true;   // the first result may have readers outside
};

constexpr ActorMember::Operand input(std::int32_t index) { return {Source::kInput, index}; }
constexpr ActorMember::Operand inner(std::int32_t index) { return {Source::kInner, index}; }
constexpr ActorMember::Operand output(std::int32_t index) { return {Source::kOutput, index}; }

// The members on the CPU in f64, from the device's rounded inputs.
std::vector<Numbers> reference(const Chain& chain,
                               const std::vector<std::unique_ptr<TwinTensor>>& in,
                               const Shape& shape) {
  const KernelTable kernels = reference_kernels();
  std::vector<Numbers> results;
  for (std::size_t m = 0; m < chain.members.size(); ++m) {
    const Member& member = chain.members[m];
    KernelCall call(member.kind, member.attributes);
    for (const ActorMember::Operand& operand : member.in) {
      const auto index = static_cast<std::size_t>(operand.index);
      if (operand.source == Source::kInput)
        call.input({{in[index]->type().shape, DType::kF64}, in[index]->host_values()});
      else
        call.input({{shape, DType::kF64}, results[m - 1]});
    }
    call.output({{shape, DType::kF64}, {}});
    call.during(11, {.layer = 3, .step = 5, .micro_batch = 1});
    results.push_back(call.run(kernels)[0]);
  }
  return results;
}

double unit(DType dtype) {
  return dtype == DType::kF64    ? 0x1p-50
         : dtype == DType::kF32  ? 0x1p-21
         : dtype == DType::kBF16 ? 0x1.04p-8
                                 : 0x1.04p-11;
}

// `shown`: the results of all members have readers, else that of the last.
void check_chain(const Chain& chain, const Shape& shape, DType dtype, bool shown, bool accumulate) {
  CAPTURE(chain.kind);
  CAPTURE(std::string(to_string(dtype)));
  CAPTURE(to_string(shape));
  CAPTURE(shown);
  CAPTURE(accumulate);
  const std::size_t last = chain.members.size() - 1;
  std::vector<std::unique_ptr<TwinTensor>> in, out;
  FusedCall call;
  std::uint64_t salt = 1;
  for (const Shape& of : chain.in) {
    const TensorType type{of, dtype};
    in.push_back(std::make_unique<TwinTensor>(type, digits(of.elements(), salt++, 2.0)));
    call.in.push_back(in.back().get());
  }
  std::vector<Member> members = chain.members;
  for (std::size_t m = 0; m <= last; ++m) {
    if (!shown && m != last) continue;
    const auto index = static_cast<std::int32_t>(out.size());
    members[m].out = output(index);
    if (m != last)
      for (ActorMember::Operand& operand : members[m + 1].in)
        if (operand.source == Source::kInner) operand = output(index);
    out.push_back(
        std::make_unique<TwinTensor>(TensorType{shape, dtype}, Numbers(elements(shape), 0.5)));
    call.out.push_back(out.back().get());
    call.accumulate.push_back(accumulate && m == last);
  }
  call.actor =
      fused_actor(chain.kind, members, std::vector<TensorType>(last, TensorType{shape, dtype}));
  CudaContext device(CudaOptions{});
  device.begin_step(5, nullptr);
  const auto kernel = cuda_kernels().make(call.context(), device);
  REQUIRE(kernel != nullptr);
  kernel->enqueue(nullptr);
  const std::vector<Numbers> wanted = reference(chain, in, shape);
  for (std::size_t o = 0; o < out.size(); ++o) {
    const bool is_last = o + 1 == out.size();
    const Numbers found = out[o]->device_values();
    const Numbers& result = wanted[is_last ? last : o];
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double value = result[i] + (is_last && accumulate ? 0.5 : 0.0);
      // One rounding of the result; intermediate ones in f32 of terms of at most 16.
      CHECK(std::abs(found[i] - value) <= unit(dtype) * std::abs(value) + 0x1p-19);
    }
  }
}

std::vector<Chain> chains_on(const Shape& shape, const Shape& bias) {
  const Attributes dropout = {{"rate", 0.25}, {"stream", "residual"}};
  const auto gelu = [](const char* form) { return Attributes{{"approximate", form}}; };
  return {
      {"bias_gelu",
       {{"bias_add", {}, {input(0), input(1)}, inner(0)}, {"gelu", gelu("tanh"), {inner(0)}, {}}},
       {shape, bias}},
      {"bias_gelu",
       {{"bias_add", {}, {input(0), input(1)}, inner(0)}, {"gelu", gelu("none"), {inner(0)}, {}}},
       {shape, bias}},
      {"silu_mul",
       {{"silu", {}, {input(0)}, inner(0)}, {"mul", {}, {input(1), inner(0)}, {}}},
       {shape, bias}},
      {"mul_silu_grad",
       {{"mul", {}, {input(0), input(1)}, inner(0)}, {"silu_grad", {}, {input(2), inner(0)}, {}}},
       {shape, shape, shape}},
      {"mul_mul_silu_grad",
       {{"mul", {}, {input(0), input(1)}, inner(0)},
        {"mul", {}, {input(0), input(2)}, inner(1)},
        {"silu_grad", {}, {input(3), inner(1)}, {}}},
       {shape, shape, shape, shape}},
      {"dropout_add",
       {{"dropout", dropout, {input(0)}, inner(0)}, {"add", {}, {inner(0), input(1)}, {}}},
       {shape, shape}},
      {"bias_dropout_add",
       {{"bias_add", {}, {input(0), input(1)}, inner(0)},
        {"dropout", dropout, {inner(0)}, inner(1)},
        {"add", {}, {input(2), inner(1)}, {}}},
       {shape, bias, shape}},
  };
}

}  // namespace

TEST_CASE("a GPU keeps the elements that the CPU keeps, on every shard of every split" *
          doctest::skip(!has_gpu())) {
  const Shape global{5, 6, 16};
  const Attributes attributes = {{"rate", 0.5}, {"stream", "residual"}};
  for (const char* words : {"B", "S(0)", "S(1)", "S(2)", "P(sum)"})
    for (std::int64_t part = 0; part < 3; ++part)
      for (const DType dtype : kFloating) {
        CAPTURE(words);
        CAPTURE(part);
        const std::int64_t parts = 3;
        const Shard box =
            shard_of(global, parse_nd_sbp(words), std::span(&parts, 1), std::span(&part, 1));
        TestOperand ones{{box.local_shape(), dtype}, {}, {}, global};
        ones.values.assign(elements(ones.type.shape), 1.0);
        for (const Interval& dim : box.dims) ones.offsets.push_back(dim.offset);
        const ActPosition act{.layer = 7, .step = (std::int64_t{1} << 33) + 2, .micro_batch = 4};
        CHECK(mask_on_gpu(ones, attributes, 42, act) == mask_on_cpu(ones, attributes, 42, act));
      }
}

TEST_CASE("the mask follows layer, step, micro-batch, stream and seed as on the CPU" *
          doctest::skip(!has_gpu())) {
  TestOperand ones;
  ones.type = {Shape{3, 40}, DType::kF32};
  ones.values = Numbers(120, 1.0);
  for (const double rate : {0.0, 0.1, 0.999, 1.0})
    for (const bool per_step : {false, true})
      for (const std::uint64_t seed : {std::uint64_t{1}, ~std::uint64_t{0}})
        for (const std::int64_t at : {0, 1, 9}) {
          const Attributes attributes = {{"rate", rate}, {"stream", "s"}, {"per_step", per_step}};
          const ActPosition act{.layer = at, .step = at * 3, .micro_batch = at * 5};
          const Numbers found = mask_on_gpu(ones, attributes, seed, act);
          const Numbers wanted = mask_on_cpu(ones, attributes, seed, act);
          for (std::size_t i = 0; i < found.size(); ++i) {
            CHECK((found[i] == 0) == (wanted[i] == 0));
            CHECK(std::abs(found[i] - wanted[i]) <= 0x1p-22 * wanted[i]);
          }
        }
}

TEST_CASE("the mask goes on where indices of the global tensor pass 2^32" *
          doctest::skip(!has_gpu())) {
  const Shape global{std::int64_t{1} << 20, 8192};  // row 2^19 begins at 2^32
  const Attributes attributes = {{"rate", 0.3}, {"stream", "residual"}};
  for (const Shape& shape : {Shape{2, 8192}, Shape{3, 40}})
    for (const DType dtype : kFloating) {
      TestOperand ones{{shape, dtype}, Numbers(elements(shape), 1.0), {(1 << 19) - 1, 0}, global};
      const Numbers found = mask_on_gpu(ones, attributes, 42, {});
      const Numbers wanted = mask_on_cpu(ones, attributes, 42, {});
      for (std::size_t i = 0; i < found.size(); ++i) CHECK((found[i] == 0) == (wanted[i] == 0));
    }
}

TEST_CASE("fused chains give what their members give" * doctest::skip(!has_gpu())) {
  for (const auto& [shape, bias] : {std::pair{Shape{3, 5, 64}, Shape{64}},
                                    {Shape{7, 24}, Shape{7, 24}},
                                    {Shape{60, 1024}, Shape{1024}},
                                    {Shape{0, 16}, Shape{16}}})
    for (const Chain& chain : chains_on(shape, bias))
      for (const DType dtype : kFloating) {
        if (shape.elements() > 50'000 && dtype != DType::kBF16) continue;
        for (const bool shown : {false, true}) check_chain(chain, shape, dtype, shown, false);
        check_chain(chain, shape, dtype, false, true);
      }
}

TEST_CASE("chains of casts and scalings round as their members do" * doctest::skip(!has_gpu())) {
  const Shape shape{1003};
  const auto cast_to = [](DType dtype) {
    return Attributes{{"dtype", std::string(to_string(dtype))}};
  };
  const Attributes scale = {{"factor", 0.3}};
  for (const DType from : kFloating)
    for (const DType middle : kFloating)
      for (const DType to : kFloating)
        for (const std::string kind : {"cast_cast", "cast_scale", "scale_cast"}) {
          if (kind == "cast_scale" && middle != to) continue;
          if (kind == "scale_cast" && from != middle) continue;
          CAPTURE(kind);
          CAPTURE(std::string(to_string(from)));
          CAPTURE(std::string(to_string(middle)));
          CAPTURE(std::string(to_string(to)));
          const std::size_t split = kind.find('_');
          const std::string first = kind.substr(0, split), second = kind.substr(split + 1);
          const std::vector<Member> members = {
              {first, first == "cast" ? cast_to(middle) : scale, {input(0)}, inner(0)},
              {second, second == "cast" ? cast_to(to) : scale, {inner(0)}, output(0)}};
          TwinTensor in({shape, from}, digits(shape.elements(), 5, 3.0));
          TwinTensor between({shape, middle}, Numbers(elements(shape), 0.0));
          TwinTensor out({shape, to}, Numbers(elements(shape), 0.0));
          FusedCall call{fused_actor(kind, members, {{shape, middle}}), {&in}, {&out}, {false}};
          CudaContext device(CudaOptions{});
          const auto kernel = cuda_kernels().make(call.context(), device);
          REQUIRE(kernel != nullptr);
          kernel->enqueue(nullptr);
          TwinCall(first, members[0].attributes, {&in}, {&between}).run_reference();
          TwinCall(second, members[1].attributes, {&between}, {&out}).run_reference();
          const Numbers found = out.device_values(), wanted = out.host_values();
          // The factor is rounded to f32 where f32 is what is computed in.
          const double bound = kind == "cast_cast" ? 0 : 4 * unit(to);
          const double step = kind == "scale_cast" ? 2 * unit(middle) : 0;
          for (std::size_t i = 0; i < found.size(); ++i)
            CHECK(std::abs(found[i] - wanted[i]) <=
                  (bound + step) * std::abs(wanted[i]) + (bound > 0 ? 0x1p-23 : 0.0));
        }
}

}  // namespace sextant::dropout_test
