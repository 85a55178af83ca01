// How the text form refers to what a table holds: by name where only one has it, else by position.
#pragma once

#include "core/graphs/physical_graph.h"
#include "core/text/text_scanner.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sextant {

// The names of one table.
class NameTable {
 public:
  // `what` the table holds: "register".
  explicit NameTable(std::string_view what) : what_(what) {}
  NameTable(std::string_view what, const std::vector<std::string>& names);

  // At the next position.
  void add(const std::string& name);
  std::size_t size() const { return names_.size(); }

  // "hidden", or "#3" where the name is another's too or the position none of the table.
  std::string text_of(std::int64_t index) const;
  // The position of the name that comes next, or the number behind '#', whatever it is.
  std::int32_t read(TextScanner& in) const;

 private:
  static constexpr std::int32_t kSeveral = -1;

  std::string_view what_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> position_of_;  // kSeveral: no one's own
};

// What can be named inside a block, or inside an instance of it.
struct BlockNames {
  NameTable registers{"register"}, ports{"port"}, actors{"actor"};
};
// The names that the block gives.
BlockNames names_of(const Block& block);

// Names by block and, where they have names of their own, by instance.
class InstanceNameTables {
 public:
  explicit InstanceNameTables(const Table<BlockId, Block>& blocks);
  // Those of the instance where it has some of its own, else those of its block.
  std::shared_ptr<const BlockNames> of(const Instance& instance) const;

 private:
  Table<BlockId, std::shared_ptr<const BlockNames>> by_block_;
};

// "#3"
std::string position_text(std::int64_t index);
std::int32_t read_position(TextScanner& in);

}  // namespace sextant
