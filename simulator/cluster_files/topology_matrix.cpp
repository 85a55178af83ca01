// `nvidia-smi topo -m`: who is joined to whom, and how many NVLinks at a time. It names neither the
// GPUs nor speeds, so those are assumed from the number of NVLinks, or come from the base.
#include "core/base/check.h"
#include "simulator/cluster_files/importers.h"
#include "simulator/cluster_files/known_devices.h"
#include "simulator/cluster_files/wiring_from_lanes.h"
#include "simulator/clusters/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

namespace sextant {

namespace {

// No GPU has more: a row with more leads to a switch, where every pair shares the same lanes.
constexpr std::int64_t kMostNvlinks = 18;
constexpr std::size_t kMostEnds = 1024;

// Terminals get the header underlined.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i];
      continue;
    }
    while (i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])) == 0) ++i;
  }
  return plain;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words(1);
  for (const char letter : line) {
    if (std::isspace(static_cast<unsigned char>(letter)) == 0)
      words.back() += letter;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_gpu(std::string_view name) {
  return name.size() > 3 && name.substr(0, 3) == "GPU" &&
         std::isdigit(static_cast<unsigned char>(name[3])) != 0;
}

struct Row {
  std::string name;
  std::string place;  // "topo.txt: line 3"
  std::vector<std::string> cells;
};

struct Matrix {
  std::vector<std::string> ends;  // columns: GPUs, then NICs
  std::vector<Row> rows;
  // A legend that does not explain NV#: `topo -mp`, which says PCIe where NVLinks are.
  bool has_legend = false, explains_nvlinks = false;
};

// Whether a cell names a way from one end to another: affinities and NUMA nodes do not.
bool is_way(std::string_view cell) {
  for (const std::string_view way : {"X", "SYS", "NODE", "PHB", "PXB", "PIX", "SOC", "C2C"})
    if (cell == way) return true;
  return cell.size() > 2 && cell.substr(0, 2) == "NV" &&
         std::isdigit(static_cast<unsigned char>(cell[2])) != 0;
}

// The header's names end where "CPU Affinity" begins.
std::vector<std::string> ends_of(const std::vector<std::string>& words) {
  std::vector<std::string> ends;
  for (const std::string& word : words) {
    if (word == "CPU" || word == "NUMA") break;
    ends.push_back(word);
  }
  return ends;
}

// A row that lost a cell, or a header that lost a name, moves all behind it: the cells that name
// ways are as many as the header's ends, and the next is none.
Row row_of_words(const std::vector<std::string>& words, std::size_t ends, std::string place) {
  require(words.size() > ends, ErrorCode::kBadInput, "{}: {} has {} cells, wanted {}", place,
          words.front(), words.size() - 1, ends);
  const auto first = words.begin() + 1, last = first + static_cast<std::ptrdiff_t>(ends);
  const auto ways = static_cast<std::size_t>(
      std::count_if(first, words.end(), [](const std::string& word) { return is_way(word); }));
  require(ways <= ends, ErrorCode::kBadInput, "{}: {} has ways to {} ends, but the header names {}",
          place, words.front(), ways, ends);
  return {words.front(), std::move(place), {first, last}};
}

Matrix read_matrix(const std::string& text, const std::string& file) {
  Matrix matrix;
  std::int64_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const auto words = words_of(std::string_view(text).substr(at, end - at));
    at = end + 1;
    ++line_number;
    if (words.empty()) continue;
    if (matrix.ends.empty()) {
      if (words.size() > 0 && is_gpu(words.front())) matrix.ends = ends_of(words);
      continue;
    }
    if (words.front() == "Legend:") matrix.has_legend = true;
    if (matrix.has_legend) {
      matrix.explains_nvlinks = matrix.explains_nvlinks || words.front() == "NV#";
      continue;
    }
    if (std::find(matrix.ends.begin(), matrix.ends.end(), words.front()) == matrix.ends.end())
      continue;
    matrix.rows.push_back(
        row_of_words(words, matrix.ends.size(), fmt::format("{}: line {}", file, line_number)));
  }
  require(!matrix.ends.empty(), ErrorCode::kBadInput, "{}: no line of GPU names", file);
  require(matrix.ends.size() <= kMostEnds, ErrorCode::kBadInput, "{}: more than {} columns", file,
          kMostEnds);
  return matrix;
}

// Lanes of a cell; nothing for one that is not NVLink. Refuses what the legend does not have.
std::optional<std::int32_t> lanes_of(const Row& row, const std::string& column,
                                     const std::string& cell) {
  if (is_way(cell) && cell.substr(0, 2) != "NV") return std::nullopt;
  std::int32_t lanes = 0;
  const char* const last = cell.data() + cell.size();
  if (cell.size() > 2 && cell.substr(0, 2) == "NV") {
    const auto [end, error] = std::from_chars(cell.data() + 2, last, lanes);
    if (error == std::errc() && end == last && lanes >= 1 && lanes <= 1024) return lanes;
  }
  fail(ErrorCode::kBadInput,
       "{}: {} to {} is '{}', wanted X, NV1 to NV1024, PIX, PXB, PHB, NODE or SYS", row.place,
       row.name, column, cell);
}

class MatrixImport {
 public:
  MatrixImport(Matrix matrix, const ImportSource& source)
      : matrix_(std::move(matrix)), source_(source) {
    for (const std::string& end : matrix_.ends) gpus_ += is_gpu(end) ? 1 : 0;
  }

  ImportedCluster take() {
    imported_.format = "nvidia-smi topo -m";
    const LaneTable lanes = lane_table();
    const std::int64_t most = most_lanes(lanes);
    Cluster& cluster = imported_.cluster;
    cluster.devices_per_node = static_cast<std::int64_t>(gpus_);
    const bool is_switch = most > kMostNvlinks;
    const std::int64_t per_gpu = is_switch ? uniform_lanes(lanes) : most;
    require_both_ways();
    const std::int64_t sm = generation_of(per_gpu);
    set_device(sm, per_gpu);
    set_links(lanes, per_gpu, is_switch, sm);
    set_nics(sm);
    return std::move(imported_);
  }

 private:
  const Row* find_row(const std::string& name) const {
    const Row* found = nullptr;
    for (const Row& row : matrix_.rows) {
      if (row.name != name) continue;
      require(found == nullptr, ErrorCode::kBadInput, "{}: a second row of {}", row.place, name);
      found = &row;
    }
    return found;
  }

  const Row& row_of(const std::string& name) const {
    const Row* const found = find_row(name);
    require(found != nullptr, ErrorCode::kBadInput, "{}: no row of {}", source_.file, name);
    return *found;
  }

  LaneTable lane_table() const {
    LaneTable lanes(gpus_, std::vector<std::int32_t>(gpus_));
    for (std::size_t a = 0; a < gpus_; ++a) {
      require(is_gpu(matrix_.ends[a]), ErrorCode::kBadInput, "{}: column {} is {}, wanted a GPU",
              source_.file, a + 1, matrix_.ends[a]);
      const Row& row = row_of(matrix_.ends[a]);
      for (std::size_t b = 0; b < gpus_; ++b) {
        const auto found = lanes_of(row, matrix_.ends[b], row.cells[b]);
        require((row.cells[b] == "X") == (a == b), ErrorCode::kBadInput,
                "{}: {} to {} is '{}': only a GPU's way to itself is X", row.place, row.name,
                matrix_.ends[b], row.cells[b]);
        lanes[a][b] = found.value_or(0);
        require(b >= a || lanes[b][a] == lanes[a][b], ErrorCode::kBadInput,
                "{}: {} to {} is '{}', but {} NVLinks lead back", row.place, row.name,
                matrix_.ends[b], row.cells[b], b >= a ? 0 : lanes[b][a]);
      }
    }
    return lanes;
  }

  // A switch gives every pair the lanes that a GPU has in all.
  std::int64_t uniform_lanes(const LaneTable& lanes) const {
    for (std::size_t a = 0; a < gpus_; ++a)
      for (std::size_t b = 0; b < gpus_; ++b)
        require(
            a == b || lanes[a][b] == lanes[0][1], ErrorCode::kBadInput,
            "{}: {} has more than {} NVLinks, which only a switch gives, but not all pairs have "
            "the same",
            source_.file, matrix_.ends[a], kMostNvlinks);
    return lanes[0][1];
  }

  // A pasted table that lost a tab says one way there and another back.
  void require_both_ways() const {
    for (std::size_t a = 0; a < matrix_.ends.size(); ++a) {
      const Row* const row = find_row(matrix_.ends[a]);
      if (row == nullptr) continue;
      for (std::size_t b = 0; b < a; ++b) {
        const Row* const back = find_row(matrix_.ends[b]);
        require(back == nullptr || back->cells[a] == row->cells[b], ErrorCode::kBadInput,
                "{}: {} to {} is '{}', but '{}' back", row->place, row->name, matrix_.ends[b],
                row->cells[b], back == nullptr ? "" : back->cells[a]);
      }
    }
  }

  // The base's where it is a GPU that we know. Else by the NVLinks that a GPU can have: 18 since
  // Hopper, 12 in Ampere, 6 in Volta.
  std::int64_t generation_of(std::int64_t nvlinks) {
    if (source_.base != nullptr) {
      if (const auto sm = sm_of_device(source_.base->device)) return *sm;
      imported_.notes.push_back(fmt::format(
          "how fast an NVLink of {} is nobody says: taken for what GPUs with {} of them have",
          source_.base->device.name, nvlinks));
    }
    if (nvlinks > 12) return 90;
    return nvlinks > 6 || nvlinks == 0 ? 80 : 70;
  }

  void set_device(std::int64_t sm, std::int64_t nvlinks) {
    Cluster& cluster = imported_.cluster;
    if (source_.base != nullptr) {
      cluster.device = source_.base->device;
      return;
    }
    cluster.device = device_of_sm(sm);
    imported_.notes.push_back(fmt::format(
        "the table does not name the GPUs: taken for {} because they have {} NVLinks; --base gives "
        "others",
        cluster.device.name, nvlinks));
  }

  void set_links(const LaneTable& lanes, std::int64_t per_gpu, bool is_switch, std::int64_t sm) {
    NetworkLink& link = imported_.cluster.intra_node;
    if (gpus_ < 2) return;
    if (per_gpu == 0 && matrix_.has_legend && !matrix_.explains_nvlinks) {
      imported_.notes.emplace_back(
          "the table is one of PCIe only (topo -mp): `nvidia-smi topo -m` shows NVLinks too");
      if (source_.base != nullptr &&
          source_.base->devices_per_node == imported_.cluster.devices_per_node) {
        link = source_.base->intra_node;
        return;
      }
    }
    if (per_gpu == 0 || (!is_switch && !joins_all(lanes))) {
      if (per_gpu > 0)
        imported_.notes.push_back(fmt::format(
            "NVLinks join only some GPUs ({}): all are joined by PCIe", islands_text(lanes)));
      link = pcie_link(16 * kGiga * 128 / 130 * 16 / 8, Provenance::kAssumed,
                       "PCIe of 16 GT/s and 16 lanes, which the table does not say");
      return;
    }
    const double rate = nvlink_rate(sm);
    link = nvlink_link(
        static_cast<double>(per_gpu) * rate, Provenance::kAssumed,
        fmt::format("{} NVLinks per GPU in the table, {} each", per_gpu, bandwidth_to_text(rate)),
        sm, is_switch ? std::vector<Cable>{} : cables_of(lanes));
  }

  // NICs behind the PCIe bridges of some GPU serve training; without any, all do.
  void set_nics(std::int64_t sm) {
    const std::size_t all = matrix_.ends.size() - gpus_;
    std::size_t near = 0;
    for (std::size_t column = gpus_; column < matrix_.ends.size(); ++column)
      for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
        const Row& row = row_of(matrix_.ends[gpu]);
        static_cast<void>(lanes_of(row, matrix_.ends[column], row.cells[column]));
        if (row.cells[column] != "PIX" && row.cells[column] != "PXB") continue;
        ++near;
        break;
      }
    if (all == 0) {
      imported_.notes.emplace_back("no NIC: a cluster of one node only");
      return;
    }
    const std::size_t used = near > 0 ? near : all;
    if (used < all)
      imported_.notes.push_back(fmt::format(
          "{} of {} NICs are behind the PCIe bridges of GPUs; the others are left out", used, all));
    const double gigabits = sm >= 90 ? 400 : sm >= 80 ? 200 : 100;
    imported_.cluster.inter_node = nic_link(
        gigabits * kGiga / 8 * static_cast<double>(used) / static_cast<double>(gpus_),
        Provenance::kAssumed,
        fmt::format("{} NICs in the table, {} Gb/s each, which it does not say", used, gigabits),
        sm);
  }

  Matrix matrix_;
  const ImportSource& source_;
  std::size_t gpus_ = 0;
  ImportedCluster imported_;
};

}  // namespace

ImportedCluster import_topology_matrix(const ImportSource& source) {
  return MatrixImport(read_matrix(without_escapes(source.text), source.file), source).take();
}

}  // namespace sextant
