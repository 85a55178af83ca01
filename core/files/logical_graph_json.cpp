// Operators in their order, one object each; tensors are named, as everywhere.
#include "core/files/logical_graph_json.h"

#include "core/base/check.h"
#include "core/files/id_ranges.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"
#include "core/text/json_reader.h"
#include "core/text/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "sextant.graph/1";
constexpr std::int64_t kMostLayers = 1'000'000;

// Writing.

Json operator_attributes_json(const Attributes& attributes) {
  Json json = Json::object();
  for (const auto& [name, value] : attributes.entries())
    std::visit([&json, &key = name](const auto& typed) { json[key] = typed; }, value);
  return json;
}

Json parameter_json(const ParameterInfo& info) {
  Json json = {{"weight_decay", info.weight_decay}};
  if (info.tensor_parallel_dim) json["tensor_parallel_dim"] = *info.tensor_parallel_dim;
  if (info.expert_parallel_dim) json["expert_parallel_dim"] = *info.expert_parallel_dim;
  return json;
}

// {"input 0": "(B, S(1))", "output 0": ...}: of one operator.
Json words_json(const GraphDocument& document, OpId op) {
  Json json = Json::object();
  for (const GraphDocument::Words& words : document.words)
    if (words.op == op)
      json[fmt::format("{} {}", words.is_input ? "input" : "output", words.index)] =
          to_string(words.words);
  return json;
}

Json op_json(const GraphDocument& document, OpId id) {
  const LogicalOp& op = document.graph.op(id);
  Json json = {{"name", op.name}, {"kind", op.kind}};
  if (!op.inputs.empty()) {
    json["inputs"] = Json::array();
    for (const TensorId input : op.inputs)
      json["inputs"].push_back(document.graph.tensor(input).name);
  }
  if (!op.attributes.entries().empty())
    json["attributes"] = operator_attributes_json(op.attributes);
  json["layer"] = op.layer;
  json["phase"] = to_string(op.phase);
  if (op.recompute_of) json["recompute_of"] = document.graph.op(*op.recompute_of).name;
  if (op.parameter) json["parameter"] = parameter_json(*op.parameter);
  Json words = words_json(document, id);
  if (!words.empty()) json["words"] = std::move(words);
  return json;
}

std::string placement_text(const Placement& placement) {
  return to_string(placement) + device_list(placement.ranks);
}

// Reading.

template <typename Parse>
auto parsed(const JsonCursor& value, const Parse& parse) {
  try {
    return parse(value.text());
  } catch (const Error& error) {
    value.refuse(error.what());
  }
}

AttributeValue attribute_from(const JsonCursor& value) {
  if (value.is_boolean()) return value.boolean();
  if (value.is_text()) return value.text();
  if (value.is_integer()) return value.integer();
  if (value.is_number()) return value.real();
  if (!value.is_list()) value.refuse("wanted true, false, a number, text or a list of integers");
  std::vector<std::int64_t> integers;
  for (const JsonCursor& element : value.elements()) integers.push_back(element.integer());
  return integers;
}

Attributes attributes_from(const JsonCursor& op) {
  Attributes attributes;
  const auto values = op.find("attributes");
  if (!values) return attributes;
  for (const std::string& key : values->keys())
    attributes.set(key, attribute_from(values->at(key)));
  return attributes;
}

std::optional<std::size_t> dim_from(const JsonCursor& parameter, std::string_view key,
                                    const Shape& shape) {
  const auto value = parameter.find_value(key);
  if (!value) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(shape.rank());
  if (rank == 0) value->refuse("a scalar has no dims");
  return static_cast<std::size_t>(value->integer_between(0, rank - 1));
}

// What it says and advises, with the place.
[[noreturn]] void refuse_at(const JsonCursor& place, const Error& error) {
  throw Error(ErrorCode::kBadInput, Place{place.place()}, error.what(), error.hints());
}

// "[dp=2]{2, 3}".
Placement placement_from(std::string_view text) {
  std::size_t at = 0;
  Placement placement;
  placement.axes = read_mesh_axes(text, at);
  placement.ranks = read_device_list(text, at);
  require(at == text.size(), ErrorCode::kUsage, "'{}': column {}: more than a placement", text,
          at + 1);
  validate(placement);
  return placement;
}

class LogicalGraphReader {
 public:
  explicit LogicalGraphReader(const JsonCursor& root) : root_(root) {}

  GraphDocument run() {
    root_.allow_only({"schema", "name", "operators", "loss", "placements", "stages"});
    const JsonCursor schema = root_.at("schema");
    if (schema.text() != kSchema)
      schema.refuse(fmt::format("found \"{}\"; this program reads {}", schema.text(), kSchema));
    document_.name = root_.at("name").text();
    const std::vector<JsonCursor> ops = root_.at("operators").elements();
    if (ops.empty()) root_.at("operators").refuse("a graph has operators");
    for (const JsonCursor& op : ops) add_op(op);
    require_consecutive_layers();
    require_known_ids();
    if (const auto loss = root_.find_value("loss")) set_loss(*loss);
    read_stages();
    return std::move(document_);
  }

 private:
  OpId repeated(const JsonCursor& original, const LogicalOp& op) const {
    const std::optional<OpId> found = document_.graph.find_op(original.text());
    if (!found || document_.graph.op(*found).kind != op.kind || op.phase != Phase::kRecompute)
      original.refuse(
          fmt::format("no operator before this one is '{}' and a {} that the phase "
                      "recompute may repeat",
                      original.text(), op.kind));
    return *found;
  }

  void add_op(const JsonCursor& cursor) {
    cursor.allow_only({"name", "kind", "inputs", "attributes", "layer", "phase", "recompute_of",
                       "parameter", "words"});
    LogicalOp op;
    op.name = cursor.at("name").text();
    op.kind = cursor.at("kind").text();
    require_plain(cursor.at("name"));
    if (const auto inputs = cursor.find("inputs"))
      for (const JsonCursor& input : inputs->elements()) op.inputs.push_back(tensor_of(input));
    op.attributes = attributes_from(cursor);
    op.layer = static_cast<int>(cursor.at("layer").integer_between(0, kMostLayers));
    op.phase = op.kind == "input" ? Phase::kData : Phase::kForward;
    if (const auto phase = cursor.find("phase")) op.phase = parsed(*phase, parse_phase);
    if (const auto original = cursor.find("recompute_of"))
      op.recompute_of = repeated(*original, op);
    const OpId id = append(cursor, std::move(op));
    for (const TensorId output : document_.graph.op(id).outputs)
      tensors_[document_.graph.tensor(output).name] = output;
    read_words(cursor, id);
  }

  // Names stand in strategies, beside patterns and indices.
  static void require_plain(const JsonCursor& name) {
    const auto is_plain = [](unsigned char letter) {
      return letter > ' ' && letter < 127 &&
             std::string_view("*[]:\"").find(static_cast<char>(letter)) == std::string_view::npos;
    };
    const std::string& text = name.text();
    if (text.empty() || !std::all_of(text.begin(), text.end(), is_plain))
      name.refuse(fmt::format("\"{}\" is no name: wanted ASCII without blanks and * [ ] :", text));
  }

  TensorId tensor_of(const JsonCursor& name) const {
    const auto known = tensors_.find(name.text());
    if (known == tensors_.end())
      name.refuse(fmt::format("no operator before this one makes '{}'", name.text()));
    return known->second;
  }

  OpId append(const JsonCursor& cursor, LogicalOp op) {
    const auto parameter = cursor.find("parameter");
    if (parameter && op.kind != "parameter") parameter->refuse("only parameters have these facts");
    try {
      if (op.kind == "parameter") op.parameter = info_from(parameter, op.attributes);
      return document_.graph.add(std::move(op));
    } catch (const Error& error) {
      if (!error.place().empty()) throw;  // a mistake in facts, which have their own
      refuse_at(cursor, error);
    }
  }

  static ParameterInfo info_from(const std::optional<JsonCursor>& facts,
                                 const Attributes& attributes) {
    for (const char* key : {"shape", "dtype", "init", "init_std"})
      require(attributes.contains(key), ErrorCode::kBadInput,
              "a parameter needs the attribute '{}'", key);
    ParameterInfo info;
    info.initializer = initializer_of(attributes);
    if (!facts) return info;
    facts->allow_only({"weight_decay", "tensor_parallel_dim", "expert_parallel_dim"});
    const Shape shape(attributes.integers("shape"));
    if (const auto decay = facts->find("weight_decay")) info.weight_decay = decay->boolean();
    info.tensor_parallel_dim = dim_from(*facts, "tensor_parallel_dim", shape);
    info.expert_parallel_dim = dim_from(*facts, "expert_parallel_dim", shape);
    return info;
  }

  // Keys "input I" and "output I".
  void read_words(const JsonCursor& cursor, OpId id) {
    const auto all = cursor.find("words");
    if (!all) return;
    std::vector<GraphDocument::Words> found;
    std::vector<std::string> known;
    const LogicalOp& op = document_.graph.op(id);
    for (const bool is_input : {true, false}) {
      const std::vector<TensorId>& tensors = is_input ? op.inputs : op.outputs;
      for (std::size_t index = 0; index < tensors.size(); ++index) {
        known.push_back(fmt::format("{} {}", is_input ? "input" : "output", index));
        const auto words = all->find(known.back());
        if (!words) continue;
        found.push_back({.op = id,
                         .is_input = is_input,
                         .index = index,
                         .words = words_from(*words, document_.graph.tensor(tensors[index]))});
      }
    }
    all->allow_only(std::vector<std::string_view>(known.begin(), known.end()));
    document_.words.insert(document_.words.end(), found.begin(), found.end());
  }

  static NdSbp words_from(const JsonCursor& value, const LogicalTensor& tensor) {
    NdSbp words = parsed(value, parse_nd_sbp);
    for (const Sbp& word : words)
      if (word.is_split() && word.dim >= tensor.type.shape.rank())
        value.refuse(fmt::format("'{}' of shape {} has no dim {}", tensor.name,
                                 to_string(tensor.type.shape), static_cast<int>(word.dim)));
    return words;
  }

  void require_consecutive_layers() const {
    std::set<int> layers;
    for (const LogicalOp& op : document_.graph.ops()) layers.insert(op.layer);
    for (int layer = 0; layer < document_.graph.num_layers(); ++layer)
      if (layers.count(layer) == 0)
        root_.at("operators")
            .refuse(fmt::format("layers are 0 to {}, but no operator has layer {}",
                                document_.graph.num_layers() - 1, layer));
  }

  void require_known_ids() const {
    try {
      require_ids_in_range(document_.graph);
    } catch (const Error& error) {
      refuse_at(root_.at("operators"), error);
    }
  }

  void set_loss(const JsonCursor& loss) {
    loss.allow_only({"sum", "count"});
    const TensorId sum = tensor_of(loss.at("sum")), count = tensor_of(loss.at("count"));
    try {
      document_.graph.set_loss(sum, count);
    } catch (const Error& error) {
      loss.refuse(error.what());
    }
  }

  void read_stages() {
    const auto placements = root_.find_value("placements"), stages = root_.find_value("stages");
    if (!placements && !stages) return;
    if (!placements || !stages)
      root_.refuse("placements and stages come together: where, and which layer goes where");
    for (const JsonCursor& placement : placements->elements())
      document_.placements.push_back(parsed(placement, placement_from));
    const auto num_stages = static_cast<std::int64_t>(document_.placements.size());
    if (num_stages == 0) placements->refuse("wanted at least one placement");
    for (const JsonCursor& stage : stages->elements())
      document_.stage_of_layer.push_back(
          static_cast<int>(stage.integer_between(0, num_stages - 1)));
    if (static_cast<int>(document_.stage_of_layer.size()) != document_.graph.num_layers())
      stages->refuse(fmt::format("{} stages for {} layers: wanted one per layer",
                                 document_.stage_of_layer.size(), document_.graph.num_layers()));
    for (const GraphDocument::Words& words : document_.words) require_axes(words);
  }

  void require_axes(const GraphDocument::Words& words) const {
    const LogicalOp& op = document_.graph.op(words.op);
    const int stage = document_.stage_of_layer[static_cast<std::size_t>(op.layer)];
    const Placement& placement = document_.placements[static_cast<std::size_t>(stage)];
    if (words.words.size() == placement.axes.size()) return;
    root_.at("operators")
        .refuse(fmt::format("'{}': {} are {} words for the {} axes of {}", op.name,
                            to_string(words.words), words.words.size(), placement.axes.size(),
                            to_string(placement)));
  }

  const JsonCursor root_;
  GraphDocument document_;
  std::map<std::string, TensorId, std::less<>> tensors_;
};

}  // namespace

std::string to_json_text(const GraphDocument& document) {
  Json json = {{"schema", kSchema}, {"name", document.name}, {"operators", Json::array()}};
  for (std::size_t index = 0; index < document.graph.ops().size(); ++index)
    json["operators"].push_back(op_json(document, OpId(index)));
  const auto name_of = [&](TensorId tensor) { return document.graph.tensor(tensor).name; };
  if (document.graph.loss_sum())
    json["loss"] = {{"sum", name_of(*document.graph.loss_sum())},
                    {"count", name_of(*document.graph.token_count())}};
  if (!document.placements.empty()) {
    json["placements"] = Json::array();
    for (const Placement& placement : document.placements)
      json["placements"].push_back(placement_text(placement));
    json["stages"] = document.stage_of_layer;
  }
  return to_readable_text(json);
}

bool is_graph_document(const JsonCursor& root) {
  const auto schema = root.find("schema");
  return schema && schema->is_text() && schema->text().starts_with("sextant.graph/");
}

GraphDocument graph_from_json(const JsonCursor& root) { return LogicalGraphReader(root).run(); }

}  // namespace sextant
