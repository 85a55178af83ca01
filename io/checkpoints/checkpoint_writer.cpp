// Files first, each on the disk before the next; then the name that makes them a checkpoint.
#include "io/checkpoints/checkpoint_writer.h"

#include "core/base/check.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checksum.h"
#include "io/safetensors.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kWrittenAtOnce = std::size_t{4} << 20;

std::string shard_name(std::size_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }

// Within a shard a state has one piece only, unless two placements cut it: the offset tells apart.
std::string key_of(const SavedPiece& piece) {
  std::string key = to_string(piece.name);
  if (piece.box.elements() == piece.type.shape.elements()) return key;
  key += " @";
  for (const Interval& part : piece.box.dims) key += fmt::format(" {}", part.offset);
  return key;
}

std::span<const std::byte> text_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class FileWriter {
 public:
  FileWriter(CheckpointStorage& storage, std::string folder, const StopWriting& stop)
      : storage_(storage), folder_(std::move(folder)), stop_(stop) {}

  std::int64_t write(const std::string& name,
                     const std::vector<std::span<const std::byte>>& parts) const {
    const std::unique_ptr<StoredFile> file = storage_.create(folder_ + "/" + name);
    std::int64_t bytes = 0;
    for (const std::span<const std::byte> part : parts) {
      write_part(*file, part);
      bytes += static_cast<std::int64_t>(part.size());
    }
    file->sync();
    return bytes;
  }

 private:
  void write_part(StoredFile& file, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      require(!stop_ || !stop_(), ErrorCode::kUsage, "{}: writing was stopped", folder_);
      const std::size_t part = std::min(kWrittenAtOnce, bytes.size());
      file.write(bytes.first(part));
      bytes = bytes.subspan(part);
    }
  }

  CheckpointStorage& storage_;
  const std::string folder_;
  const StopWriting& stop_;
};

using States = std::map<StateName, CheckpointState>;

CheckpointState& state_of(States& states, const StateName& name, const TensorType& type) {
  CheckpointState& state = states[name];
  state.name = name;
  state.type = type;
  return state;
}

std::vector<CheckpointState> list_of(const States& states) {
  std::vector<CheckpointState> list;
  for (const auto& [name, state] : states) list.push_back(state);
  return list;
}

// Pieces without elements are noted as states, and have no bytes anywhere.
void write_shard(const FileWriter& files, std::size_t rank, const std::vector<SavedPiece>& pieces,
                 States& states, std::map<std::string, std::int64_t>& written) {
  std::vector<NamedTensor> tensors;
  std::vector<const SavedPiece*> in_file;
  for (const SavedPiece& piece : pieces) {
    state_of(states, piece.name, piece.type);
    if (piece.box.is_empty()) continue;
    in_file.push_back(&piece);
    tensors.push_back({key_of(piece), {piece.box.local_shape(), piece.type.dtype}});
  }
  if (in_file.empty()) return;
  const std::string head = safetensors_head(tensors);
  std::vector<std::span<const std::byte>> parts{text_bytes(head)};
  for (std::size_t i = 0; i < in_file.size(); ++i) {
    parts.push_back(in_file[i]->bytes);
    states[in_file[i]->name].pieces.push_back(
        {in_file[i]->box, shard_name(rank), tensors[i].name, checksum_of(in_file[i]->bytes)});
  }
  written[shard_name(rank)] = files.write(shard_name(rank), parts);
}

// Of what is deleted, nothing has a checkpoint's name at any moment.
void keep_newest(CheckpointStorage& storage, const std::string& directory, std::int64_t step,
                 std::int64_t keep) {
  std::vector<FoundCheckpoint> found = checkpoints_in(directory);
  std::erase_if(found, [step](const FoundCheckpoint& one) { return one.step > step; });
  const std::size_t kept = keep <= 0 ? found.size() : static_cast<std::size_t>(keep);
  for (std::size_t i = 0; i + kept < found.size(); ++i) {
    storage.remove(unfinished_folder(found[i].path));
    storage.rename(found[i].path, unfinished_folder(found[i].path));
    storage.sync_folder(directory);  // else its files could be gone and its name still be there
    storage.remove(unfinished_folder(found[i].path));
  }
}

// What was wrong first is what counts.
void remove_if_possible(CheckpointStorage& storage, const std::string& path) {
  try {
    storage.remove(path);
  } catch (const Error&) {
    return;
  }
}

}  // namespace

SavedPiece piece_with(const StateName& name, const TensorType& type, const Shard& box,
                      std::vector<std::byte> bytes) {
  const auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {name, type, box, *held, held};
}

std::vector<SavedPiece> saved_pieces(
    const std::vector<StateRegister>& states,
    const std::function<std::span<const std::byte>(std::size_t)>& bytes,
    const std::shared_ptr<const void>& holder) {
  std::vector<SavedPiece> pieces;
  for (std::size_t i = 0; i < states.size(); ++i)
    pieces.push_back({states[i].name, states[i].global, states[i].box, bytes(i), holder});
  return pieces;
}

std::string begin_checkpoint(CheckpointStorage& storage, const std::string& directory,
                             std::int64_t step) {
  storage.make_folder(directory);
  for (const std::string& left : unfinished_in(directory)) storage.remove(left);
  std::string folder = unfinished_folder(directory + "/" + checkpoint_folder_name(step));
  storage.make_folder(folder);
  return folder;
}

WrittenShards write_shards(CheckpointStorage& storage, const std::string& folder,
                           const CheckpointContents& contents, const StopWriting& stop) {
  const FileWriter files(storage, folder, stop);
  States states;
  WrittenShards written;
  for (std::size_t rank = 0; rank < contents.ranks.size(); ++rank)
    write_shard(files, rank, contents.ranks[rank], states, written.files);
  written.states = list_of(states);
  return written;
}

WrittenCheckpoint complete_checkpoint(CheckpointStorage& storage, const std::string& directory,
                                      const CheckpointContents& contents,
                                      const std::vector<WrittenShards>& shards, std::int64_t keep,
                                      const StopWriting& stop) {
  const std::string path = directory + "/" + checkpoint_folder_name(contents.facts.step);
  const std::string folder = unfinished_folder(path);
  States states;
  WrittenCheckpoint written{path, 0};
  for (const WrittenShards& part : shards) {
    for (const auto& [file, bytes] : part.files) written.bytes += bytes;
    for (const CheckpointState& state : part.states) {
      std::vector<CheckpointPiece>& pieces = state_of(states, state.name, state.type).pieces;
      pieces.insert(pieces.end(), state.pieces.begin(), state.pieces.end());
    }
  }
  const FileWriter files(storage, folder, stop);
  written.bytes += files.write(kCheckpointPlanFile, {text_bytes(contents.plan_text)});
  const std::string manifest = to_json_text(
      Manifest{contents.facts, checksum_of(std::string_view(contents.plan_text)), list_of(states)});
  written.bytes += files.write(kManifestFile, {text_bytes(manifest)});
  storage.sync_folder(folder);
  storage.rename(folder, path);
  storage.sync_folder(directory);
  keep_newest(storage, directory, contents.facts.step, keep);
  return written;
}

void give_up_checkpoint(CheckpointStorage& storage, const std::string& folder) {
  remove_if_possible(storage, folder);
}

WrittenCheckpoint write_checkpoint(CheckpointStorage& storage, const std::string& directory,
                                   const CheckpointContents& contents, std::int64_t keep,
                                   const StopWriting& stop) {
  const std::string folder =
      unfinished_folder(directory + "/" + checkpoint_folder_name(contents.facts.step));
  try {
    begin_checkpoint(storage, directory, contents.facts.step);
    const WrittenShards shards = write_shards(storage, folder, contents, stop);
    return complete_checkpoint(storage, directory, contents, {shards}, keep, stop);
  } catch (...) {
    give_up_checkpoint(storage, folder);
    throw;
  }
}

}  // namespace sextant
