// What runs need of runs on other queues and make for them. It is the same in every act, and a step
// has many acts: passes over a finished order ask here instead of every operator of every run.
#pragma once

#include "compiler/order/issue_order.h"
#include "compiler/order/partition.h"
#include "core/base/ids.h"
#include "core/base/table.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

std::span<const StagedOpId> ops_of(const Partition& partition, const OrderedRun& run);

// Forms of all runs of an order, which may change its places and its groups. `partition` outlives
// them.
class RunForms {
 public:
  using FormId = Id<struct RunFormTag>;
  // The same actors of an instance, in whatever act.
  struct Form {
    std::int32_t num_actors = 0;
    QueueRole queue = QueueRole::kCompute;  // which all its actors share
    bool is_transfer = false;
    std::int32_t first_read = 0, first_made = 0, end = 0;  // of its tensors
    FormId next;  // another one that begins with the same actor
  };

  RunForms(const Partition& partition, const IssueOrder& order);

  const Partition& partition() const { return *partition_; }
  const Form& of(const OrderedRun& run) const {
    FormId form = first_form_[place_of(run)];
    while (forms_[form].num_actors != run.num_actors) form = forms_[form].next;
    return forms_[form];
  }
  // What its actors read that another queue makes, state too, and make that another queue reads.
  std::span<const StagedTensorId> reads(const Form& form) const {
    return of_tensors(form.first_read, form.first_made);
  }
  std::span<const StagedTensorId> makes(const Form& form) const {
    return of_tensors(form.first_made, form.end);
  }

 private:
  // Actors of all instances in one row.
  using PlaceId = Id<struct RunPlaceTag>;
  PlaceId place_of(const OrderedRun& run) const {
    return first_place_[run.instance].plus(run.first_actor);
  }
  std::span<const StagedTensorId> of_tensors(std::int32_t begin, std::int32_t end) const {
    return std::span(tensors_).subspan(static_cast<std::size_t>(begin),
                                       static_cast<std::size_t>(end - begin));
  }
  bool is_known(const OrderedRun& run) const;
  Form made(const OrderedRun& run);

  const Partition* partition_;
  Table<StagedInstanceId, PlaceId> first_place_;
  Table<PlaceId, FormId> first_form_;
  Table<FormId, Form> forms_;
  std::vector<StagedTensorId> tensors_;
};

}  // namespace sextant
