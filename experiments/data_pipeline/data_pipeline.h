// Images from JPEGs beside synthetic ones, on a CPU rank or a GPU: figure 9 of arXiv 2110.15032.
#pragma once

#include "experiments/sweeps/experiment.h"

#include <cstdint>
#include <string>

namespace sextant::data_pipeline {

struct Question {
  std::string model =
      "conv:blocks=2x2,channels=16x32,stem_channels=16,stem_kernel=3,height=64,width=64,classes=10";
  std::int64_t batch = 8;
  std::int64_t steps = 12;      // of one run of a loader, two of them warm-up
  std::int64_t rounds = 3;      // of a loader and synthetic data in turn
  std::int64_t pictures = 64;   // JPEGs of each size
  std::string backend = "cpu";  // or cuda: the first GPU
  bool operator==(const Question&) const = default;
};

// Throws Error(kUsage) for what is not positive, too few steps, a model that reads no images or
// another backend, Error(kDevice) where there is no GPU.
Experiment experiment(const Question& question = {});

}  // namespace sextant::data_pipeline
