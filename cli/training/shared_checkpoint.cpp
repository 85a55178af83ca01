// Messages are small JSON texts. Waiting looks again and again: who writes may be told to stop, and
// a process that is gone ends the wait.
#include "cli/training/shared_checkpoint.h"

#include "core/base/check.h"
#include "io/checkpoints/checkpoint_folder.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr HostTag kToOthers{HostSubject::kCheckpoint, 0}, kToFirst{HostSubject::kCheckpoint, 1};
constexpr std::chrono::milliseconds kLook{1};

Json json_of(const std::optional<Error>& failure) {
  if (!failure) return Json::object();
  return {{"code", static_cast<int>(failure->code())},
          {"error", failure->what()},
          {"hints", failure->hints()}};
}

std::optional<Error> error_in(const Json& json) {
  if (!json.contains("error")) return std::nullopt;
  return Error(static_cast<ErrorCode>(json.at("code").get<int>()),
               json.at("error").get<std::string>(),
               json.at("hints").get<std::vector<std::string>>());
}

Json json_of(const WrittenShards& shards) {
  return {{"files", shards.files}, {"states", to_json_text(shards.states)}};
}

WrittenShards shards_in(const Json& json, const std::string& from) {
  return {states_from_json(json.at("states").get<std::string>(), from),
          json.at("files").get<std::map<std::string, std::int64_t>>()};
}

template <typename Act>
std::optional<Error> failure_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// Paths may be no UTF-8.
HostBytes message_of(const Json& said) {
  return host_bytes(said.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Whoever wrote it says so, and here it is not: each looks at a folder of its own.
void require_same_folder(const std::string& folder, const WrittenShards& shards,
                         const std::string& writer) {
  for (const auto& [file, bytes] : shards.files) {
    const std::string path = folder + "/" + file;
    std::error_code none;
    const auto found = std::filesystem::file_size(path, none);
    require(!none && static_cast<std::int64_t>(found) == bytes, ErrorCode::kBadInput,
            "{}: is not here as {} has written it: all processes must see the folder of "
            "--checkpoint",
            path, writer);
  }
}

}  // namespace

SharedCheckpoint::SharedCheckpoint(HostGroup& group, CheckpointStorage& storage,
                                   std::function<void(const Error&)> note_failure)
    : group_(group), storage_(storage), note_failure_(std::move(note_failure)) {}

WrittenCheckpoint SharedCheckpoint::write(const std::string& directory,
                                          const CheckpointContents& contents, std::int64_t keep,
                                          const StopWriting& stop) {
  return group_.rank() == Rank(0) ? write_first(directory, contents, keep, stop)
                                  : write_beside(directory, contents, stop);
}

HostMessage SharedCheckpoint::receive(HostTag tag, const StopWriting& stop) {
  while (true) {
    if (std::optional<HostMessage> message = group_.try_receive_any(tag))
      return std::move(*message);
    require(!stop(), ErrorCode::kUsage, "waiting for another process's checkpoint was stopped");
    std::this_thread::sleep_for(kLook);
  }
}

void SharedCheckpoint::tell_all(const std::optional<Error>& failure) {
  for (std::size_t p = 1; p < group_.size(); ++p)
    group_.send(Rank(p), kToOthers, message_of(json_of(failure)));
}

// All know it before one of them ends because of it: they say so and wait until the first has heard
// it of all. Whoever is gone meanwhile changes nothing.
void SharedCheckpoint::fail_together(const Error& failure, const StopWriting& stop) {
  note_failure_(failure);
  static_cast<void>(failure_of([&] {
    tell_all(failure);
    for (std::size_t p = 1; p < group_.size(); ++p) receive(kToFirst, stop);
    tell_all(failure);
  }));
  throw Error(failure);
}

void SharedCheckpoint::hear(const StopWriting& stop) {
  const Json said = Json::parse(host_text(receive(kToOthers, stop).bytes));
  const std::optional<Error> failure = error_in(said);
  if (!failure) return;
  note_failure_(*failure);
  static_cast<void>(failure_of([&] {
    group_.send(Rank(0), kToFirst, {});
    receive(kToOthers, stop);
  }));
  throw Error(*failure);
}

void SharedCheckpoint::collect(const std::string& folder, std::vector<WrittenShards>& shards,
                               std::optional<Error>& failure, const StopWriting& stop) {
  for (std::size_t p = 1; p < group_.size(); ++p) {
    const HostMessage message = receive(kToFirst, stop);
    const std::string writer = group_.name_of(message.from);
    const Json said = Json::parse(host_text(message.bytes));
    std::optional<Error> theirs = error_in(said);
    if (theirs)
      theirs.emplace(theirs->code(), fmt::format("{} ({})", theirs->what(), writer),
                     theirs->hints());
    else
      theirs = failure_of([&] {
        WrittenShards& written = shards[message.from.index()];
        written = shards_in(said, writer);
        require_same_folder(folder, written, writer);
      });
    if (!failure) failure = theirs;
  }
}

WrittenCheckpoint SharedCheckpoint::write_first(const std::string& directory,
                                                const CheckpointContents& contents,
                                                std::int64_t keep, const StopWriting& stop) {
  std::string folder;
  std::optional<Error> failure =
      failure_of([&] { folder = begin_checkpoint(storage_, directory, contents.facts.step); });
  if (failure) fail_together(*failure, stop);
  tell_all(std::nullopt);
  std::vector<WrittenShards> shards(group_.size());
  failure = failure_of([&] { shards[0] = write_shards(storage_, folder, contents, stop); });
  if (const auto gone = failure_of([&] { collect(folder, shards, failure, stop); }))
    throw Error(failure ? *failure : *gone);
  WrittenCheckpoint written;
  if (!failure)
    failure = failure_of(
        [&] { written = complete_checkpoint(storage_, directory, contents, shards, keep, stop); });
  if (failure) {
    give_up_checkpoint(storage_, folder);
    fail_together(*failure, stop);
  }
  tell_all(std::nullopt);
  return written;
}

WrittenCheckpoint SharedCheckpoint::write_beside(const std::string& directory,
                                                 const CheckpointContents& contents,
                                                 const StopWriting& stop) {
  hear(stop);
  const std::string path = directory + "/" + checkpoint_folder_name(contents.facts.step);
  const std::string folder = unfinished_folder(path);
  Json own;
  std::int64_t bytes = 0;
  const std::optional<Error> failure = failure_of([&] {
    const WrittenShards shards = write_shards(storage_, folder, contents, stop);
    storage_.sync_folder(folder);
    for (const auto& [file, size] : shards.files) bytes += size;
    own = json_of(shards);
  });
  group_.send(Rank(0), kToFirst, message_of(failure ? json_of(failure) : own));
  hear(stop);
  return {path, bytes};
}

}  // namespace sextant
