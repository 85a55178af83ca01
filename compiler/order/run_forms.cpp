// One look at every run, one at the operators of every form.
#include "compiler/order/run_forms.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {

std::span<const StagedOpId> ops_of(const Partition& partition, const OrderedRun& run) {
  const InstanceSpec& instance = partition.instances()[run.instance];
  return std::span(instance.ops).subspan(at(run.first_actor), at(run.num_actors));
}

RunForms::RunForms(const Partition& partition, const IssueOrder& order) : partition_(&partition) {
  PlaceId next(0);
  for (const InstanceSpec& instance : partition.instances()) {
    first_place_.push_back(next);
    next = next.plus(size_of(instance.ops));
  }
  first_form_.resize(next.index());
  for (const std::vector<OrderedRun>& stage : order)
    for (const OrderedRun& run : stage) {
      if (is_known(run)) continue;
      const Form form = made(run);
      first_form_[place_of(run)] = forms_.add(form);
    }
}

bool RunForms::is_known(const OrderedRun& run) const {
  FormId form = first_form_[place_of(run)];
  while (form.is_valid() && forms_[form].num_actors != run.num_actors) form = forms_[form].next;
  return form.is_valid();
}

RunForms::Form RunForms::made(const OrderedRun& run) {
  const std::span<const StagedOpId> ops = ops_of(*partition_, run);
  Form form;
  form.num_actors = run.num_actors;
  form.queue = partition_->queue(ops.front());
  form.next = first_form_[place_of(run)];
  const auto is_elsewhere = [&](StagedOpId op) { return partition_->queue(op) != form.queue; };
  form.first_read = size_of(tensors_);
  for (const StagedOpId op : ops) {
    form.is_transfer = form.is_transfer || partition_->is_transfer(op);
    for (const StagedTensorId in : partition_->reads(op))
      if (is_elsewhere(partition_->graph().tensors[in].producer)) tensors_.push_back(in);
  }
  form.first_made = size_of(tensors_);
  for (const StagedOpId op : ops)
    for (const StagedTensorId out : partition_->makes(op)) {
      const std::span<const StagedOpId> readers = partition_->readers(out);
      if (std::any_of(readers.begin(), readers.end(), is_elsewhere)) tensors_.push_back(out);
    }
  form.end = size_of(tensors_);
  return form;
}

}  // namespace sextant
