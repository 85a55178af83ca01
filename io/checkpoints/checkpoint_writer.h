// A checkpoint from memory to disk: whole under its name, or not there.
#pragma once

#include "core/graphs/state_registers.h"
#include "io/checkpoints/manifest.h"
#include "io/checkpoints/storage.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// A box of a state with its values, row-major.
struct SavedPiece {
  StateName name;
  TensorType type;  // of the whole state
  Shard box;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> holder;  // of the bytes
};
SavedPiece piece_with(const StateName& name, const TensorType& type, const Shard& box,
                      std::vector<std::byte> bytes);
// The boxes of a rank's states; `bytes` of one by its position lie where `holder` keeps them.
std::vector<SavedPiece> saved_pieces(
    const std::vector<StateRegister>& states,
    const std::function<std::span<const std::byte>(std::size_t)>& bytes,
    const std::shared_ptr<const void>& holder);

// Everything of one checkpoint, by rank. The pieces of all ranks together are every state once.
struct CheckpointContents {
  TrainingFacts facts;
  std::string plan_text;
  std::vector<std::vector<SavedPiece>> ranks;
};

struct WrittenCheckpoint {
  std::string path;
  std::int64_t bytes = 0;  // of all files
};

// Asked between two parts of a file; true ends the writing with Error(kUsage).
using StopWriting = std::function<bool()>;

// Shards that are on the disk.
struct WrittenShards {
  std::vector<CheckpointState> states;        // with their pieces in these shards
  std::map<std::string, std::int64_t> files;  // bytes, by name in the folder
};

// Writes DIR/step-N, then deletes all but the newest `keep` checkpoints up to this step (0: keeps
// all) and what is unfinished. Throws Error(kBadInput) naming the file that cannot be written; then
// DIR is as it was, but for unfinished names.
WrittenCheckpoint write_checkpoint(CheckpointStorage& storage, const std::string& directory,
                                   const CheckpointContents& contents, std::int64_t keep,
                                   const StopWriting& stop = {});

// One checkpoint in parts, for several who write it: one begins it, all write shards of ranks
// of their own, and when all shards are on the disk the one completes it or gives it up. Returns
// the folder of the shards.
std::string begin_checkpoint(CheckpointStorage& storage, const std::string& directory,
                             std::int64_t step);
WrittenShards write_shards(CheckpointStorage& storage, const std::string& folder,
                           const CheckpointContents& contents, const StopWriting& stop = {});
// `contents`: facts and plan; their ranks are not looked at.
WrittenCheckpoint complete_checkpoint(CheckpointStorage& storage, const std::string& directory,
                                      const CheckpointContents& contents,
                                      const std::vector<WrittenShards>& shards, std::int64_t keep,
                                      const StopWriting& stop = {});
void give_up_checkpoint(CheckpointStorage& storage, const std::string& folder);

}  // namespace sextant
