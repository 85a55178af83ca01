// Tensors of the file in the order of the model; what is fused comes from several of ours.
#include "io/weights/write_foreign_weights.h"

#include "core/base/check.h"
#include "core/base/elements.h"
#include "io/weights/foreign_layout.h"

#include <map>
#include <span>
#include <utility>

namespace sextant {
namespace {

struct FusedTensor {
  NamedTensor tensor;
  std::vector<const ForeignTensor*> parts;
};

std::vector<FusedTensor> tensors_of(const ForeignModel& model, DType dtype) {
  std::vector<FusedTensor> tensors;
  std::map<std::string, std::size_t> known;
  for (const ForeignTensor& part : model.tensors) {
    const std::string& name = part.names.front();
    const auto [found, is_new] = known.emplace(name, tensors.size());
    if (is_new) tensors.push_back({{name, {part.shape, dtype}}, {}});
    tensors[found->second].parts.push_back(&part);
  }
  return tensors;
}

}  // namespace

void write_foreign_weights(const std::string& path, const std::vector<NamedTensor>& own,
                           const ForeignModel& model, DType dtype,
                           const std::function<std::vector<std::byte>(const std::string&)>& read) {
  std::map<std::string, TensorType> types;
  for (const NamedTensor& tensor : own) types.emplace(tensor.name, tensor.type);
  const std::vector<FusedTensor> tensors = tensors_of(model, dtype);
  std::vector<NamedTensor> names;
  for (const FusedTensor& fused : tensors) names.push_back(fused.tensor);
  // Without this word older loaders of Hugging Face refuse the file.
  SafetensorsWriter file(path, std::move(names), "pt");
  std::string in_hand;  // experts of one parameter come one behind the other
  std::vector<double> ours;
  for (const FusedTensor& fused : tensors) {
    std::vector<double> theirs(static_cast<std::size_t>(fused.tensor.type.shape.elements()));
    for (const ForeignTensor* part : fused.parts) {
      const TensorType& type = types.at(part->own);
      if (part->own != in_hand) {
        const std::vector<std::byte> bytes = read(part->own);
        ours.resize(static_cast<std::size_t>(type.shape.elements()));
        load_as_double(type.dtype, bytes.data(), ours);
        in_hand = part->own;
      }
      for_each_pair(*part, type.shape, [&](std::size_t of_own, std::size_t of_foreign) {
        theirs[of_foreign] = ours[of_own];
      });
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(fused.tensor.type).value));
    store_from_double(dtype, theirs, bytes.data());
    file.append(std::span<const std::byte>(bytes));
  }
  file.finish();
}

}  // namespace sextant
