// Small JSON texts, as in run_exchange.
#include "cli/runs/shared_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace sextant {
namespace {

nlohmann::json blocks_json(const std::vector<TextBlock>& blocks) {
  nlohmann::json json = nlohmann::json::array();
  for (const TextBlock& block : blocks) json.push_back({block.number, block.hash, block.has_zero});
  return json;
}

void append_blocks(const nlohmann::json& json, std::vector<TextBlock>& blocks) {
  for (const nlohmann::json& block : json)
    blocks.push_back({block.at(0).get<std::int64_t>(), block.at(1).get<std::uint64_t>(),
                      block.at(2).get<bool>()});
}

}  // namespace

void look_through(RunProcesses& processes, TextFiles& text) {
  const std::string own = processes.machine_text() + " " + text.identity();
  const std::vector<std::string> all = processes.gather(own);
  std::vector<std::size_t> sharers;
  for (std::size_t p = 0; p < all.size(); ++p)
    if (all[p] == own) sharers.push_back(p);
  const auto place = std::find(sharers.begin(), sharers.end(), processes.index());
  std::vector<TextBlock> blocks;
  processes.agree_after([&] {
    blocks = text.look(static_cast<std::size_t>(place - sharers.begin()), sharers.size());
  });
  const std::vector<std::string> seen = processes.gather(blocks_json(blocks).dump());
  blocks.clear();
  for (const std::size_t sharer : sharers)
    append_blocks(nlohmann::json::parse(seen[sharer]), blocks);
  processes.agree_after([&] { text.keep_text(std::move(blocks)); });
}

std::vector<std::int64_t> gather_text_bytes(RunProcesses& processes,
                                            const std::optional<TokenData>& data) {
  std::vector<std::int64_t> bytes;
  for (const std::string& text : processes.gather(std::to_string(data ? data->bytes_read() : 0)))
    bytes.push_back(std::stoll(text));
  return bytes;
}

}  // namespace sextant
