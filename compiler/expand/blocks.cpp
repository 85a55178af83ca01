// Forms by signature: the work on an instance whose form is known is one pass over integers.
#include "compiler/expand/blocks.h"

#include "compiler/expand/block_form.h"
#include "compiler/expand/block_names.h"
#include "core/base/at.h"
#include "core/base/hash.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace sextant {

BlockForms::BlockForms(const Partition& partition, const LayoutTable& layouts,
                       const GroupTable& groups, const Options& options)
    : BlockForms(partition, layouts, groups, options, [](const InstanceSpec&) { return true; }) {}

BlockForms::BlockForms(const Partition& partition, const LayoutTable& layouts,
                       const GroupTable& groups, const Options& options,
                       const std::function<bool(const InstanceSpec&)>& wanted)
    : partition_(&partition), layouts_(&layouts), operands_(partition) {
  const FormSource source{partition, layouts, groups, operands_};
  FormSymbols symbols;
  std::vector<FormSignature> signatures;  // by form
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> by_hash;
  const auto num_instances = static_cast<std::int32_t>(partition.instances().size());
  for (std::int32_t instance = 0; instance < num_instances; ++instance) {
    if (!wanted(at(partition.instances(), instance))) {
      form_of_.push_back(-1);
      continue;
    }
    const RegisterHomes homes = homes_of(source, instance, options, symbols);
    FormSignature signature = signature_of(source, instance, homes, symbols);
    Fnv1a hash;
    for (const std::int64_t symbol : signature) hash.add(symbol);
    std::vector<std::int32_t>& bucket = by_hash[hash.value()];
    const auto known = std::find_if(bucket.begin(), bucket.end(), [&](std::int32_t form) {
      return at(signatures, form) == signature;
    });
    if (known != bucket.end()) {
      form_of_.push_back(*known);
      continue;
    }
    form_of_.push_back(num_forms());
    bucket.push_back(num_forms());
    first_instance_.push_back(instance);
    forms_.push_back(make_form(source, instance, homes));
    signatures.push_back(std::move(signature));
  }
}

std::int32_t BlockForms::form_of(std::int32_t instance) const { return at(form_of_, instance); }

const Block& BlockForms::form(std::int32_t form) const { return at(forms_, form); }

int BlockForms::stage_of(std::int32_t form) const {
  return at(partition_->instances(), at(first_instance_, form)).stage;
}

std::vector<LayoutId> BlockForms::port_layouts(std::int32_t form) const {
  std::vector<LayoutId> layouts;
  for (const StagedTensorIndex tensor : ports(at(first_instance_, form)))
    layouts.push_back(layouts_->of(tensor));
  return layouts;
}

std::span<const StagedTensorIndex> BlockForms::ports(std::int32_t instance) const {
  return operands_.ports(instance);
}

InstanceNames BlockForms::names(std::int32_t instance) const {
  const StagedGraph& graph = partition_->graph();
  const InstanceSpec& spec = at(partition_->instances(), instance);
  const InstanceSpec& first = at(partition_->instances(), at(first_instance_, form_of(instance)));
  return have_equal_names(graph, spec, first) ? InstanceNames() : names_in_block(graph, spec);
}

std::int32_t BlockForms::register_of(StagedTensorIndex tensor) const {
  return operands_.register_of(tensor);
}

}  // namespace sextant
