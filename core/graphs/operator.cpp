// The operator registry and which products of rows fit a mesh.
#include "core/graphs/operator.h"

#include "core/base/check.h"
#include "core/base/nearest.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

bool share_a_split_dim(const std::vector<Sbp>& a, const std::vector<Sbp>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].is_split() && b[i].is_split() && a[i].dim == b[i].dim) return true;
  return false;
}

bool share_a_split_dim(const SbpSignature& a, const SbpSignature& b) {
  return share_a_split_dim(a.inputs, b.inputs) || share_a_split_dim(a.outputs, b.outputs);
}

// Every device has one part, and no other axis cuts it along the ring.
bool fits_ring(std::span<const SbpSignature* const> rows, std::size_t axis, std::int64_t parts) {
  if (parts != rows[axis]->ring) return false;
  for (std::size_t other = 0; other < rows.size(); ++other)
    if (other != axis && share_a_split_dim(*rows[other], *rows[axis])) return false;
  return true;
}

[[noreturn]] void refuse_attribute(const OperatorDef& def, std::string_view name) {
  std::vector<std::string> known;
  for (const AttributeDef& one : def.attributes) known.emplace_back(one.name);
  if (known.empty())
    fail(ErrorCode::kBadInput, "{}: unknown attribute '{}': the operator has none", def.kind, name);
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{}: unknown attribute '{}'{}", def.kind, name, did_you_mean(name, known)),
      {"known attributes: " + comma_list(known)});
}

std::size_t depth_of(std::size_t axis, std::span<const std::size_t> outermost_first) {
  const auto at = std::find(outermost_first.begin(), outermost_first.end(), axis);
  return outermost_first.empty() ? axis : static_cast<std::size_t>(at - outermost_first.begin());
}

}  // namespace

bool fits(std::span<const SbpSignature* const> rows, std::span<const std::int64_t> hierarchy,
          std::span<const std::size_t> outermost_first) {
  for (std::size_t axis = 0; axis < rows.size(); ++axis) {
    if (rows[axis]->ring != 0 && !fits_ring(rows, axis, hierarchy[axis])) return false;
    const std::int64_t divisible = rows[axis]->divisible;
    if (divisible == 0) continue;
    std::int64_t parts = 1;
    for (std::size_t other = 0; other < rows.size(); ++other) {
      if (*rows[other] == *rows[axis]) {
        parts *= hierarchy[other];
      } else if (share_a_split_dim(*rows[other], *rows[axis]) &&
                 depth_of(other, outermost_first) < depth_of(axis, outermost_first)) {
        return false;
      }
    }
    if (divisible % parts != 0) return false;
  }
  return true;
}

void require_attributes(const OperatorDef& def, const Attributes& attributes) {
  for (const auto& [name, value] : attributes.entries()) {
    const auto known = std::find_if(def.attributes.begin(), def.attributes.end(),
                                    [&](const AttributeDef& one) { return one.name == name; });
    if (known == def.attributes.end()) refuse_attribute(def, name);
    require(type_of(value) == known->type, ErrorCode::kBadInput,
            "{}: the attribute '{}' is {}, wanted {}", def.kind, name, to_string(type_of(value)),
            to_string(known->type));
  }
  for (const AttributeDef& known : def.attributes)
    require(known.presence == AttributeDef::Presence::kOptional || attributes.contains(known.name),
            ErrorCode::kBadInput, "{}: the attribute '{}', {}, is missing", def.kind, known.name,
            to_string(known.type));
}

void OperatorRegistry::add(OperatorDef def) {
  require(find(def.kind) == nullptr, ErrorCode::kUsage, "two operators have the kind '{}'",
          def.kind);
  std::string kind = def.kind;
  defs_.emplace(std::move(kind), std::move(def));
}

const OperatorDef* OperatorRegistry::find(std::string_view kind) const {
  const auto found = defs_.find(kind);
  return found == defs_.end() ? nullptr : &found->second;
}

const OperatorDef& OperatorRegistry::get(std::string_view kind) const {
  const OperatorDef* const def = find(kind);
  if (def != nullptr) return *def;
  fail(ErrorCode::kBadInput, "unknown operator kind '{}'{}", kind, did_you_mean(kind, kinds()));
}

std::vector<std::string> OperatorRegistry::kinds() const {
  std::vector<std::string> kinds;
  kinds.reserve(defs_.size());
  for (const auto& [kind, def] : defs_) kinds.push_back(kind);
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

}  // namespace sextant
