// What the validator of physical graphs reports, and the topics it is made of. Internal to core.
#pragma once

#include "core/base/at.h"
#include "core/base/check.h"
#include "core/graphs/physical_graph.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant::validator {

// The first violation of each rule with the number of further ones: a graph that breaks a rule once
// per run would otherwise bury the others.
class Findings {
 public:
  // `rule` is its number in the list over validate(). The arguments are only formatted when the
  // rule is broken.
  template <typename... Args>
  bool expect(bool holds, std::string_view rule, fmt::format_string<Args...> text, Args&&... args) {
    if (!holds) add(rule, fmt::format(text, std::forward<Args>(args)...));
    return holds;
  }

  bool empty() const { return findings_.empty(); }
  std::vector<std::string> messages() const;  // by rule, in the order of the checks

 private:
  struct Finding {
    std::string rule, text;
    std::size_t more = 0;
  };
  void add(std::string_view rule, std::string text);

  std::vector<Finding> findings_;
};

// Everything below assumes that this one found nothing.
void check_indices(const PhysicalGraph& graph, Findings& findings);

// Each adds what it finds broken of the rules of its name in the list over validate().
void check_blocks(const PhysicalGraph& graph, Findings& findings);
void check_rates(const PhysicalGraph& graph, Findings& findings);
void check_memory(const PhysicalGraph& graph, Findings& findings);
void check_symmetric(const PhysicalGraph& graph, Findings& findings);
void check_order(const PhysicalGraph& graph, Findings& findings);
void check_launch_groups(const PhysicalGraph& graph, Findings& findings);
void check_bindings(const PhysicalGraph& graph, Findings& findings);
void check_communications(const PhysicalGraph& graph, Findings& findings);
void check_agreement(const PhysicalGraph& graph, Findings& findings);
void check_fusion(const PhysicalGraph& graph, Findings& findings);
void check_shapes(const PhysicalGraph& graph, Findings& findings);

// Contents that a frame gets in one step of the instance.
inline std::int32_t contents_per_step(const Instance& instance, const Frame& frame) {
  return instance.acts_per_step / frame.acts_per_content;
}

// The actor that writes each register of a block; -1 where none does.
std::vector<std::int32_t> writers_of(const Block& block);

}  // namespace sextant::validator
