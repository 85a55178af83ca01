// What a page must be whatever it shows: text stays text, pictures keep what they are given, and
// nothing is loaded.
#include "core/base/error.h"
#include "io/pages/bars.h"
#include "io/pages/escape.h"
#include "io/pages/html_table.h"
#include "io/pages/lanes.h"
#include "io/pages/page.h"
#include "io/pages/plot.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <regex>
#include <string>
#include <vector>

namespace sextant::pages_test {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// Texts that were meant to be more than text.
std::vector<std::string> hostile_texts() {
  return {"</script><script>alert(1)</script>",
          "<img src=x onerror=alert(1)>",
          "\" onmouseover=\"alert(1)",
          "' onfocus='alert(1)",
          "</title></style>--><svg onload=alert(1)>",
          "&lt;script&gt;",
          std::string("nul\0nul", 7),
          "\xff\xfe<\xc0\xbc"};
}

Plot plot_of(std::vector<PlotPoint> points, PlotMark mark) {
  Plot plot;
  plot.description = "a plot";
  plot.x = {"size"};
  plot.y = {"time (s)"};
  plot.series = {{"ours", std::move(points), mark, 0}};
  return plot;
}

Plot areas_of(std::vector<PlotPoint> below, std::vector<PlotPoint> above) {
  Plot plot = plot_of(std::move(below), PlotMark::kArea);
  plot.series.push_back({"more", std::move(above), PlotMark::kArea, 1});
  return plot;
}

LanesPicture lanes_of(std::vector<LaneSlice> slices) {
  LanesPicture picture;
  picture.description = "lanes";
  picture.axis = "time (ms)";
  picture.end = 16;
  picture.rows = {{"rank 0", {{"compute", true, std::move(slices)}}}};
  return picture;
}

}  // namespace

TEST_CASE("escaped text has no character that ends text or an attribute, and says the same") {
  CHECK(escaped_html("a<b & \"c\" 'd' > e") == "a&lt;b &amp; &quot;c&quot; &#39;d&#39; &gt; e");
  CHECK(escaped_html("tab\tline\n") == "tab\tline\n");
  CHECK(escaped_html("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80") ==
        "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80");
  for (const std::string& text : hostile_texts())
    CHECK(escaped_html(text).find_first_of("<>\"'") == std::string::npos);
}

TEST_CASE("bytes that are no UTF-8, and control characters, become U+FFFD") {
  CHECK(escaped_html(std::string("a\0b", 3)) == "a" + kReplacement + "b");
  CHECK(escaped_html("\x1B[31m\x7F") == kReplacement + "[31m" + kReplacement);
  CHECK(escaped_html("\xFF") == kReplacement);
  CHECK(escaped_html("\xE2\x82") == kReplacement + kReplacement);  // cut short
  CHECK(escaped_html("\xC0\xBC") == kReplacement + kReplacement);  // '<' written too long
  CHECK(escaped_html("\xED\xA0\x80") == kReplacement + kReplacement + kReplacement);  // surrogate
  CHECK(escaped_html("\xF4\x90\x80\x80").size() == 4 * kReplacement.size());  // above U+10FFFF
  CHECK(escaped_html("\x80x") == kReplacement + "x");
}

TEST_CASE("no text becomes an element, wherever a page has text") {
  for (const std::string& text : hostile_texts()) {
    HtmlTable table({{text}, {text, true}});
    table.add_texts({text, text});
    Plot plot = plot_of({{1, 2, text}, {2, 3, text}}, PlotMark::kLineAndDots);
    plot.description = plot.x.title = plot.y.title = plot.series[0].name = text;
    plot.levels = {{2, text}};
    LanesPicture lanes = lanes_of({{0, 1, 0}});
    lanes.description = lanes.axis = lanes.rows[0].label = lanes.rows[0].lanes[0].name = text;
    lanes.colours = {{text, 0}};
    const BarPiece piece{text, 0.5, 0};
    const Markup body = table.markup() + plot_picture(plot) + lanes_picture(lanes) +
                        share_bar({&piece, 1}, text) + cell_bar(0.5, text) +
                        foldable(text, paragraph(text)) +
                        embedded_image("image/svg+xml", text, text);
    const std::string page = page_document({text, text, {{"id", text}}, text}, body);
    CHECK(count_of(page, "<script") == 0);
    CHECK(count_of(page, "onerror=alert(1)>") == 0);
    CHECK(count_of(page, "<img") == 1);
    CHECK(count_of(page, "<title>") ==
          count_of(body.html(), "<title>") + 1);  // no text ends one and begins another
    const std::string bare = std::regex_replace(page, std::regex("\"[^\"]*\""), "\"\"");
    CHECK_FALSE(std::regex_search(bare, std::regex("<[^>]*\\son(error|mouseover|focus|load)=")));
    CHECK(page.find('\0') == std::string::npos);
  }
}

TEST_CASE("a page loads nothing and forbids what would") {
  const std::string page = page_document({"title", "", {}, ""}, paragraph("text"));
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("http://") == std::string::npos);
  CHECK(page.find("https://") == std::string::npos);
  CHECK(page.find("url(") == std::string::npos);
}

TEST_CASE("an embedded picture has the bytes of its file, in base64 with padding") {
  const auto source = [](const std::string& bytes) {
    const std::string html = embedded_image("image/svg+xml", bytes, "x").html();
    const std::size_t begin = html.find("base64,") + 7;
    return html.substr(begin, html.find('"', begin) - begin);
  };
  CHECK(source("M") == "TQ==");
  CHECK(source("Ma") == "TWE=");
  CHECK(source("Man") == "TWFu");
  CHECK(source("<svg/>") == "PHN2Zy8+");
}

TEST_CASE("a table refuses rows of another width") {
  HtmlTable table({{"a"}, {"b"}});
  CHECK_THROWS_AS(table.add_texts({"one"}), Error);
}

TEST_CASE("points of a plot lie in its box, larger values further right and higher") {
  for (const bool logarithmic : {false, true})
    for (const double scale : {1e-9, 1.0, 3e14}) {
      Plot plot = plot_of({{scale, 2 * scale}, {10 * scale, 30 * scale}, {500 * scale, 31 * scale}},
                          PlotMark::kDots);
      plot.x.logarithmic = plot.y.logarithmic = logarithmic;
      const std::string html = plot_picture(plot).html();
      const std::regex dot("d=\"M([-0-9.]+) ([-0-9.]+)h0\"");
      std::vector<std::pair<double, double>> found;
      for (auto it = std::sregex_iterator(html.begin(), html.end(), dot);
           it != std::sregex_iterator(); ++it)
        found.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
      REQUIRE(found.size() == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(found[i].first >= 0);
        CHECK(found[i].first <= 1000);
        CHECK(found[i].second >= 0);
        CHECK(found[i].second <= 400);
        if (i == 0) continue;
        CHECK(found[i].first > found[i - 1].first);
        CHECK(found[i].second < found[i - 1].second + 1e-9);
      }
    }
}

TEST_CASE("areas lie on each other: the second begins where the first ends") {
  // Heights 1 and 3 over a range of 0 to 4: with the margin of 5 % the axis ends at 4.2, so the top
  // of the first is at 400 (1 - 1 / 4.2) = 304.8 and that of the second at 400 (1 - 4 / 4.2) =
  // 19.0. The x axis ends at 1.05: 1 is at 1000 / 1.05 = 952.4.
  const std::string html = plot_picture(areas_of({{0, 1}, {1, 1}}, {{0, 3}, {1, 3}})).html();
  CHECK(html.find("M0.0 304.8L952.4 304.8L952.4 400.0L0.0 400.0Z") != std::string::npos);
  CHECK(html.find("M0.0 19.0L952.4 19.0L952.4 304.8L0.0 304.8Z") != std::string::npos);
}

TEST_CASE("a plot refuses what it cannot draw, by series and point") {
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(plot_picture(plot_of({{1, infinite}}, PlotMark::kLine)),
                       "point 0 of series 'ours' is at inf on the axis 'time (s)'", Error);
  Plot logarithmic = plot_of({{1, 1}, {0, 1}}, PlotMark::kDots);
  logarithmic.x.logarithmic = true;
  CHECK_THROWS_AS(plot_picture(logarithmic), Error);
  CHECK_THROWS_AS(plot_picture(areas_of({{0, 1}, {1, 1}}, {{0, 1}, {2, 1}})), Error);
}

TEST_CASE("lanes draw each column in the colour that fills most of it, and pale below a half") {
  // 1,600 columns over 16 ms: 100 a millisecond.
  const auto html = [](std::vector<LaneSlice> slices) {
    return lanes_picture(lanes_of(std::move(slices))).html();
  };
  CHECK(html({{1, 3, 2}}).find("class=\"slice c2\" d=\"M100 0h200v14H100z\"") != std::string::npos);
  // Two colours in one column: the longer one has it.
  CHECK(html({{0, 0.004, 1}, {0.004, 0.01, 2}}).find("class=\"slice c2\" d=\"M0 0h1v14H0z\"") !=
        std::string::npos);
  // A column that is busy for 30 %.
  CHECK(html({{5, 5.003, 1}}).find("class=\"slice c1 pale\" d=\"M500 0h1v14H500z\"") !=
        std::string::npos);
  // What lies outside of the axis is not drawn, what reaches over it is cut.
  CHECK(html({{-5, -1, 0}, {20, 30, 0}}).find("slice c0") == std::string::npos);
  CHECK(html({{15, 99, 0}}).find("M1500 0h100v14H1500z") != std::string::npos);
}

TEST_CASE("a lane of a million slices takes no more room than its columns") {
  std::vector<LaneSlice> slices;
  for (int i = 0; i < 1'000'000; ++i) slices.push_back({16e-6 * i, 16e-6 * (i + 0.9), i % 7});
  CHECK(lanes_picture(lanes_of(std::move(slices))).html().size() < 100'000);
}

TEST_CASE("lanes without room are refused") {
  LanesPicture picture = lanes_of({});
  picture.end = picture.begin;
  CHECK_THROWS_AS(lanes_picture(picture), Error);
}

}  // namespace sextant::pages_test
