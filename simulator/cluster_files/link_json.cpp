// Reads and writes the links of cluster files. What must fit together is checked by cluster_rules,
// which knows how many things a link joins.
#include "simulator/cluster_files/link_json.h"

#include "core/base/nearest.h"
#include "core/graphs/primitives.h"
#include "simulator/cluster_files/sourced_json.h"
#include "simulator/clusters/cluster_rules.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse_unknown(const JsonCursor& cursor, std::string_view what,
                                 const std::vector<std::string>& names) {
  cursor.refuse(fmt::format("unknown {} '{}'{}; valid: {}", what, cursor.text(),
                            did_you_mean(cursor.text(), names), comma_list(names)));
}

// The value among `all` that has the text's name.
template <typename Value, std::size_t kCount>
Value read_one_of(const JsonCursor& cursor, std::string_view what,
                  const std::array<Value, kCount>& all) {
  std::vector<std::string> names;
  for (const Value known : all) {
    if (cursor.text() == to_string(known)) return known;
    names.emplace_back(to_string(known));
  }
  refuse_unknown(cursor, what, names);
}

std::string read_name_among(const JsonCursor& cursor, std::string_view what,
                            const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), cursor.text()) == names.end())
    refuse_unknown(cursor, what, names);
  return cursor.text();
}

constexpr std::array kWirings = {Wiring::kSwitch, Wiring::kFullyConnected, Wiring::kRing,
                                 Wiring::kTorus, Wiring::kCables};

std::vector<std::int64_t> read_extents(const JsonCursor& cursor) {
  std::vector<std::int64_t> extents;
  for (const JsonCursor& element : cursor.elements())
    extents.push_back(element.integer_between(1, kMaxDevices));
  return extents;
}

Cable read_cable(const JsonCursor& cursor) {
  cursor.allow_only({"first", "second", "lanes"});
  const auto count = [&](std::string_view key, std::int64_t least) {
    return static_cast<std::int32_t>(cursor.at(key).integer_between(least, kMaxDevices));
  };
  Cable cable{.first = count("first", 0), .second = count("second", 0), .lanes = 1};
  if (cursor.contains("lanes")) cable.lanes = count("lanes", 1);
  return cable;
}

std::vector<Cable> read_cables(const JsonCursor& cursor) {
  std::vector<Cable> cables;
  for (const JsonCursor& element : cursor.elements()) cables.push_back(read_cable(element));
  return cables;
}

CollectiveAlgorithm read_algorithm(const JsonCursor& cursor) {
  std::vector<std::string_view> known = {"name", "protocol", "primitive"};
  for (const auto& field : kAlgorithmFields) known.push_back(field.key);
  cursor.allow_only(known);
  CollectiveAlgorithm algorithm;
  algorithm.name = read_name_among(cursor.at("name"), "algorithm",
                                   {"ring", "direct", "tree", "nvls", "hierarchical", "pairwise"});
  algorithm.protocol =
      read_name_among(cursor.at("protocol"), "protocol", {"ll", "ll128", "simple"});
  if (const auto primitive = cursor.find("primitive"))
    algorithm.primitive = to_string(read_one_of(*primitive, "primitive", kPrimitives));
  read_fields(cursor, algorithm, kAlgorithmFields);
  return algorithm;
}

bool are_alike(const CollectiveAlgorithm& a, const CollectiveAlgorithm& b) {
  return a.name == b.name && a.protocol == b.protocol && a.primitive == b.primitive;
}

std::vector<CollectiveAlgorithm> read_algorithms(const JsonCursor& cursor) {
  std::vector<CollectiveAlgorithm> algorithms;
  for (const JsonCursor& element : cursor.elements()) {
    algorithms.push_back(read_algorithm(element));
    for (std::size_t i = 0; i + 1 < algorithms.size(); ++i)
      if (are_alike(algorithms[i], algorithms.back()))
        element.refuse(fmt::format("'{}' with '{}' is listed twice", algorithms[i].name,
                                   algorithms[i].protocol));
  }
  return algorithms;
}

Json to_json(const CollectiveAlgorithm& algorithm) {
  Json json = {{"name", algorithm.name}, {"protocol", algorithm.protocol}};
  if (!algorithm.primitive.empty()) json["primitive"] = algorithm.primitive;
  for (const auto& field : kAlgorithmFields)
    json[field.key] = sextant::to_json(algorithm.*field.member);
  return json;
}

}  // namespace

NetworkLink read_link(const JsonCursor& cursor) {
  std::vector<std::string_view> known = {"name", "wiring", "extents", "cables", "algorithms"};
  for (const auto& field : kLinkFields) known.push_back(field.key);
  cursor.allow_only(known);
  NetworkLink link;
  link.name = read_name(cursor.at("name"));
  read_fields(cursor, link, kLinkFields);
  if (const auto wiring = cursor.find("wiring"))
    link.wiring = read_one_of(*wiring, "wiring", kWirings);
  if (const auto extents = cursor.find("extents")) link.extents = read_extents(*extents);
  if (const auto cables = cursor.find("cables")) link.cables = read_cables(*cables);
  if (const auto algorithms = cursor.find("algorithms"))
    link.algorithms = read_algorithms(*algorithms);
  return link;
}

Json to_json(const NetworkLink& link) {
  Json json = {{"name", link.name}};
  for (const auto& field : kLinkFields) json[field.key] = to_json(link.*field.member);
  json["wiring"] = to_string(link.wiring);
  if (!link.extents.empty()) json["extents"] = link.extents;
  for (const Cable& cable : link.cables)
    json["cables"].push_back(
        {{"first", cable.first}, {"second", cable.second}, {"lanes", cable.lanes}});
  for (const CollectiveAlgorithm& algorithm : link.algorithms)
    json["algorithms"].push_back(to_json(algorithm));
  return json;
}

}  // namespace sextant
