// Forms by signature: the work on an instance whose form is known is one pass over integers.
#include "compiler/expand/blocks.h"

#include "compiler/expand/block_form.h"
#include "compiler/expand/block_names.h"
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
  Table<FormId, FormSignature> signatures;
  std::unordered_map<std::uint64_t, std::vector<FormId>> by_hash;
  for (const StagedInstanceId instance : partition.instances().keys()) {
    if (!wanted(partition.instances()[instance])) {
      form_of_.push_back(FormId::none);
      continue;
    }
    const RegisterHomes homes = homes_of(source, instance, options, symbols);
    FormSignature signature = signature_of(source, instance, homes, symbols);
    Fnv1a hash;
    for (const std::int64_t symbol : signature) hash.add(symbol);
    std::vector<FormId>& bucket = by_hash[hash.value()];
    const auto known = std::find_if(bucket.begin(), bucket.end(),
                                    [&](FormId form) { return signatures[form] == signature; });
    if (known != bucket.end()) {
      form_of_.push_back(*known);
      continue;
    }
    const FormId form = forms_.add(make_form(source, instance, homes));
    form_of_.push_back(form);
    bucket.push_back(form);
    first_instance_.push_back(instance);
    signatures.push_back(std::move(signature));
  }
}

FormId BlockForms::form_of(StagedInstanceId instance) const { return form_of_[instance]; }

const Block& BlockForms::form(FormId form) const { return forms_[form]; }

int BlockForms::stage_of(FormId form) const {
  return partition_->instances()[first_instance_[form]].stage;
}

std::vector<LayoutId> BlockForms::port_layouts(FormId form) const {
  std::vector<LayoutId> layouts;
  for (const StagedTensorId tensor : ports(first_instance_[form]))
    layouts.push_back(layouts_->of(tensor));
  return layouts;
}

std::span<const StagedTensorId> BlockForms::ports(StagedInstanceId instance) const {
  return operands_.ports(instance);
}

InstanceNames BlockForms::names(StagedInstanceId instance) const {
  const StagedGraph& graph = partition_->graph();
  const InstanceSpec& spec = partition_->instances()[instance];
  const InstanceSpec& first = partition_->instances()[first_instance_[form_of(instance)]];
  return have_equal_names(graph, spec, first) ? InstanceNames() : names_in_block(graph, spec);
}

std::int32_t BlockForms::register_of(StagedTensorId tensor) const {
  return operands_.register_of(tensor);
}

}  // namespace sextant
