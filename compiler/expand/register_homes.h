// Where the registers of an instance lie: in frames of registers that live equally long, some in
// the bytes of an input that dies with the operator.
#pragma once

#include "compiler/expand/form_symbols.h"
#include "compiler/expand/instance_operands.h"
#include "compiler/expand/layouts.h"
#include "compiler/order/groups.h"
#include "compiler/order/partition.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <vector>

namespace sextant {

// What forms are made from.
struct FormSource {
  const Partition& partition;
  const LayoutTable& layouts;
  const GroupTable& groups;
  const InstanceOperands& operands;
};

struct HomeOptions {
  bool in_place = true, symmetric = true;  // as ExpandOptions says
};

struct RegisterHomes {
  // Registers with equal keys live equally long.
  struct FrameKey {
    Frame frame;
    bool host = false;                      // a host actor writes or reads it
    std::vector<StagedInstanceId> readers;  // other instances; for these the whole act counts
    std::int32_t first = 0, last = 0;       // actors, when no other instance reads
    bool operator==(const FrameKey&) const = default;
  };
  std::vector<std::int32_t> frame;       // by register
  std::vector<std::int32_t> taken_from;  // by register: a register, -1: bytes of its own
  std::vector<bool> is_view;             // by register: of `taken_from`, whose value it keeps
  std::vector<FrameKey> keys;            // by frame
};

RegisterHomes homes_of(const FormSource& source, StagedInstanceId instance,
                       const HomeOptions& options, FormSymbols& symbols);

}  // namespace sextant
