// What a checkpoint says of itself: of which training it is, and where every piece of every state
// lies. No file but the manifest's own text is read here.
#pragma once

#include "core/graphs/state_registers.h"
#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kCheckpointPlanFile = "plan.json";
inline constexpr std::int64_t kCheckpointVersion = 1;
inline constexpr std::size_t kMostPieces = 16'384;  // of one state

// Of which training a checkpoint is, and how far that was.
struct TrainingFacts {
  std::int64_t step = 0;     // trained steps, which is the number of the next one
  std::int64_t samples = 0;  // that the loader has given, over all steps
  std::uint64_t seed = 0;
  std::string model, model_hash;
  std::string optimizer;       // its text (compiler/training/optimizer_options.h)
  std::string optimizer_kind;  // the first word of it
  std::string strategy, plan_hash;
  std::int64_t devices = 1, global_batch = 1;
  std::string data;  // hash of the ids, or "random"
  bool operator==(const TrainingFacts&) const = default;
};

struct CheckpointPiece {
  Shard box;
  std::string file;  // in the checkpoint's folder
  std::string key;   // of the tensor in it
  std::string checksum;
  bool operator==(const CheckpointPiece&) const = default;
};

struct CheckpointState {
  StateName name;
  TensorType type;
  std::vector<CheckpointPiece> pieces;  // none is empty; together they are the whole
  bool operator==(const CheckpointState&) const = default;
};

struct Manifest {
  TrainingFacts facts;
  std::string plan_checksum;  // of plan.json
  std::vector<CheckpointState> states;
  bool operator==(const Manifest&) const = default;
};

std::string to_json_text(const Manifest& manifest);
// Throws Error(kCheckpoint) naming `path` and what is wrong: another version, a checksum that is
// not that of the text, a name that leads outside, pieces that are not the whole of their state.
Manifest manifest_from_json(std::string_view text, const std::string& path);

// Parts of states, on their way from one who writes shards to who writes the manifest. What is read
// back has been checked as in a manifest, but for being whole; refusals name `path`.
std::string to_json_text(const std::vector<CheckpointState>& states);
std::vector<CheckpointState> states_from_json(std::string_view text, const std::string& path);

// Sum over all states; a checkpoint takes little more.
std::int64_t bytes_of_states(const Manifest& manifest);

}  // namespace sextant
