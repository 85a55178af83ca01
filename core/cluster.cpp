// Names of the provenance of numbers.
#include "core/cluster.h"

namespace sextant {

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::kAssumed:
      return "assumed";
    case Provenance::kPublished:
      return "published";
    case Provenance::kCalibrated:
      return "calibrated";
    case Provenance::kMeasured:
      return "measured";
  }
  return "?";
}

}  // namespace sextant
