// Whether a run and its plan are of one kind of device: only then does one say something about the
// other.
#pragma once

#include "core/costs/cluster.h"

#include <string_view>

namespace sextant {

// Whether the devices that run are of the kind that a plan is for. They are known by name alone: a
// CPU's begins with "cpu"; of others the model, which is the first word with a digit ("H100" of
// "H100-SXM5-80GB"), is a word of what the driver calls the device ("NVIDIA H100 80GB HBM3").
bool is_planned_device(std::string_view backend, const DeviceKind& planned,
                       std::string_view devices);

}  // namespace sextant
