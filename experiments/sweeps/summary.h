// What a sweep's rows say, for people and for pages: table, shapes, `summary.json` (README.md).
#pragma once

#include "experiments/sweeps/experiment.h"

#include <string>
#include <vector>

namespace sextant {

// Rows as a table: point, way, columns, with the reference and the ratio to it beside a column that
// has one; errors in the place of values. The first row is the header.
std::vector<std::vector<std::string>> table_of(const Experiment& experiment,
                                               const std::vector<SweepRow>& rows);
std::string to_markdown(const std::vector<std::vector<std::string>>& table);

// "holds", "does not hold", "cannot be said".
std::string verdict_of(const ShapeClaim& shape);

// The text of `summary.json`; `figures` are names of files beside it.
std::string summary_json(const Experiment& experiment, const std::vector<SweepRow>& rows,
                         const std::vector<ShapeClaim>& shapes, const std::vector<Figure>& figures);
// The text of `table.md`: question, expectation, table, shapes.
std::string summary_markdown(const Experiment& experiment, const std::vector<SweepRow>& rows,
                             const std::vector<ShapeClaim>& shapes);

}  // namespace sextant
