// Tables of a page: numbers to the right in digits of one width, the rest to the left.
#pragma once

#include "io/pages/markup.h"

#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct HtmlColumn {
  std::string title;
  bool is_number = false;
};

class HtmlTable {
 public:
  explicit HtmlTable(std::vector<HtmlColumn> columns) : columns_(std::move(columns)) {}

  // As many cells as columns; Error(kInternal) otherwise.
  void add(const std::vector<Markup>& cells);
  void add_texts(const std::vector<std::string>& cells);

  bool is_empty() const { return rows_.is_empty(); }
  // Scrolls by itself where it is wider than the page; `tall`: and where it is higher than a
  // screen.
  Markup markup(bool tall = false) const;

 private:
  Markup head() const;  // nothing where no column has a title

  std::vector<HtmlColumn> columns_;
  Markup rows_;
};

}  // namespace sextant
