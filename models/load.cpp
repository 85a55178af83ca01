// MODEL: a file, a built-in name or one word.
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "models/any_model.h"
#include "models/importers.h"

#include <filesystem>
#include <utility>

namespace sextant {
namespace {

// "llama-2-7b.json" -> "llama-2-7b"; "llama-2-7b/config.json" -> "llama-2-7b".
std::string name_of_file(const std::filesystem::path& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path().filename();
  const bool is_plain_config = path.stem() == "config" && !folder.empty();
  return (is_plain_config ? folder : path.stem()).string();
}

// A config is a few kilobytes; whoever gives a weight file gets told quickly.
constexpr Bytes kMaxConfigSize{std::int64_t{4} << 20};

ModelConfig load_file(const std::string& path) {
  require(!std::filesystem::path(path).extension().string().starts_with(".onnx"),
          ErrorCode::kBadInput, "{}: ONNX models are not supported in this version", path);
  const JsonDocument document = read_json_file(path, kMaxConfigSize);
  const JsonCursor root = document.root();
  if (!root.is_object()) root.refuse("a model config is an object");
  return importers::is_sextant_config(root)
             ? importers::from_sextant_config(root)
             : importers::from_hugging_face(root, name_of_file(path));
}

// A folder with a config.json stands for it, as it does for Hugging Face's own tools.
std::optional<std::string> file_of(std::string_view model) {
  std::error_code failure;
  const std::filesystem::path path{std::string(model)};
  if (std::filesystem::is_directory(path, failure)) {
    const std::filesystem::path config = path / "config.json";
    require(std::filesystem::exists(config, failure), ErrorCode::kBadInput,
            "{}: a folder without config.json", model);
    return config.string();
  }
  return std::filesystem::exists(path, failure) ? std::optional(path.string()) : std::nullopt;
}

// "mixtral/config.json:capacity_factor=2": a file, or a folder with a config.json, with other
// values.
std::optional<ModelConfig> load_changed_file(std::string_view model) {
  const std::size_t colon = model.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::filesystem::path named{std::string(model.substr(0, colon))};
  std::error_code failure;
  const bool is_folder = std::filesystem::is_directory(named, failure);
  // A folder of another kind does not keep a family of its name away.
  if (is_folder && !std::filesystem::exists(named / "config.json", failure)) return std::nullopt;
  const auto path = file_of(named.string());
  if (!path) return std::nullopt;
  ModelConfig config = load_file(*path);
  const std::string name = config.name + std::string(model.substr(colon));
  config = importers::with_values(config, model, model.substr(colon + 1));
  config.name = name;
  return config;
}

bool looks_like_path(std::string_view model) {
  model = model.substr(0, model.rfind(':'));
  return model.find('/') != std::string_view::npos || model.ends_with(".json") ||
         model.ends_with(".onnx");
}

[[noreturn]] void refuse_unknown(std::string_view model) {
  require(!looks_like_path(model), ErrorCode::kBadInput, "{}: no such file", model);
  const std::vector<std::string> names = all_builtin_names();
  throw Error(
      ErrorCode::kUsage,
      fmt::format("'{}' is no file and no built-in model{}", model, did_you_mean(model, names)),
      {"built-in models: " + comma_list(names),
       "or a shape in one word: gpt:layers=12,hidden=768,heads=12"});
}

}  // namespace

ModelConfig load_model(std::string_view model) {
  ModelConfig config;
  if (const auto path = file_of(model)) {
    config = load_file(*path);
  } else if (auto changed = load_changed_file(model)) {
    config = *std::move(changed);
  } else if (auto known = importers::builtin(model)) {
    config = *std::move(known);
  } else if (auto shape = importers::from_one_word(model)) {
    config = *std::move(shape);
  } else {
    refuse_unknown(model);
  }
  validate(config);
  return config;
}

}  // namespace sextant
