// Values follow from place and step, so a reader can tell what should be there.
#include "tests/io/small_checkpoint.h"

#include "core/base/error.h"
#include "io/checkpoints/boxes.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checkpoint_reader.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace sextant::testing {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(const std::string& name)
    : path(fs::temp_directory_path() / ("sextant_checkpoint_" + name)) {
  fs::remove_all(path);
}
TemporaryFolder::~TemporaryFolder() { fs::remove_all(path); }

std::vector<std::byte> values_of(const TensorType& type, std::int64_t step) {
  std::vector<std::byte> values(static_cast<std::size_t>(size_of(type).value));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::byte>((i * 31 + static_cast<std::size_t>(step) * 7 + 1) % 251);
  return values;
}

std::vector<SavedPiece> pieces_of(const StateName& name, const TensorType& type, std::size_t ranks,
                                  std::int64_t step) {
  const std::vector<std::byte> values = values_of(type, step);
  std::vector<SavedPiece> pieces;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Shard box;
    for (const std::int64_t extent : type.shape.extents()) box.dims.push_back({0, extent});
    if (!box.dims.empty())
      box.dims[0] = balanced_part(type.shape[0], static_cast<std::int64_t>(ranks),
                                  static_cast<std::int64_t>(rank));
    const bool is_all = rank == 0 && (box.dims.empty() || type.shape.elements() == 0);
    if (!is_all && (box.dims.empty() || box.is_empty())) continue;
    pieces.push_back(piece_with(name, type, box, cut_box(values, type, box)));
  }
  return pieces;
}

const std::map<StateName, TensorType>& small_states() {
  static const std::map<StateName, TensorType> states = {
      {{"head.weight", "parameter"}, {Shape{5, 3}, DType::kF32}},
      {{"head.weight", "first_moment"}, {Shape{5, 3}, DType::kBF16}},
      {{"head.weight", "updates"}, {Shape{}, DType::kI64}},
      {{"nothing", "parameter"}, {Shape{0, 4}, DType::kF32}}};
  return states;
}

CheckpointContents small_contents(std::int64_t step) {
  CheckpointContents contents;
  contents.facts.step = step;
  contents.facts.samples = 4 * step;
  contents.facts.model = "tiny \"quoted\"";
  contents.facts.optimizer_kind = "adamw";
  contents.plan_text = "{\"schema\": \"a plan\"}\n";
  contents.ranks.resize(2);
  for (const auto& [name, type] : small_states()) {
    std::size_t rank = 0;
    for (SavedPiece& piece : pieces_of(name, type, 2, step))
      contents.ranks[rank++].push_back(std::move(piece));
  }
  return contents;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string damage_of_last(const std::string& folder) {
  const FoundCheckpoint found = last_checkpoint(folder);
  try {
    CheckpointReader checkpoint(found);
    checkpoint.check();
    std::size_t states = 0;
    for (const CheckpointState& state : checkpoint.manifest().states) {
      const auto known = small_states().find(state.name);
      if (known == small_states().end() || known->second != state.type)
        return to_string(state.name) + " is another state";
      if (checkpoint.read(state) != values_of(state.type, found.step))
        return to_string(state.name) + " has other values";
      ++states;
    }
    return states == small_states().size() ? "" : "a state is missing";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCheckpoint) throw;
    return error.what();
  }
}

}  // namespace sextant::testing
