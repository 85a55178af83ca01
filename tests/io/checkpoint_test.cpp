// Checkpoints on disk: round trips, cuts at every byte of writing, damage at every byte of every
// file, names that lead outside, what is kept.
#include "core/base/error.h"
#include "io/checkpoints/background_writer.h"
#include "io/checkpoints/boxes.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "io/checkpoints/checkpoint_reader.h"
#include "io/checkpoints/checkpoint_writer.h"
#include "io/checkpoints/folder_lock.h"
#include "tests/io/cut_storage.h"
#include "tests/io/small_checkpoint.h"
#include "tests/support/long_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using namespace testing;

void save(const std::string& folder, std::int64_t step, std::int64_t keep = 0) {
  CutStorage storage(kNoCut, false);
  write_checkpoint(storage, folder, small_contents(step), keep);
}

// Of the Error(kCheckpoint) that reading it throws; empty: none.
std::string message_of_manifest(const Manifest& manifest) {
  try {
    manifest_from_json(to_json_text(manifest), "there/manifest.json");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCheckpoint);
    return error.what();
  }
  return "";
}

Manifest small_manifest() {
  Manifest manifest;
  manifest.facts.step = 3;
  manifest.states = {{{"w", "parameter"},
                      {Shape{4}, DType::kF32},
                      {{Shard{{{0, 2}}}, "rank-00000.safetensors", "w @ 0", "0"},
                       {Shard{{{2, 2}}}, "rank-00001.safetensors", "w @ 2", "0"}}}};
  return manifest;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what is saved is read, by whoever has which part") {
  const TemporaryFolder place("round_trip");
  save(place.path, 100);
  CHECK(damage_of_last(place.path).empty());
  CHECK(last_checkpoint(place.path).path == place.path + "/step-000100");
  CHECK(last_checkpoint(place.path + "/step-000100/").step == 100);
  CHECK(unfinished_in(place.path).empty());
}

// G03, G39, G40: vectors of 6 and 2 on four ranks (two of which have nothing of the second), 57 on
// two ranks, 10 and 7 one behind the other.
TEST_CASE("values come back on any number of ranks, those with nothing included") {
  const std::map<StateName, TensorType> states = {
      {{"six", "parameter"}, {Shape{6}, DType::kF32}},
      {{"two", "parameter"}, {Shape{2}, DType::kF32}},
      {{"many", "parameter"}, {Shape{57}, DType::kF32}},
      {{"bucket1", "parameter"}, {Shape{10}, DType::kF32}},
      {{"bucket2", "parameter"}, {Shape{7}, DType::kF32}}};
  for (const std::size_t ranks : {1, 2, 4}) {
    const TemporaryFolder place("ranks");
    CheckpointContents contents;
    contents.facts.step = 1;
    contents.ranks.resize(ranks);
    for (const auto& [name, type] : states)
      for (SavedPiece& piece : pieces_of(name, type, ranks, 1)) {
        std::size_t rank = 0;
        while (balanced_part(type.shape[0], static_cast<std::int64_t>(ranks),
                             static_cast<std::int64_t>(rank)) != piece.box.dims[0])
          ++rank;
        contents.ranks[rank].push_back(std::move(piece));
      }
    CutStorage storage(kNoCut, false);
    write_checkpoint(storage, place.path, contents, 0);
    CheckpointReader checkpoint(last_checkpoint(place.path));
    REQUIRE(checkpoint.manifest().states.size() == states.size());
    for (const CheckpointState& state : checkpoint.manifest().states) {
      const std::vector<std::byte> global = checkpoint.read(state);
      CHECK(global.size() == static_cast<std::size_t>(4 * state.type.shape[0]));
      for (const std::int64_t readers : {1, 2, 4, 8}) {
        std::vector<std::byte> joined;
        for (std::int64_t rank = 0; rank < readers; ++rank) {
          const Shard box{{balanced_part(state.type.shape[0], readers, rank)}};
          const std::vector<std::byte> part = cut_box(global, state.type, box);
          joined.insert(joined.end(), part.begin(), part.end());
        }
        CHECK(joined == values_of(states.at(state.name), 1));
      }
    }
  }
}

TEST_CASE("boxes tile a tensor where they meet nowhere and leave nothing out") {
  const Shape shape{4, 6};
  const Shard left{{{0, 4}, {0, 3}}}, right{{{0, 4}, {3, 3}}}, low{{{2, 2}, {3, 3}}},
      high{{{0, 2}, {3, 3}}}, outside{{{2, 3}, {3, 3}}};
  CHECK(tile(std::vector{left, right}, shape));
  CHECK(tile(std::vector{low, left, high}, shape));
  CHECK_FALSE(tile(std::vector{left, low}, shape));
  CHECK_FALSE(tile(std::vector{left, right, low}, shape));
  CHECK_FALSE(tile(std::vector{left, low, low}, shape));
  CHECK_FALSE(tile(std::vector{left, high, outside}, shape));
  CHECK_FALSE(tile(std::vector{Shard{{{0, 24}}}}, shape));
  CHECK(tile(std::vector{Shard{}}, Shape{}));
  CHECK_FALSE(tile(std::vector<Shard>(), Shape{}));
  CHECK(tile(std::vector<Shard>(), Shape{0, 6}));
}

TEST_CASE("a cut at any byte of writing leaves a whole checkpoint the last one") {
  const TemporaryFolder place("cuts");
  std::int64_t all = 0;
  {
    const TemporaryFolder other("cuts_all");
    save(other.path, 1);
    CutStorage storage(kNoCut, false);
    write_checkpoint(storage, other.path, small_contents(2), 1);
    all = storage.spent();
  }
  REQUIRE(all > 2000);  // bytes of five files and the operations between them
  for (const bool loses_unsynced : {false, true}) {
    std::set<std::int64_t> last;
    // Behind the last byte of the manifest every operation is one.
    const std::int64_t step = is_long_run() ? 1 : 9;
    for (std::int64_t budget = 0; budget <= all; budget += budget < all - 60 ? step : 1) {
      CAPTURE(budget);
      CAPTURE(loses_unsynced);
      fs::remove_all(place.path);
      save(place.path, 1);
      CutStorage storage(budget, loses_unsynced);
      bool is_cut = false;
      try {
        write_checkpoint(storage, place.path, small_contents(2), 1);
      } catch (const Cut&) {
        is_cut = true;
      }
      REQUIRE(is_cut == (budget < all));
      // All that has a checkpoint's name is whole.
      for (const FoundCheckpoint& found : checkpoints_in(place.path))
        REQUIRE(damage_of_last(found.path).empty());
      last.insert(last_checkpoint(place.path).step);
      // The next one is saved over what the cut left, and cleans up.
      save(place.path, 3, 1);
      REQUIRE(damage_of_last(place.path).empty());
      REQUIRE(checkpoints_in(place.path).size() == 1);
      REQUIRE(unfinished_in(place.path).empty());
    }
    CHECK(last == std::set<std::int64_t>{1, 2});
  }
}

TEST_CASE("damage of any byte of any file is found and named") {
  const TemporaryFolder place("damage");
  save(place.path, 7);
  REQUIRE(damage_of_last(place.path).empty());
  std::size_t files = 0;
  for (const std::string& file : files_below(place.path)) {
    CAPTURE(file);
    ++files;
    const std::string whole = text_of_file(file);
    const std::size_t step = is_long_run() || whole.size() < 600 ? 1 : 5;
    for (std::size_t at = 0; at < whole.size(); at += step) {
      CAPTURE(at);
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      write_text(file, damaged);
      REQUIRE(contains(damage_of_last(place.path), file));
    }
    for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() - 1}) {
      write_text(file, whole.substr(0, size));
      CHECK(contains(damage_of_last(place.path), file));
    }
    write_text(file, whole + " ");
    CHECK(contains(damage_of_last(place.path), file));
    fs::remove(file);
    CHECK(contains(damage_of_last(place.path), file + ": is missing"));
    // A link, even to the very file, may lead anywhere.
    write_text(place.path + "/aside", whole);
    fs::create_symlink(place.path + "/aside", file);
    CHECK(contains(damage_of_last(place.path), file + ": is no file"));
    fs::remove(file);
    fs::remove(place.path + "/aside");
    write_text(file, whole);
  }
  CHECK(files == 4);  // two shards, plan and manifest
  CHECK(damage_of_last(place.path).empty());
}

TEST_CASE("a shard that is damaged says which state needs it") {
  const TemporaryFolder place("names");
  save(place.path, 7);
  fs::remove(place.path + "/step-000007/rank-00001.safetensors");
  CHECK(contains(damage_of_last(place.path), "(needed by 'head.weight"));
}

TEST_CASE("a manifest that names what lies outside, or lies about pieces, is refused") {
  CHECK(message_of_manifest(small_manifest()).empty());
  for (const char* file :
       {"../secret", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "manifest.json", "plan.json"}) {
    CAPTURE(file);
    Manifest manifest = small_manifest();
    manifest.states[0].pieces[1].file = file;
    CHECK(contains(message_of_manifest(manifest), "no name of a shard in this folder"));
  }
  Manifest with_zero = small_manifest();
  with_zero.states[0].pieces[1].file = std::string("a\0b", 3);
  CHECK(contains(message_of_manifest(with_zero), "no name of a shard"));
  Manifest hole = small_manifest();
  hole.states[0].pieces.pop_back();
  CHECK(contains(message_of_manifest(hole), "the pieces of 'w' are not its whole"));
  Manifest twice = small_manifest();
  twice.states[0].pieces[1].box = twice.states[0].pieces[0].box;
  CHECK(contains(message_of_manifest(twice), "are not its whole"));
  Manifest nothing = small_manifest();
  nothing.states[0].pieces.push_back({Shard{{{4, 0}}}, "rank-00002.safetensors", "w", "0"});
  CHECK(contains(message_of_manifest(nothing), "the piece is empty"));
  Manifest double_name = small_manifest();
  double_name.states.push_back(double_name.states[0]);
  CHECK(contains(message_of_manifest(double_name), "a second state 'w'"));
}

TEST_CASE("extents that no machine has are refused before anything is allocated") {
  for (const std::int64_t extent : {std::int64_t{1} << 61, std::int64_t{1} << 60}) {
    Manifest manifest = small_manifest();
    manifest.states[0].type.shape = Shape{extent};
    manifest.states[0].pieces = {{Shard{{{0, extent}}}, "a", "w", "0"}};
    const std::string message = message_of_manifest(manifest);
    // The second has a number of bytes, and fails where its file is looked at.
    CHECK(message.empty() == (extent == std::int64_t{1} << 60));
  }
  const TemporaryFolder place("large");
  save(place.path, 1);
  const std::string file = place.path + "/step-000001/manifest.json";
  Manifest manifest = manifest_from_json(text_of_file(file), file);
  const std::int64_t many = std::int64_t{1} << 59;
  for (CheckpointState& state : manifest.states) {
    if (state.type.shape.rank() != 0) continue;
    state.type.shape = Shape{many};
    state.pieces[0].box = Shard{{{0, many}}};
  }
  write_text(file, to_json_text(manifest));
  CHECK(contains(damage_of_last(place.path), "the manifest says 576460752303423488 i64"));
}

TEST_CASE("a newer version and another schema are refused by name") {
  const std::string text = to_json_text(small_manifest());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      manifest_from_json(changed, "m");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCheckpoint);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(contains(with("\"version\": 1", "\"version\": 2"), "version 2 is newer than 1"));
  CHECK(contains(with("sextant.checkpoint", "other.checkpoint"), "is not sextant.checkpoint"));
}

TEST_CASE("the newest checkpoints are kept, and only when a newer one is whole") {
  const TemporaryFolder place("keep");
  for (std::int64_t step = 2; step <= 10; step += 2) save(place.path, step, 2);
  CHECK(checkpoints_in(place.path) ==
        std::vector<FoundCheckpoint>{{8, place.path + "/step-000008"},
                                     {10, place.path + "/step-000010"}});
  CutStorage storage(500, false);
  CHECK_THROWS_AS(write_checkpoint(storage, place.path, small_contents(12), 1), Cut);
  CHECK(checkpoints_in(place.path).size() == 2);
}

TEST_CASE("folders that are no checkpoints are told from those that are") {
  const TemporaryFolder place("folders");
  CHECK_THROWS_AS(last_checkpoint(place.path), Error);
  for (const char* name : {"step-7", "step-0000007", "step-x", "step-000007.unfinished", "other"})
    fs::create_directories(place.path + "/" + name);
  CHECK(checkpoints_in(place.path).empty());
  CHECK_THROWS_AS(last_checkpoint(place.path), Error);
  save(place.path, 1'234'567);
  CHECK(last_checkpoint(place.path).step == 1'234'567);
  CHECK(damage_of_last(place.path).empty());
  CHECK(fs::exists(place.path + "/step-7"));  // what is not ours stays
  CHECK_FALSE(fs::exists(place.path + "/step-000007.unfinished"));
}

// A process that is killed lets go of its lock, and the others of its run may still be writing.
TEST_CASE("a folder that processes share is free when the last of them is gone") {
  const TemporaryFolder place("shared_lock");
  CHECK_THROWS_AS(FolderLock::beside(place.path), Error);  // nobody has made it
  auto first = std::make_unique<FolderLock>(place.path);
  CHECK_THROWS_AS(FolderLock::beside(place.path), Error);
  first->share();
  auto second = std::make_unique<FolderLock>(FolderLock::beside(place.path));
  CHECK_THROWS_AS(FolderLock(place.path), Error);
  first.reset();
  CHECK_THROWS_AS(FolderLock(place.path), Error);
  second.reset();
  CHECK_NOTHROW(FolderLock(place.path));
}

TEST_CASE("a folder is one run's at a time") {
  const TemporaryFolder place("lock");
  {
    const FolderLock lock(place.path);
    CHECK_THROWS_AS(FolderLock(place.path), Error);
  }
  const FolderLock again(place.path);
  CHECK(fs::is_directory(place.path));
}

TEST_CASE("a write that fails says so from then on, and leaves no part") {
  const TemporaryFolder place("failing");
  fs::create_directories(place.path);
  write_text(place.path + "/file", "");
  CheckpointStorage storage;
  BackgroundWriter writer([&](const CheckpointContents& contents, const StopWriting& stop) {
    write_checkpoint(storage, place.path + "/file", contents, 0, stop);
  });
  writer.require_sound();
  writer.begin(small_contents(1));
  CHECK_THROWS_AS(writer.wait_until_idle(), Error);
  CHECK_THROWS_AS(writer.require_sound(), Error);
  CHECK_THROWS_AS(writer.begin(small_contents(2)), Error);
}

TEST_CASE("checkpoints are written one at a time, in order, and given up at the end") {
  std::atomic<int> at_work = 0;
  std::vector<std::int64_t> steps;
  std::atomic<bool> was_given_up = false;
  {
    BackgroundWriter writer([&](const CheckpointContents& contents, const StopWriting& stop) {
      CHECK(++at_work == 1);
      steps.push_back(contents.facts.step);
      while (contents.facts.step == 4 && !stop()) continue;
      was_given_up = stop();
      --at_work;
    });
    for (std::int64_t step = 1; step <= 3; ++step) writer.begin(small_contents(step));
    writer.wait_until_idle();
    CHECK(steps == std::vector<std::int64_t>{1, 2, 3});
    CHECK_FALSE(was_given_up);
    writer.begin(small_contents(4));
    while (at_work == 0) continue;
  }
  CHECK(was_given_up);
}

TEST_CASE("writing that is stopped leaves what was there") {
  const TemporaryFolder place("stopped");
  save(place.path, 1);
  CheckpointStorage storage;
  int asked = 0;
  CHECK_THROWS_AS(
      write_checkpoint(storage, place.path, small_contents(2), 0, [&] { return ++asked > 3; }),
      Error);
  CHECK(last_checkpoint(place.path).step == 1);
  CHECK(unfinished_in(place.path).empty());
}

}  // namespace sextant::checkpoint_test
