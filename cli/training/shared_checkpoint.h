// One checkpoint, written by all processes of a run: each the shards of its ranks, the first of
// them the rest.
#pragma once

#include "actor/hosts/host_group.h"
#include "core/base/error.h"
#include "io/checkpoints/checkpoint_writer.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// One at a time; all processes write the same ones in the same order, each on a thread of its own.
//
//   first     makes the folder --begin-->                    manifest, rename --end-->
//   others                               shards --written-->                           go on
//
// "written": a process's shards are on the disk. Whatever fails on one of them is said at "end" and
// thrown by all; the others then answer that they have heard it, before anything else is heard of
// it.
class SharedCheckpoint {
 public:
  // `note_failure`: before anyone throws what all throw.
  SharedCheckpoint(HostGroup& group, CheckpointStorage& storage,
                   std::function<void(const Error&)> note_failure);
  // `contents` has the pieces of the ranks of this process. Behind it the checkpoint is whole, and
  // was not before all shards were on the disk. Throws Error(kRankFailed) where another process is
  // gone.
  WrittenCheckpoint write(const std::string& directory, const CheckpointContents& contents,
                          std::int64_t keep, const StopWriting& stop);

 private:
  WrittenCheckpoint write_first(const std::string& directory, const CheckpointContents& contents,
                                std::int64_t keep, const StopWriting& stop);
  WrittenCheckpoint write_beside(const std::string& directory, const CheckpointContents& contents,
                                 const StopWriting& stop);
  // By process, so that the manifest is the one of a single process.
  void collect(const std::string& folder, std::vector<WrittenShards>& shards,
               std::optional<Error>& failure, const StopWriting& stop);
  void tell_all(const std::optional<Error>& failure);
  [[noreturn]] void fail_together(const Error& failure, const StopWriting& stop);
  void hear(const StopWriting& stop);
  HostMessage receive(HostTag tag, const StopWriting& stop);

  HostGroup& group_;
  CheckpointStorage& storage_;
  const std::function<void(const Error&)> note_failure_;
};

}  // namespace sextant
