// What a cluster file says about the link between the devices of this machine, measured by whatever
// LinkTimer stands for them: every collective by size, and what it and computation do to each
// other.
#pragma once

#include "actor/calls/link_timer.h"
#include "core/costs/cluster.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sextant {

struct LinkPoint {
  Primitive primitive = Primitive::kAllReduce;
  LinkSetting setting;
  Bytes global_bytes;
  double seconds = 0;
};

struct LinkCompany {
  Primitive primitive = Primitive::kAllReduce;
  std::string kernel;
  Bytes global_bytes;
  BesideTiming timing;
};

// What was measured, for reports: the cluster file keeps what it makes of it.
struct LinkMeasurement {
  std::vector<LinkPoint> points;
  std::vector<LinkCompany> companies;
};

struct LinkMeasurementOptions {
  Bytes least{1 << 10}, most{std::int64_t{1} << 30};  // of tensors, each size four times the last
  std::vector<LinkSetting> settings;                  // beside the usual ones
  std::function<void(const std::string&)> say;        // progress
};

LinkMeasurement measure_links(LinkTimer& timer, const LinkMeasurementOptions& options);

// The link with what the usual settings measured: up to three lines for each primitive, of which
// the network model takes the lowest at each size. `worst` is how far they are from the times that
// they were fitted to, as a share. The wiring stays.
struct FittedLink {
  NetworkLink link;
  double worst = 0;
};
FittedLink fit_link(const NetworkLink& base, const LinkTimer& timer,
                    const LinkMeasurement& measured, const std::string& source);

// Rates beside each other as shares of those alone, each the mean over what was measured: what a
// step has most of counts as much as the rest, for nobody knows the step. At most 1.
void set_company(const std::vector<LinkCompany>& companies, const std::string& source,
                 DeviceKind& device);

// How many bytes the link of the busiest member carries, per byte of the tensor that is global to
// `ranks`.
double link_bytes_per_tensor_byte(Primitive primitive, double ranks);

}  // namespace sextant
