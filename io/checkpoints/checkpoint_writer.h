// A checkpoint from memory to disk: whole under its name, or not there.
#pragma once

#include "io/checkpoints/manifest.h"
#include "io/checkpoints/storage.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

// A box of a state with its values, row-major.
struct SavedPiece {
  StateName name;
  TensorType type;  // of the whole state
  Shard box;
  std::vector<std::byte> bytes;
};

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

// Writes DIR/step-N, then deletes all but the newest `keep` checkpoints up to this step (0: keeps
// all) and what is unfinished. Throws Error(kBadInput) naming the file that cannot be written; then
// DIR is as it was, but for unfinished names.
WrittenCheckpoint write_checkpoint(CheckpointStorage& storage, const std::string& directory,
                                   const CheckpointContents& contents, std::int64_t keep,
                                   const StopWriting& stop = {});

}  // namespace sextant
