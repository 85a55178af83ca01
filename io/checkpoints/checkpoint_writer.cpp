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

class FolderWriter {
 public:
  FolderWriter(CheckpointStorage& storage, std::string folder, const StopWriting& stop)
      : storage_(storage), folder_(std::move(folder)), stop_(stop) {}

  void write_text(const std::string& name, const std::string& text) {
    const std::unique_ptr<StoredFile> file = storage_.create(folder_ + "/" + name);
    write(*file, text_bytes(text));
    file->sync();
  }

  // Pieces without elements are noted as states, and have no bytes anywhere.
  void write_shard(std::size_t rank, const std::vector<SavedPiece>& pieces) {
    std::vector<NamedTensor> tensors;
    std::vector<const SavedPiece*> written;
    for (const SavedPiece& piece : pieces) {
      CheckpointState& state = states_[piece.name];
      state.name = piece.name;
      state.type = piece.type;
      if (piece.box.is_empty()) continue;
      written.push_back(&piece);
      tensors.push_back({key_of(piece), {piece.box.local_shape(), piece.type.dtype}});
    }
    if (written.empty()) return;
    const std::unique_ptr<StoredFile> file = storage_.create(folder_ + "/" + shard_name(rank));
    write(*file, text_bytes(safetensors_head(tensors)));
    for (std::size_t i = 0; i < written.size(); ++i) {
      write(*file, written[i]->bytes);
      states_[written[i]->name].pieces.push_back(
          {written[i]->box, shard_name(rank), tensors[i].name,
           checksum_of(std::span<const std::byte>(written[i]->bytes))});
    }
    file->sync();
  }

  std::vector<CheckpointState> states() const {
    std::vector<CheckpointState> states;
    for (const auto& [name, state] : states_) states.push_back(state);
    return states;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void write(StoredFile& file, std::span<const std::byte> bytes) {
    bytes_ += static_cast<std::int64_t>(bytes.size());
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
  std::map<StateName, CheckpointState> states_;
  std::int64_t bytes_ = 0;
};

std::int64_t write_folder(CheckpointStorage& storage, const std::string& folder,
                          const CheckpointContents& contents, const StopWriting& stop) {
  storage.make_folder(folder);
  FolderWriter writer(storage, folder, stop);
  for (std::size_t rank = 0; rank < contents.ranks.size(); ++rank)
    writer.write_shard(rank, contents.ranks[rank]);
  writer.write_text(kCheckpointPlanFile, contents.plan_text);
  const Manifest manifest{contents.facts, checksum_of(std::string_view(contents.plan_text)),
                          writer.states()};
  writer.write_text(kManifestFile, to_json_text(manifest));
  storage.sync_folder(folder);
  return writer.bytes();
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

WrittenCheckpoint write_checkpoint(CheckpointStorage& storage, const std::string& directory,
                                   const CheckpointContents& contents, std::int64_t keep,
                                   const StopWriting& stop) {
  const std::string path = directory + "/" + checkpoint_folder_name(contents.facts.step);
  const std::string unfinished = unfinished_folder(path);
  storage.make_folder(directory);
  for (const std::string& left : unfinished_in(directory)) storage.remove(left);
  WrittenCheckpoint written{path, 0};
  try {
    written.bytes = write_folder(storage, unfinished, contents, stop);
    storage.rename(unfinished, path);
  } catch (...) {
    remove_if_possible(storage, unfinished);
    throw;
  }
  storage.sync_folder(directory);
  keep_newest(storage, directory, contents.facts.step, keep);
  return written;
}

}  // namespace sextant
