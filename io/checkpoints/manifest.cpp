// The manifest as text: a line with the checksum of all that follows it, then the rest.
#include "io/checkpoints/manifest.h"

#include "core/base/check.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"
#include "io/checkpoints/boxes.h"
#include "io/checkpoints/checksum.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "sextant.checkpoint";
constexpr std::string_view kHead = "{\"checksum\": \"", kHeadEnd = "\",\n";
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kHeadSize = kHead.size() + kChecksumDigits + kHeadEnd.size();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Json facts_json(const TrainingFacts& facts) {
  return {{"step", facts.step},
          {"samples", facts.samples},
          {"seed", std::to_string(facts.seed)},
          {"model", facts.model},
          {"model_hash", facts.model_hash},
          {"optimizer", facts.optimizer},
          {"optimizer_kind", facts.optimizer_kind},
          {"strategy", facts.strategy},
          {"plan_hash", facts.plan_hash},
          {"devices", facts.devices},
          {"global_batch", facts.global_batch},
          {"data", facts.data}};
}

Json piece_json(const CheckpointPiece& piece) {
  Json offset = Json::array(), extent = Json::array();
  for (const Interval& part : piece.box.dims) {
    offset.push_back(part.offset);
    extent.push_back(part.extent);
  }
  return {{"offset", std::move(offset)},
          {"extent", std::move(extent)},
          {"file", piece.file},
          {"key", piece.key},
          {"checksum", piece.checksum}};
}

Json state_json(const CheckpointState& state) {
  Json pieces = Json::array();
  for (const CheckpointPiece& piece : state.pieces) pieces.push_back(piece_json(piece));
  return {{"name", state.name.owner},
          {"role", state.name.role},
          {"shape", state.type.shape.extents()},
          {"dtype", to_string(state.type.dtype)},
          {"pieces", std::move(pieces)}};
}

std::uint64_t seed_from(const JsonCursor& value) {
  const std::string& text = value.text();
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    value.refuse("'" + text + "' is no seed");
  return seed;
}

TrainingFacts facts_from(const JsonCursor& value) {
  value.allow_only({"step", "samples", "seed", "model", "model_hash", "optimizer", "optimizer_kind",
                    "strategy", "plan_hash", "devices", "global_batch", "data"});
  return {.step = value.at("step").integer_between(0, kMost),
          .samples = value.at("samples").integer_between(0, kMost),
          .seed = seed_from(value.at("seed")),
          .model = value.at("model").text(),
          .model_hash = value.at("model_hash").text(),
          .optimizer = value.at("optimizer").text(),
          .optimizer_kind = value.at("optimizer_kind").text(),
          .strategy = value.at("strategy").text(),
          .plan_hash = value.at("plan_hash").text(),
          .devices = value.at("devices").integer_between(1, kMost),
          .global_batch = value.at("global_batch").integer_between(1, kMost),
          .data = value.at("data").text()};
}

std::vector<std::int64_t> integers_from(const JsonCursor& value, std::size_t count) {
  std::vector<std::int64_t> integers;
  const std::vector<JsonCursor> elements = value.elements();
  if (elements.size() != count)
    value.refuse(fmt::format("{} numbers for {} dims", elements.size(), count));
  for (const JsonCursor& element : elements) integers.push_back(element.integer_between(0, kMost));
  return integers;
}

// A name of a file in the folder itself, that no file of ours has.
std::string file_name_from(const JsonCursor& value) {
  const std::string& name = value.text();
  const bool leads_outside = name.empty() || name == "." || name == ".." ||
                             name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos;
  if (leads_outside || name == kManifestFile || name == kCheckpointPlanFile)
    value.refuse("no name of a shard in this folder: '" + name + "'");
  return name;
}

CheckpointPiece piece_from(const JsonCursor& value, std::size_t rank) {
  value.allow_only({"offset", "extent", "file", "key", "checksum"});
  const std::vector<std::int64_t> offset = integers_from(value.at("offset"), rank);
  const std::vector<std::int64_t> extent = integers_from(value.at("extent"), rank);
  CheckpointPiece piece;
  for (std::size_t dim = 0; dim < rank; ++dim)
    piece.box.dims.push_back({.offset = offset[dim], .extent = extent[dim]});
  piece.file = file_name_from(value.at("file"));
  piece.key = value.at("key").text();
  piece.checksum = value.at("checksum").text();
  return piece;
}

TensorType type_from(const JsonCursor& value) {
  std::vector<std::int64_t> extents;
  const std::vector<JsonCursor> elements = value.at("shape").elements();
  if (elements.size() > kMaxRank)
    value.at("shape").refuse(fmt::format("{} dims, more than {}", elements.size(), kMaxRank));
  for (const JsonCursor& element : elements) extents.push_back(element.integer_between(0, kMost));
  try {
    TensorType type{Shape(std::move(extents)), parse_dtype(value.at("dtype").text())};
    // Its bytes are a number as well.
    require(type.shape.elements() <= kMost / size_of(type.dtype).value, ErrorCode::kBadInput,
            "{} elements are too many", type.shape.elements());
    return type;
  } catch (const Error& error) {
    value.refuse(error.what());
  }
}

CheckpointState part_from(const JsonCursor& value) {
  value.allow_only({"name", "role", "shape", "dtype", "pieces"});
  CheckpointState state{{value.at("name").text(), value.at("role").text()}, type_from(value), {}};
  const std::vector<JsonCursor> pieces = value.at("pieces").elements();
  if (pieces.size() > kMostPieces)
    value.at("pieces").refuse(fmt::format("more than {} pieces", kMostPieces));
  for (const JsonCursor& piece : pieces) {
    state.pieces.push_back(piece_from(piece, state.type.shape.rank()));
    if (state.pieces.back().box.is_empty()) piece.refuse("the piece is empty");
  }
  return state;
}

CheckpointState state_from(const JsonCursor& value) {
  CheckpointState state = part_from(value);
  std::vector<Shard> boxes;
  for (const CheckpointPiece& piece : state.pieces) boxes.push_back(piece.box);
  if (!tile(boxes, state.type.shape))
    value.refuse(fmt::format("the pieces of '{}' are not its whole", to_string(state.name)));
  return state;
}

// What a later version says otherwise is not known: only its number is read.
void require_version(const JsonCursor& root) {
  const std::string& schema = root.at("schema").text();
  if (schema != kSchema) root.refuse("schema '" + schema + "' is not " + kSchema);
  const std::int64_t version = root.at("version").integer();
  if (version > kCheckpointVersion)
    root.refuse(fmt::format("version {} is newer than {}, which this program reads", version,
                            kCheckpointVersion));
  if (version < 1) root.refuse(fmt::format("there is no version {}", version));
}

void require_own_checksum(std::string_view text, const std::string& path) {
  const bool has_head = text.size() > kHeadSize && text.starts_with(kHead) &&
                        text.substr(kHeadSize - kHeadEnd.size(), kHeadEnd.size()) == kHeadEnd;
  require(has_head, ErrorCode::kCheckpoint, "{}: does not begin with its checksum", path);
  const std::string_view said = text.substr(kHead.size(), kChecksumDigits);
  const std::string found = checksum_of(text.substr(kHeadSize));
  require(said == found, ErrorCode::kCheckpoint, "{}: is damaged: checksum {}, not {}", path, found,
          said);
}

Manifest parsed(std::string_view text, const std::string& path) {
  const JsonDocument document(text, path);
  const JsonCursor root = document.root();
  require_version(root);
  require_own_checksum(text, path);
  root.allow_only({"checksum", "schema", "version", "training", "plan_checksum", "states"});
  Manifest manifest{facts_from(root.at("training")), root.at("plan_checksum").text(), {}};
  std::set<StateName> names;
  for (const JsonCursor& value : root.at("states").elements()) {
    manifest.states.push_back(state_from(value));
    const StateName& name = manifest.states.back().name;
    if (!names.insert(name).second) value.refuse("a second state '" + to_string(name) + "'");
  }
  return manifest;
}

Json states_json(const std::vector<CheckpointState>& states) {
  Json list = Json::array();
  for (const CheckpointState& state : states) list.push_back(state_json(state));
  return list;
}

}  // namespace

std::string to_json_text(const Manifest& manifest) {
  const Json body = {{"schema", kSchema},
                     {"version", kCheckpointVersion},
                     {"training", facts_json(manifest.facts)},
                     {"plan_checksum", manifest.plan_checksum},
                     {"states", states_json(manifest.states)}};
  const std::string rest = json_text(body, 1).substr(1) + "\n";  // without the brace of the head
  return std::string(kHead) + checksum_of(std::string_view(rest)) + std::string(kHeadEnd) + rest;
}

Manifest manifest_from_json(std::string_view text, const std::string& path) {
  try {
    return parsed(text, path);
  } catch (const Error& error) {
    throw Error(ErrorCode::kCheckpoint, error.what(), error.hints());
  }
}

std::string to_json_text(const std::vector<CheckpointState>& states) {
  return json_text(states_json(states));
}

std::vector<CheckpointState> states_from_json(std::string_view text, const std::string& path) {
  const JsonDocument document(text, path);
  std::vector<CheckpointState> states;
  for (const JsonCursor& value : document.root().elements()) states.push_back(part_from(value));
  return states;
}

std::int64_t bytes_of_states(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const CheckpointState& state : manifest.states) bytes += size_of(state.type).value;
  return bytes;
}

}  // namespace sextant
