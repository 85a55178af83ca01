// Rows as they come.
#include "io/pages/html_table.h"

#include "core/base/check.h"

#include <cstddef>

namespace sextant {

void HtmlTable::add(const std::vector<Markup>& cells) {
  require(cells.size() == columns_.size(), ErrorCode::kInternal,
          "{} cells in a table of {} columns", cells.size(), columns_.size());
  Markup row;
  for (std::size_t i = 0; i < cells.size(); ++i)
    row += element("td", columns_[i].is_number ? "number" : "", cells[i]);
  rows_ += element("tr", "", row);
}

void HtmlTable::add_texts(const std::vector<std::string>& cells) {
  std::vector<Markup> row;
  for (const std::string& cell : cells) row.emplace_back(cell);
  add(row);
}

Markup HtmlTable::head() const {
  Markup cells;
  bool has_title = false;
  for (const HtmlColumn& column : columns_) {
    has_title = has_title || !column.title.empty();
    cells += text_element("th", column.is_number ? "number" : "", column.title);
  }
  return has_title ? element("thead", "", element("tr", "", cells)) : Markup();
}

Markup HtmlTable::markup(bool tall) const {
  // It scrolls, so those who have a keyboard alone must reach it.
  return element("div", {{"class", tall ? "scroll tall" : "scroll"}, {"tabindex", "0"}},
                 element("table", "", head() + element("tbody", "", rows_)));
}

}  // namespace sextant
