// Pieces are put together to global tensors.
#include "io/checkpoints/checkpoint_reader.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "io/checkpoints/boxes.h"
#include "io/checkpoints/checksum.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ios>
#include <set>
#include <utility>

namespace sextant {
namespace {

// Whatever is wrong with a file of a checkpoint is damage.
template <typename Function>
auto damage_in(const std::string& what, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    throw Error(ErrorCode::kCheckpoint, fmt::format("{}{}", error.what(), what), error.hints());
  }
}

std::string needed_by(const StateName& name) {
  return fmt::format(" (needed by '{}')", to_string(name));
}

std::string type_text(const TensorType& type) {
  return fmt::format("{} {}", to_string(type.shape), to_string(type.dtype));
}

// Links may lead anywhere: what is read is a file of the folder itself.
void require_own_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  require(std::filesystem::exists(status), ErrorCode::kCheckpoint, "{}: is missing", path);
  require(std::filesystem::is_regular_file(status), ErrorCode::kCheckpoint, "{}: is no file", path);
}

// Blanks behind the header say nothing, and are no tensor's.
void require_written_head(const std::string& path, const SafetensorsFile& file) {
  const std::string wanted = safetensors_head(file.tensors());
  std::string found(wanted.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(found.data(), static_cast<std::streamsize>(found.size()));
  require(found == wanted, ErrorCode::kCheckpoint, "{}: its header is not as it was written", path);
}

std::string own_text(const std::string& path) {
  return damage_in("", [&] {
    require_own_file(path);
    return read_text_file(path);
  });
}

}  // namespace

CheckpointReader::CheckpointReader(const FoundCheckpoint& found)
    : path_(found.path),
      manifest_(
          manifest_from_json(own_text(path_ + "/" + kManifestFile), path_ + "/" + kManifestFile)) {
  require(manifest_.facts.step == found.step, ErrorCode::kCheckpoint, "{}/{}: is of step {}", path_,
          kManifestFile, manifest_.facts.step);
}

const SafetensorsFile& CheckpointReader::shard(const std::string& file,
                                               const StateName& for_state) {
  std::unique_ptr<SafetensorsFile>& shard = shards_[file];
  if (!shard)
    shard = damage_in(needed_by(for_state), [&] {
      const std::string path = path_ + "/" + file;
      require_own_file(path);
      auto opened = std::make_unique<SafetensorsFile>(path);
      require_written_head(path, *opened);
      return opened;
    });
  return *shard;
}

std::vector<std::byte> CheckpointReader::read(const CheckpointState& state) {
  // Headers first: they say whether the bytes are there at all.
  for (const CheckpointPiece& piece : state.pieces) {
    const NamedTensor wanted{piece.key, {piece.box.local_shape(), state.type.dtype}};
    const std::vector<NamedTensor>& tensors = shard(piece.file, state.name).tensors();
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const auto& one) { return one.name == piece.key; });
    require(found != tensors.end(), ErrorCode::kCheckpoint, "{}/{}: has no tensor '{}'", path_,
            piece.file, piece.key);
    require(found->type == wanted.type, ErrorCode::kCheckpoint,
            "{}/{}: '{}' is {}, the manifest says {}", path_, piece.file, piece.key,
            type_text(found->type), type_text(wanted.type));
  }
  std::vector<std::byte> global(static_cast<std::size_t>(size_of(state.type).value));
  for (const CheckpointPiece& piece : state.pieces) {
    const std::vector<std::byte> bytes = damage_in(
        needed_by(state.name), [&] { return shard(piece.file, state.name).read(piece.key); });
    const std::string found = checksum_of(std::span<const std::byte>(bytes));
    require(found == piece.checksum, ErrorCode::kCheckpoint,
            "{}/{}: '{}' is damaged: checksum {}, not {}", path_, piece.file, piece.key, found,
            piece.checksum);
    put_box(bytes, state.type, piece.box, global);
  }
  return global;
}

std::string CheckpointReader::plan_text() const {
  const std::string path = path_ + "/" + kCheckpointPlanFile;
  std::string text = own_text(path);
  const std::string found = checksum_of(std::string_view(text));
  require(found == manifest_.plan_checksum, ErrorCode::kCheckpoint,
          "{}: is damaged: checksum {}, not {}", path, found, manifest_.plan_checksum);
  return text;
}

void CheckpointReader::check() {
  plan_text();
  for (const CheckpointState& state : manifest_.states) read(state);
  // Every byte of a shard is of some piece, and every tensor of one.
  std::map<std::string, std::set<std::string>> known;
  for (const CheckpointState& state : manifest_.states)
    for (const CheckpointPiece& piece : state.pieces) known[piece.file].insert(piece.key);
  for (const auto& [file, shard] : shards_)
    for (const NamedTensor& tensor : shard->tensors())
      require(known[file].contains(tensor.name), ErrorCode::kCheckpoint,
              "{}/{}: has a tensor '{}', which the manifest does not know", path_, file,
              tensor.name);
}

}  // namespace sextant
