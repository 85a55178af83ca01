// The directed links among equal ends, devices of a node or nodes, as one Wiring lays them, and the
// way from end to end. Links are numbered from 0.
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// What a link carries of large messages, per device and direction: the bandwidth times the best
// efficiency that is known of it.
double usable_bandwidth(const NetworkLink& link);

class Wires {
 public:
  // `bandwidth` is that of one end and direction, to be divided as the wiring says. Throws
  // Error(kBadInput) for extents or cables that do not reach every end.
  Wires(const NetworkLink& link, std::int64_t ends, double bandwidth);

  std::int32_t count() const { return count_; }
  // Appends them, named "PREFIX.device3.nvlink.out" for `end_name` "device".
  void append_links(const std::string& prefix, std::string_view end_name,
                    std::vector<SharedLink>& links) const;
  // Appends the links on the way, each offset by `base`: dimension by dimension in a torus, the
  // shorter way round, the fewest cables and of those the widest.
  void route(std::int64_t from, std::int64_t to, std::int32_t base,
             std::vector<std::int32_t>& links) const;
  Wiring wiring() const { return wiring_; }

 private:
  struct Port {
    std::int64_t extent = 1, stride = 1;  // of the dimension
    std::int32_t next = 0, previous = 0;  // among the links of one end; equal where extent is 2
  };

  void lay_torus(const std::vector<std::int64_t>& extents);
  void lay_cables(const std::vector<Cable>& cables);
  std::string name_of(std::int32_t link, std::string_view end_name) const;
  double capacity_of(std::int32_t link) const;

  std::string name_;
  Wiring wiring_;
  std::int64_t ends_;
  double bandwidth_;
  std::int32_t count_ = 0;
  std::vector<Port> ports_;         // of a ring or torus, by dimension
  std::int32_t links_per_end_ = 0;  // likewise
  std::vector<Cable> cables_;
  double lane_bandwidth_ = 0;
  std::vector<std::int32_t> last_link_;  // of the way from an end to another, by both; -1: none
};

}  // namespace sextant
