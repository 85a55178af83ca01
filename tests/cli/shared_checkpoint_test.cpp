// A checkpoint that processes write together, here threads with nothing in common but a host group
// and a folder: whole, or not there, wherever one of them ends; and one error for all.
#include "cli/training/shared_checkpoint.h"

#include "actor/hosts/rank_threads.h"
#include "core/base/check.h"
#include "io/checkpoints/checkpoint_folder.h"
#include "tests/io/cut_storage.h"
#include "tests/io/small_checkpoint.h"
#include "tests/support/long_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sextant::shared_checkpoint_test {
namespace {

namespace fs = std::filesystem;
using namespace testing;

constexpr std::size_t kProcesses = 2;

// What became of one process.
struct Outcome {
  bool is_cut = false;
  std::optional<Error> error, noted;
};
using Outcomes = std::array<Outcome, kProcesses>;
using Storages = std::array<CheckpointStorage*, kProcesses>;

// The contents of small_contents, rank p in process p.
CheckpointContents contents_of(std::size_t process, std::int64_t step) {
  CheckpointContents contents = small_contents(step);
  for (std::size_t rank = 0; rank < contents.ranks.size(); ++rank)
    if (rank != process) contents.ranks[rank].clear();
  return contents;
}

// Whoever is cut is gone, which the others see as they see it of a process.
Outcomes write_together(const std::string& folder, std::int64_t step, const Storages& storages,
                        const std::array<std::string, kProcesses>& folders = {}) {
  Outcomes outcomes;
  ThreadHostGroups groups(kProcesses);
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < kProcesses; ++p)
    threads.emplace_back([&, p] {
      Outcome& own = outcomes[p];
      SharedCheckpoint shared(groups.of(Rank(p)), *storages[p],
                              [&](const Error& error) { own.noted = error; });
      try {
        shared.write(folders[p].empty() ? folder : folders[p], contents_of(p, step), 1,
                     [] { return false; });
      } catch (const Cut&) {
        own.is_cut = true;
        groups.abort("a process is gone");
      } catch (const Error& error) {
        own.error = error;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void save_together(const std::string& folder, std::int64_t step) {
  CheckpointStorage storage;
  for (const Outcome& outcome : write_together(folder, step, {&storage, &storage}))
    REQUIRE_FALSE(outcome.error.has_value());
}

// As a disk that is full.
class FullStorage final : public CheckpointStorage {
 public:
  std::unique_ptr<StoredFile> create(const std::string& path) override {
    fail(ErrorCode::kBadInput, "{}: cannot be written: No space left on device", path);
  }
};

}  // namespace

TEST_CASE("what processes write together is what one writes") {
  const TemporaryFolder place("together"), alone("alone");
  save_together(place.path, 7);
  CHECK(damage_of_last(place.path).empty());
  CheckpointStorage storage;
  write_checkpoint(storage, alone.path, small_contents(7), 0);
  const std::vector<std::string> files = files_below(place.path);
  CHECK(files.size() == files_below(alone.path).size());
  for (const std::string& file : files)
    CHECK(text_of_file(file) ==
          text_of_file(alone.path + "/" + fs::relative(file, place.path).string()));
}

TEST_CASE("where one of the processes ends in writing, a whole checkpoint is the last one") {
  const TemporaryFolder place("together_cut");
  for (std::size_t victim = 0; victim < kProcesses; ++victim) {
    CheckpointStorage sound;
    CutStorage measured(kNoCut, false);
    Storages storages{&sound, &sound};
    storages[victim] = &measured;
    save_together(place.path, 1);
    write_together(place.path, 2, storages);
    const std::int64_t all = measured.spent();
    REQUIRE(all > 150);
    std::set<std::int64_t> last;
    const std::int64_t step = is_long_run() ? 7 : 31;
    for (const bool loses_unsynced : {false, true})
      for (std::int64_t budget = 0; budget <= all; budget += budget < all - 40 ? step : 1) {
        CAPTURE(victim);
        CAPTURE(budget);
        CAPTURE(loses_unsynced);
        fs::remove_all(place.path);
        save_together(place.path, 1);
        CutStorage cut(budget, loses_unsynced);
        storages[victim] = &cut;
        const Outcomes outcomes = write_together(place.path, 2, storages);
        REQUIRE(outcomes[victim].is_cut == (budget < all));
        // The others hear of it, unless all was done.
        if (const auto& error = outcomes[1 - victim].error)
          REQUIRE(error->code() == ErrorCode::kRankFailed);
        for (const FoundCheckpoint& found : checkpoints_in(place.path))
          REQUIRE(damage_of_last(found.path).empty());
        last.insert(last_checkpoint(place.path).step);
        save_together(place.path, 3);
        REQUIRE(damage_of_last(place.path).empty());
        REQUIRE(unfinished_in(place.path).empty());
      }
    CHECK(last == std::set<std::int64_t>{1, 2});
    fs::remove_all(place.path);
  }
}

TEST_CASE("what one process cannot write is one error for all, and leaves no part") {
  const TemporaryFolder place("together_full");
  save_together(place.path, 1);
  for (std::size_t full = 0; full < kProcesses; ++full) {
    CAPTURE(full);
    CheckpointStorage sound;
    FullStorage none;
    Storages storages{&sound, &sound};
    storages[full] = &none;
    const Outcomes outcomes = write_together(place.path, 2, storages);
    REQUIRE(outcomes[0].error.has_value());
    CHECK(outcomes[0].error->code() == ErrorCode::kBadInput);
    const std::string text = outcomes[0].error->what();
    const std::string shard = fmt::format("rank-0000{}.safetensors: cannot be written", full);
    CHECK(text.find(shard) != std::string::npos);
    if (full == 1) CHECK(text.find("(thread 1 of 2)") != std::string::npos);
    for (const Outcome& outcome : outcomes) {
      REQUIRE((outcome.error.has_value() && outcome.noted.has_value()));
      CHECK(std::string(outcome.error->what()) == text);
      CHECK(std::string(outcome.noted->what()) == text);
    }
    CHECK(unfinished_in(place.path).empty());
    CHECK(last_checkpoint(place.path).step == 1);
  }
}

// Machines without a common file system, each with a folder of that name.
TEST_CASE("shards that went to another folder are missed before the checkpoint has its name") {
  const TemporaryFolder place("together_here"), elsewhere("together_there");
  CheckpointStorage storage;
  fs::create_directories(unfinished_folder(elsewhere.path + "/" + checkpoint_folder_name(2)));
  const Outcomes outcomes =
      write_together("", 2, {&storage, &storage}, {place.path, elsewhere.path});
  for (const Outcome& outcome : outcomes) {
    REQUIRE(outcome.error.has_value());
    CHECK(outcome.error->code() == ErrorCode::kBadInput);
    CHECK(std::string(outcome.error->what()).find("rank-00001.safetensors: is not here as") !=
          std::string::npos);
  }
  CHECK(checkpoints_in(place.path).empty());
}

}  // namespace sextant::shared_checkpoint_test
