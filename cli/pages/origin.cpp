// Badges and captions.
#include "cli/pages/origin.h"

namespace sextant {

std::string_view to_string(OriginKind kind) {
  switch (kind) {
    case OriginKind::kSimulated:
      return "simulated";
    case OriginKind::kMeasured:
      return "measured";
    case OriginKind::kCounted:
      return "counted";
    case OriginKind::kPublished:
      return "published";
    case OriginKind::kCalibrated:
      return "calibrated";
    case OriginKind::kAssumed:
      return "assumed";
    case OriginKind::kStated:
      return "stated";
  }
  return "?";
}

Markup origin_badge(OriginKind kind) {
  const std::string name(to_string(kind));
  return text_element("span", "origin " + name, name);
}

Markup figure_of(const Markup& body, const std::vector<Origin>& origins) {
  Markup caption;
  for (const Origin& origin : origins)
    caption +=
        element("div", "", origin_badge(origin.kind) + text_element("span", "", origin.source));
  return element("figure", "", body + element("figcaption", "", caption));
}

}  // namespace sextant
