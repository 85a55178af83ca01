// One table of families: schema, word, defaults; their values come from models/fields.
#include "models/other_architectures.h"

#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/json_text.h"
#include "core/text/settings_text.h"
#include "models/fields.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace sextant::importers {
namespace {

using Json = nlohmann::ordered_json;

struct OtherFamily {
  std::string_view word, schema;
  AnyModel (*defaults)();
};

AnyModel small_conv_net() {
  return ConvNetConfig{.name = "", .blocks = {2, 2, 2, 2}, .channels = {64, 128, 256, 512}};
}
AnyModel plain_wide_deep() { return WideDeepConfig(); }
AnyModel plain_class_head() { return ClassHeadConfig(); }
AnyModel plain_face_net() {
  FaceNetConfig config = face_r100();
  config.name.clear();
  return config;
}

constexpr OtherFamily kOtherFamilies[] = {{"conv", "sextant.conv_net/1", small_conv_net},
                                          {"wide_deep", "sextant.wide_deep/1", plain_wide_deep},
                                          {"class_head", "sextant.class_head/1", plain_class_head},
                                          {"face_net", "sextant.face_net/1", plain_face_net}};

// ResNets: table 1 of arXiv 1512.03385. Wide & Deep: fields of the Criteo data, sizes as in the
// paper's Fig. 13. The face classifier: a million identities.
AnyModel resnet(std::string_view name, bool bottleneck, std::vector<std::int64_t> blocks) {
  return ConvNetConfig{.name = std::string(name),
                       .bottleneck = bottleneck,
                       .blocks = std::move(blocks),
                       .channels = {64, 128, 256, 512}};
}

struct Builtin {
  std::string_view name;
  AnyModel (*make)(std::string_view name);
};
constexpr Builtin kBuiltins[] = {
    {"resnet18",
     [](std::string_view name) {
       return resnet(name, false, {2, 2, 2, 2});
     }},
    {"resnet50",
     [](std::string_view name) {
       return resnet(name, true, {3, 4, 6, 3});
     }},
    {"resnet101",
     [](std::string_view name) {
       return resnet(name, true, {3, 4, 23, 3});
     }},
    {"wide-deep",
     [](std::string_view name) {
       return AnyModel(WideDeepConfig{.name = std::string(name), .hidden = {1024, 1024, 1024}});
     }},
    {"class-head-1m",
     [](std::string_view name) {
       return AnyModel(ClassHeadConfig{.name = std::string(name), .hidden = {512}});
     }},
    {"face-r100", [](std::string_view) { return AnyModel(face_r100()); }},
    {"mobile-face-net", [](std::string_view) { return AnyModel(mobile_face_net()); }}};

// `use` with the config of whatever architecture, if it is none of the decoder's or a file's.
template <typename Use>
void with_config(AnyModel& model, const Use& use) {
  std::visit(
      [&](auto& config) {
        using Config = std::decay_t<decltype(config)>;
        if constexpr (!std::is_same_v<Config, ModelConfig> &&
                      !std::is_same_v<Config, GraphDocument>)
          use(config);
      },
      model);
}

std::vector<Field> fields(AnyModel& model) {
  std::vector<Field> result;
  with_config(model, [&](auto& config) { result = fields_of(config); });
  return result;
}

std::vector<std::string> keys_of(const std::vector<Field>& all) {
  std::vector<std::string> keys;
  for (const Field& field : all) keys.emplace_back(field.key);
  return keys;
}

// One word.

template <typename Number>
Number number(std::string_view text, std::string_view key, std::string_view value) {
  Number result = 0;
  const char* const end = value.data() + value.size();
  const auto [after, failure] = std::from_chars(value.data(), end, result);
  require(failure == std::errc() && after == end && result >= 0, ErrorCode::kUsage,
          "'{}': {}={} is not a number of 0 or more", text, key, value);
  return result;
}

std::vector<std::int64_t> list(std::string_view text, std::string_view key,
                               std::string_view value) {
  std::vector<std::int64_t> numbers;
  for (;;) {
    const std::size_t end = value.find('x');
    numbers.push_back(number<std::int64_t>(text, key, value.substr(0, end)));
    if (end == std::string_view::npos) return numbers;
    value.remove_prefix(end + 1);
  }
}

constexpr std::pair<ImageInput, std::string_view> kImageInputs[] = {{ImageInput::kFloat, "float"},
                                                                    {ImageInput::kU8, "u8"}};

std::string_view name_of(ImageInput input) {
  for (const auto& [known, name] : kImageInputs)
    if (known == input) return name;
  return "";
}

std::optional<ImageInput> image_input(std::string_view name) {
  for (const auto& [input, known] : kImageInputs)
    if (known == name) return input;
  return std::nullopt;
}

void set(const Field& field, std::string_view text, std::string_view value) {
  if (auto* const* integer = std::get_if<std::int64_t*>(&field.value))
    **integer = number<std::int64_t>(text, field.key, value);
  else if (auto* const* real = std::get_if<double*>(&field.value))
    **real = number<double>(text, field.key, value);
  else if (auto* const* flag = std::get_if<bool*>(&field.value))
    **flag = number<std::int64_t>(text, field.key, value) != 0;
  else if (auto* const* images = std::get_if<ImageInput*>(&field.value)) {
    const std::optional<ImageInput> named = image_input(value);
    require(named.has_value(), ErrorCode::kUsage, "'{}': {}={}, wanted float or u8", text,
            field.key, value);
    **images = *named;
  } else
    *std::get<std::vector<std::int64_t>*>(field.value) = list(text, field.key, value);
}

void set_all(AnyModel& model, std::string_view text, std::string_view rest) {
  const std::vector<Field> known = fields(model);
  require(!rest.empty(), ErrorCode::kUsage, "'{}': nothing behind the colon", text);
  for (const Setting& setting : parse_settings(rest, ",", text)) {
    const std::string& key = setting.key;
    const auto field =
        std::find_if(known.begin(), known.end(), [&](const Field& one) { return one.key == key; });
    if (field == known.end())
      throw Error(
          ErrorCode::kUsage,
          fmt::format("'{}': unknown key '{}'{}", text, key, did_you_mean(key, keys_of(known))),
          {"known keys: " + comma_list(keys_of(known))});
    set(*field, text, setting.value);
  }
}

// JSON.

Json json_of(const Field& field) {
  if (auto* const* images = std::get_if<ImageInput*>(&field.value)) return name_of(**images);
  return std::visit([](const auto* value) { return Json(*value); }, field.value);
}

bool has_default(const Field& field) {
  auto* const* images = std::get_if<ImageInput*>(&field.value);
  return images != nullptr && **images == ImageInput::kFloat;
}

void read(const Field& field, const JsonCursor& value) {
  if (auto* const* integer = std::get_if<std::int64_t*>(&field.value)) {
    **integer = value.integer();
  } else if (auto* const* real = std::get_if<double*>(&field.value)) {
    **real = value.real();
  } else if (auto* const* flag = std::get_if<bool*>(&field.value)) {
    **flag = value.boolean();
  } else if (auto* const* images = std::get_if<ImageInput*>(&field.value)) {
    const std::optional<ImageInput> named = image_input(value.text());
    if (!named) value.refuse("wanted \"float\" or \"u8\"");
    **images = *named;
  } else {
    auto& numbers = *std::get<std::vector<std::int64_t>*>(field.value);
    numbers.clear();
    for (const JsonCursor& element : value.elements()) numbers.push_back(element.integer());
  }
}

const OtherFamily* family_of_schema(std::string_view schema) {
  for (const OtherFamily& family : kOtherFamilies)
    if (family.schema == schema) return &family;
  return nullptr;
}

const OtherFamily& family_of(const AnyModel& model) {
  for (const OtherFamily& family : kOtherFamilies)
    if (family.defaults().index() == model.index()) return family;
  fail(ErrorCode::kInternal, "a decoder or a graph is no other architecture");
}

}  // namespace

std::optional<AnyModel> other_builtin(std::string_view name) {
  for (const Builtin& builtin : kBuiltins)
    if (builtin.name == name) return builtin.make(name);
  return std::nullopt;
}

std::vector<std::string> other_builtin_names() {
  std::vector<std::string> names;
  for (const Builtin& builtin : kBuiltins) names.emplace_back(builtin.name);
  return names;
}

std::optional<AnyModel> other_from_one_word(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::optional<AnyModel> model = other_builtin(text.substr(0, colon));
  for (const OtherFamily& family : kOtherFamilies)
    if (family.word == text.substr(0, colon)) model = family.defaults();
  if (!model) return std::nullopt;
  set_all(*model, text, text.substr(colon + 1));
  with_config(*model, [&](auto& config) {
    config.name = text;
    validate(config);
  });
  return model;
}

bool is_other_config(const JsonCursor& root) {
  const auto schema = root.find("schema");
  return schema && schema->is_text() && family_of_schema(schema->text()) != nullptr;
}

AnyModel other_from_json(const JsonCursor& root) {
  AnyModel model = family_of_schema(root.at("schema").text())->defaults();
  const std::vector<Field> all = fields(model);
  std::vector<std::string_view> known = {"schema", "name"};
  for (const Field& field : all) known.push_back(field.key);
  root.allow_only(known);
  for (const Field& field : all)
    if (!is_optional(field) || root.find(field.key)) read(field, root.at(field.key));
  with_config(model, [&](auto& config) {
    config.name = root.at("name").text();
    validate(config);
  });
  return model;
}

std::string other_to_json_text(const AnyModel& model) {
  AnyModel copy = model;
  Json json = {{"schema", family_of(model).schema}, {"name", name_of(model)}};
  for (const Field& field : fields(copy))
    if (!is_optional(field) || !has_default(field)) json[std::string(field.key)] = json_of(field);
  return to_readable_text(json, 40);
}

}  // namespace sextant::importers
