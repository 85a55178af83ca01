// Calls one kernel on values given in double: for tests of kernels, without graph or device.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/elements.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// An operand: its local type, its contents, and where its box begins in the global tensor (zeros if
// left out). Its global shape is its local one if left out.
struct TestOperand {
  TensorType type;
  std::vector<double> values;
  std::vector<std::int64_t> offsets = {};
  std::optional<Shape> global = {};
};

inline Shard box_at(const Shape& shape, const std::vector<std::int64_t>& offsets) {
  Shard box;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    box.dims.push_back({offsets.empty() ? 0 : offsets[dim], shape[dim]});
  return box;
}

class KernelCall {
 public:
  KernelCall(std::string kind, Attributes attributes) {
    actor_.kind = std::move(kind);
    actor_.name = "under test";
    actor_.attributes = std::move(attributes);
    context_.actor = &actor_;
  }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  KernelCall& input(TestOperand operand) {
    context_.in.push_back(hold(std::move(operand)));
    return *this;
  }
  // `operand.values` are the contents before the call (zeros if left out).
  KernelCall& output(TestOperand operand, bool accumulate = false) {
    context_.out.push_back(hold(std::move(operand)));
    context_.accumulate.push_back(accumulate);
    return *this;
  }
  KernelCall& words(const std::string& from, const std::string& to) {
    layouts_[0].words = parse_nd_sbp(from);
    layouts_.back().words = parse_nd_sbp(to);
    return *this;
  }
  KernelCall& at(std::vector<std::int64_t> hierarchy, std::vector<std::int64_t> coordinates) {
    context_.hierarchy = std::move(hierarchy);
    context_.coordinates = std::move(coordinates);
    return *this;
  }

  KernelCall& during(std::uint64_t seed, const ActPosition& act) {
    context_.seed = seed;
    context_.act = act;
    return *this;
  }

  // From now on on a team, with the workspace that the kernel states in one piece, as on a device.
  KernelCall& on(Team& team, const KernelTable& table) {
    workspace_ = Workspace(&team);
    workspace_.reserve(stated_workspace(table, team.threads()));
    return *this;
  }

  // Runs and returns the outputs; may be called again on the outputs it left.
  std::vector<std::vector<double>> run(const KernelTable& table) {
    const Kernel kernel = table.find(actor_.kind, context_);
    if (kernel == nullptr) return {};
    kernel(context_, workspace_);
    std::vector<std::vector<double>> results;
    for (const KernelOperand& operand : context_.out) {
      results.emplace_back(static_cast<std::size_t>(operand.local.shape.elements()));
      load_as_double(operand.local.dtype, operand.data, results.back());
    }
    return results;
  }
  // The bytes of an operand, for contents that no double holds.
  std::byte* input_data(std::size_t index) { return context_.in[index].data; }
  std::byte* output_data(std::size_t index) { return context_.out[index].data; }
  Kernel kernel(const KernelTable& table) const { return table.find(actor_.kind, context_); }
  // What the call states and what it has taken, in bytes.
  std::int64_t stated_workspace(const KernelTable& table, std::int64_t threads = 1) const {
    return table.workspace(actor_.kind, context_, threads);
  }
  std::int64_t taken_workspace() const { return workspace_.most(); }

 private:
  KernelOperand hold(TestOperand given) {
    const auto count = static_cast<std::size_t>(given.type.shape.elements());
    if (given.values.empty()) given.values.assign(count, 0.0);
    bytes_.emplace_back(count * static_cast<std::size_t>(size_of(given.type.dtype).value) + 64);
    store_from_double(given.type.dtype, given.values, bytes_.back().data());
    layouts_.push_back(
        {{given.global.value_or(given.type.shape), given.type.dtype}, {}, PlacementId(0)});
    return {bytes_.back().data(), given.type, &layouts_.back(),
            box_at(given.type.shape, given.offsets)};
  }

  Actor actor_;
  KernelContext context_;
  std::deque<Layout> layouts_;
  std::deque<std::vector<std::byte>> bytes_;
  Workspace workspace_;
};

}  // namespace sextant
