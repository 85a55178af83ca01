// States of the role "parameter" get the values of a file, all else what it begins with.
#include "cli/training/run_weights.h"

#include "cli/training/run_start.h"
#include "core/base/check.h"
#include "core/graphs/state_registers.h"
#include "core/text/counted_text.h"
#include "io/checkpoints/state_copies.h"
#include "models/hugging_face_weights.h"

#include <fmt/core.h>

#include <cstdint>

namespace sextant {

RunWeights::RunWeights(const std::string& path, const AnyModel& model, const PhysicalGraph& graph) {
  std::vector<NamedTensor> own;
  for (const auto& [name, type] : states_of_role(graph, kParameterRole))
    own.push_back({name, type});
  weights_.emplace(path);
  id_ = weights_->fingerprint();
  if (weights_->has_own_names(own)) {
    weights_->match(own, {});
    return;
  }
  const auto* config = std::get_if<ModelConfig>(&model);
  require(config != nullptr, ErrorCode::kBadInput,
          "{}: has none of the parameters of {} under our names, and other names are known of "
          "transformers alone",
          path, name_of(model));
  weights_->match(own, hugging_face_weights(*config));
}

void RunWeights::load(const PhysicalGraph& graph, const std::vector<Device*>& devices) const {
  if (!weights_) return;
  load_role(
      graph, kParameterRole, [&](const std::string& owner) { return weights_->read(owner); },
      writing_to(devices), [&](Rank rank) { return devices[rank.index()] != nullptr; });
}

void RunWeights::say(const Console& console) const {
  if (weights_)
    console.say(
        fmt::format("begins with {} of {}",
                    counted(static_cast<std::int64_t>(weights_->num_parameters()), "parameter"),
                    weights_->path()));
}

}  // namespace sextant
