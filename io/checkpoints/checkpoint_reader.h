// A checkpoint from disk: its manifest and its states, checked on the way. Every damage is an
// Error(kCheckpoint) that names the file and, where there is one, the state.
#pragma once

#include "core/graphs/state_registers.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/manifest.h"
#include "io/safetensors.h"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sextant {

class CheckpointReader {
 public:
  // Reads the manifest, which must be of the step in the folder's name.
  explicit CheckpointReader(const FoundCheckpoint& found);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  // The whole state, row-major. All checksums of its pieces have been compared.
  std::vector<std::byte> read(const CheckpointState& state);
  // The plan that wrote it, as text.
  std::string plan_text() const;
  // Everything that can be damaged: every shard, every state, the plan.
  void check();

 private:
  const SafetensorsFile& shard(const std::string& file, const StateName& for_state);

  std::string path_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> shards_;
};

}  // namespace sextant
