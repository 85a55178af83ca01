// Small checkpoints made by hand, in a folder that goes away.
#pragma once

#include "io/checkpoints/checkpoint_writer.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace sextant::testing {

struct TemporaryFolder {
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path;
};

// Bytes of a whole state that differ from place to place and from step to step.
std::vector<std::byte> values_of(const TensorType& type, std::int64_t step);

// A state cut along dim 0 into balanced parts of so many ranks; without dims all ranks but the
// first have nothing.
std::vector<SavedPiece> pieces_of(const StateName& name, const TensorType& type, std::size_t ranks,
                                  std::int64_t step);

// Of states with odd extents, a scalar and one without elements, on two ranks.
CheckpointContents small_contents(std::int64_t step);
const std::map<StateName, TensorType>& small_states();

std::string text_of_file(const std::string& path);
void write_text(const std::string& path, const std::string& text);
std::vector<std::string> files_below(const std::string& folder);  // sorted

// What is wrong with the last checkpoint of a folder: empty where all of it is as small_contents
// has it, of the step in its name. Errors other than Error(kCheckpoint) are thrown on.
std::string damage_of_last(const std::string& folder);

}  // namespace sextant::testing
