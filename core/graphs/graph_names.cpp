// Names and positions in the text form of physical graphs.
#include "core/graphs/graph_names.h"

#include "core/base/at.h"
#include "core/base/nearest.h"

#include <fmt/core.h>

#include <limits>
#include <utility>

namespace sextant {

NameTable::NameTable(std::string_view what, const std::vector<std::string>& names) : what_(what) {
  for (const std::string& name : names) add(name);
}

void NameTable::add(const std::string& name) {
  const auto [found, is_new] =
      position_of_.try_emplace(name, static_cast<std::int32_t>(names_.size()));
  if (!is_new) found->second = kSeveral;
  names_.push_back(name);
}

std::string NameTable::text_of(std::int64_t index) const {
  if (index >= 0 && index < size_of(names_)) {
    const std::string& name = names_[at(index)];
    if (position_of_.at(name) == index) return quoted_unless_plain(name);
  }
  return position_text(index);
}

std::int32_t NameTable::read(TextScanner& in) const {
  const TextToken token = in.peek();
  if (token.kind == TextToken::Kind::kSign && token.text == "#") return read_position(in);
  if (token.kind != TextToken::Kind::kWord && token.kind != TextToken::Kind::kQuoted)
    in.refuse_next(fmt::format("the name of a {0} or the position of one, as #0", what_));
  const std::string name = in.name();
  const auto found = position_of_.find(name);
  if (found == position_of_.end())
    in.refuse_at(token,
                 fmt::format("there is no {} '{}'{}", what_, name, did_you_mean(name, names_)));
  if (found->second == kSeveral)
    in.refuse_at(token, fmt::format("'{}' is the name of several: write the {}'s position, as #0",
                                    name, what_));
  return found->second;
}

BlockNames names_of(const Block& block) {
  BlockNames names;
  for (const Register& reg : block.registers) names.registers.add(reg.name);
  for (const Port& port : block.ports) names.ports.add(port.name);
  for (const Actor& actor : block.actors) names.actors.add(actor.name);
  return names;
}

InstanceNameTables::InstanceNameTables(const Table<BlockId, Block>& blocks) {
  for (const Block& block : blocks)
    by_block_.push_back(std::make_shared<const BlockNames>(names_of(block)));
}

std::shared_ptr<const BlockNames> InstanceNameTables::of(const Instance& instance) const {
  static const auto kNone = std::make_shared<const BlockNames>();
  const bool exists = by_block_.contains(instance.block);
  const auto& of_block = exists ? by_block_[instance.block] : kNone;
  if (instance.names == InstanceNames()) return of_block;
  BlockNames own = *of_block;
  own.actors = NameTable("actor", instance.names.actors);
  own.registers = NameTable("register", instance.names.registers);
  return std::make_shared<const BlockNames>(std::move(own));
}

std::string position_text(std::int64_t index) { return fmt::format("#{}", index); }

std::int32_t read_position(TextScanner& in) {
  in.expect_sign("#");
  return static_cast<std::int32_t>(in.integer(std::numeric_limits<std::int32_t>::min(),
                                              std::numeric_limits<std::int32_t>::max()));
}

}  // namespace sextant
