// Instances -> blocks. Instances whose operators, operands, layouts and lifetimes agree have one
// *form*; a form becomes one block per rank class (or fewer, where classes hold equal shapes).
#pragma once

#include "compiler/expand/instance_operands.h"
#include "compiler/expand/layouts.h"
#include "compiler/expand/program_classes.h"
#include "compiler/expand/register_homes.h"
#include "compiler/order/groups.h"
#include "compiler/order/partition.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/operator.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sextant {

using FormId = Id<struct FormTag>;

// The forms of all instances, each made once.
class BlockForms {
 public:
  using Options = HomeOptions;
  BlockForms(const Partition& partition, const LayoutTable& layouts, const GroupTable& groups,
             const Options& options);
  // Forms of the instances that are `wanted` alone; the others have none.
  BlockForms(const Partition& partition, const LayoutTable& layouts, const GroupTable& groups,
             const Options& options, const std::function<bool(const InstanceSpec&)>& wanted);

  Range<FormId> ids() const { return forms_.keys(); }
  FormId form_of(StagedInstanceId instance) const;  // none: not wanted
  const Block& form(FormId form) const;
  int stage_of(FormId form) const;
  std::vector<LayoutId> port_layouts(FormId form) const;
  // Tensors that enter an instance, by port.
  std::span<const StagedTensorId> ports(StagedInstanceId instance) const;
  // What the instance calls the actors and registers of its form: nothing where the form's names
  // do.
  InstanceNames names(StagedInstanceId instance) const;
  // Index of a tensor among the registers of its producer's block.
  std::int32_t register_of(StagedTensorId tensor) const;

 private:
  const Partition* partition_;
  const LayoutTable* layouts_;
  InstanceOperands operands_;
  Table<FormId, Block> forms_;
  Table<FormId, StagedInstanceId> first_instance_;
  Table<StagedInstanceId, FormId> form_of_;
};

// Blocks of all forms for all classes. `block_of[class][form]` is invalid where the form belongs to
// another stage. With `symmetric` the classes of a stage lay their frames out alike.
struct BlockTable {
  Table<BlockId, Block> blocks;
  std::vector<Table<FormId, BlockId>> block_of;
};

BlockTable make_blocks(const BlockForms& forms, const LayoutTable& layouts,
                       std::span<const ProgramClass> classes,
                       const std::vector<Placement>& placements, const OperatorRegistry& registry,
                       bool symmetric);

}  // namespace sextant
