// What a run measured beside what its plan predicts: step, operators, speed of the machine. Read by
// `compare` and by pages.
#pragma once

#include "cli/runs/run_record.h"
#include "cli/workflow.h"
#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "simulator/steps/communication_use.h"
#include "simulator/steps/timeline.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// A run that ended before its last step left no hash of what it issued.
bool has_order(const RunRecord& record);

// The graph launch by launch, every rank: as many steps as the run made, where the order can be
// compared with its own.
Timeline timeline_beside(const PlannedJob& planned, const PhysicalGraph& graph,
                         const RunRecord& record);

// What the launches of one name have to do in a step, as cost models see it: a mean over ranks.
struct LaunchedWork {
  std::string kernel;  // of the first operator of each
  double launches = 0, operators = 0, flops = 0, bytes = 0;
};

// Predicted seconds of one step, mean over ranks.
struct PredictedTimes {
  // Of every run, and of every part of a run that a device may have timed by itself.
  std::map<std::string, double> operators;
  std::map<std::string, double> kinds;
  std::map<std::string, LaunchedWork> works;  // by the names of `operators`
};
// Of a timeline that has every rank.
PredictedTimes predicted_times(const PhysicalGraph& graph, const CostModel& cost,
                               const Timeline& timeline);

// Of the same launches by name; with what kernels and communications do to each other, in timed
// mode, where the cluster says that, else of `timeline`.
struct PredictedCommunication {
  CommunicationUse use;
  std::string mode;
};
// `timeline`: of the graph in mode `step`, for clusters that say nothing of what launches do to
// each other.
PredictedCommunication predicted_communication(const PlannedJob& planned,
                                               const PhysicalGraph& graph,
                                               const Timeline& timeline);

struct OperatorRow {
  std::string name;
  double predicted_s = 0, measured_s = 0;
};
// Operators that both sides know, the longest first.
std::vector<OperatorRow> operator_rows(const std::map<std::string, double>& predicted,
                                       const std::map<std::string, double>& measured);

// predicted / measured - 1.
double relative_error(double predicted, double measured);
// Of the rows that were measured: half of them are nearer.
std::optional<double> median_error(const std::vector<OperatorRow>& rows);

// How much longer the machine took for the same work during the run than when the cluster's figures
// were measured; nothing where either is unknown.
std::optional<double> slowdown(const DeviceKind& device, const RunRecord& record);

}  // namespace sextant
