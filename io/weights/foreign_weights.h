// Weights from safetensors of other programs, tensor by tensor in the layout of ours.
#pragma once

#include "core/files/foreign_tensor.h"
#include "io/safetensors.h"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sextant {

class ForeignWeights {
 public:
  // A file, or a folder of them. Headers are read, no data. Throws Error(kBadInput) naming the file
  // that is missing or damaged, or a tensor that two files have.
  explicit ForeignWeights(const std::string& path);

  // Finds every parameter (f32 or f64) in the files: under its own name where they have our names,
  // else as `model` says. Throws Error(kBadInput) naming a tensor that is missing, of another shape
  // or left over.
  void match(const std::vector<NamedTensor>& own, const ForeignModel& model);
  // Whether the files have our names, so that no `model` is asked for.
  bool has_own_names(const std::vector<NamedTensor>& own) const;

  const std::string& path() const { return path_; }
  // Equal where the same files come: their fingerprints (io/data/mapped_file.h).
  std::string fingerprint() const;
  std::size_t num_parameters() const { return matched_.size(); }
  // Row-major values of a matched parameter in its own type.
  std::vector<std::byte> read(const std::string& own) const;

 private:
  struct Place {
    const SafetensorsFile* file = nullptr;
    TensorType type;
  };
  struct Part {
    ForeignTensor tensor;
    std::string name;  // under which its file has it
  };
  struct Matched {
    TensorType type;
    std::vector<Part> parts;
  };

  void open(const std::string& file);
  Part found_part(const ForeignTensor& tensor) const;
  void require_shape(const Part& part) const;
  void require_nothing_left(const std::vector<std::string>& ignored) const;
  void add_part(const Part& part, const TensorType& own, std::vector<double>& values) const;

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place> places_;
  std::map<std::string, Matched> matched_;
};

}  // namespace sextant
