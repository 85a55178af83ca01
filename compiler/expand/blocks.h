// Instances -> blocks. Instances whose operators, operands, layouts and lifetimes agree have one
// *form*; a form becomes one block per rank class (or fewer, where classes hold equal shapes).
#pragma once

#include "compiler/expand/layouts.h"
#include "compiler/expand/program_classes.h"
#include "compiler/order/groups.h"
#include "compiler/order/partition.h"
#include "core/graphs/operator.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sextant {

// "layer7.forward"; halves of transfers and host actors have the name of their operator.
std::string instance_name(const StagedGraph& graph, const InstanceSpec& instance);

class BlockForms {
 public:
  struct Options {
    bool in_place = true, symmetric = true;  // as ExpandOptions says
  };
  BlockForms(const Partition& partition, const LayoutTable& layouts, const GroupTable& groups,
             const Options& options);

  std::int32_t num_forms() const { return static_cast<std::int32_t>(forms_.size()); }
  std::int32_t form_of(std::int32_t instance) const;
  // Everything of the block that all rank classes share: no local types, sizes or work.
  const Block& form(std::int32_t form) const;
  int stage_of(std::int32_t form) const;
  std::vector<LayoutId> port_layouts(std::int32_t form) const;
  // Tensors that enter an instance, by port.
  std::span<const StagedTensorIndex> ports(std::int32_t instance) const;
  // What the instance calls the actors and registers of its form: nothing where the form's names
  // do.
  InstanceNames names(std::int32_t instance) const;
  // Index of a tensor among the registers of its producer's block.
  std::int32_t register_of(StagedTensorIndex tensor) const;

 private:
  bool calls_all_as_its_form(std::int32_t instance) const;
  // Registers with equal keys live equally long.
  struct FrameKey {
    Frame frame;
    bool host = false;                  // a host actor writes or reads it
    std::vector<std::int32_t> readers;  // other instances; for these the whole act counts
    std::int32_t first = 0, last = 0;   // actors, when no other instance reads
    bool operator==(const FrameKey&) const = default;
  };
  // What makes two instances share a form, as integers.
  using Signature = std::vector<std::int64_t>;

  // Where the registers of an instance lie: each in a frame; those with an input to overwrite in
  // the bytes of the register that this input is.
  struct Homes {
    std::vector<std::int32_t> frame;       // by register
    std::vector<std::int32_t> taken_from;  // by register: a register, -1: bytes of its own
    std::vector<bool> is_view;             // by register: of `taken_from`, whose value it keeps
    std::vector<FrameKey> keys;            // by frame
  };

  // `key` of bytes that `tenant` has after their first value, or beside it.
  static void extend(FrameKey& key, const FrameKey& tenant, bool is_view);
  void number_registers();
  Homes homes_of(std::int32_t instance);
  void find_in_place(std::int32_t instance, Homes& homes);
  bool may_take_over(std::int32_t instance, StagedOpIndex op, StagedTensorIndex in) const;
  bool may_overwrite(std::int32_t instance, StagedOpIndex op,
                     std::span<const StagedTensorIndex> holders) const;
  bool is_collective_buffer(StagedTensorIndex tensor) const;
  FrameKey frame_key(std::int32_t instance, StagedTensorIndex tensor) const;
  std::vector<StagedTensorIndex> find_ports(std::int32_t instance) const;
  Operand operand(std::int32_t instance, StagedTensorIndex tensor) const;
  Signature signature(std::int32_t instance, const Homes& homes);
  void sign_actor(std::int32_t instance, StagedOpIndex op, Signature& signature);
  Block make_form(std::int32_t instance, const Homes& homes) const;
  Actor make_actor(std::int32_t instance, StagedOpIndex op) const;
  void mark_in_place(Actor& actor, const Homes& homes) const;
  void add_readers(std::int32_t instance, Block& block) const;
  struct Kind {
    std::int64_t symbol = 0;
    std::span<const std::size_t> overwrites;  // compiler/memory/in_place.h
  };
  const Kind& kind_of(const std::string& kind);
  std::int64_t attributes_symbol(const Attributes& attributes);

  const Partition* partition_;
  const LayoutTable* layouts_;
  const GroupTable* groups_;
  Options options_;
  std::vector<Block> forms_;
  std::vector<std::int32_t> first_instance_;           // by form
  std::vector<std::int32_t> form_of_;                  // by instance
  std::vector<std::vector<StagedTensorIndex>> ports_;  // by instance
  std::vector<std::int32_t> register_of_;              // by tensor
  std::vector<Signature> signatures_;                  // by form
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> by_hash_;
  std::unordered_map<std::string, Kind> kinds_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<const Attributes*, std::int64_t>>>
      attributes_;
  std::int64_t num_attributes_ = 0;
};

// Blocks of all forms for all classes. `block_of[class][form]` is invalid where the form belongs to
// another stage. With `symmetric` the classes of a stage lay their frames out alike.
struct BlockTable {
  std::vector<Block> blocks;
  std::vector<std::vector<BlockId>> block_of;
};

BlockTable make_blocks(const BlockForms& forms, const LayoutTable& layouts,
                       std::span<const ProgramClass> classes,
                       const std::vector<Placement>& placements, const OperatorRegistry& registry,
                       bool symmetric);

}  // namespace sextant
