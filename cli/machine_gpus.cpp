// nvidia-smi is asked, which is where the driver is.
#include "cli/machine_gpus.h"

#include "core/base/check.h"
#include "core/text/split_text.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string_view>

namespace sextant {
namespace {

constexpr const char* kQuery =
    "nvidia-smi --query-gpu=name,memory.total,driver_version,pci.bus_id "
    "--format=csv,noheader,nounits";

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Terminals get names underlined.
std::string without_escape_codes(const std::string& text) {
  std::string plain;
  bool is_code = false;
  for (const char letter : text) {
    if (letter == '\x1b') is_code = true;
    if (!is_code) plain += letter;
    if (letter == 'm') is_code = false;
  }
  return plain;
}

MachineGpu parse_gpu(const std::string& line) {
  std::vector<std::string> words;
  for (const std::string_view word : split_text(line, ','))
    words.emplace_back(without_blanks(word));
  std::int64_t mebibytes = 0;
  if (words.size() == 4) {
    const char* const end = words[1].data() + words[1].size();
    const auto [stop, error] = std::from_chars(words[1].data(), end, mebibytes);
    if (error == std::errc() && stop == end && mebibytes > 0 && mebibytes < (1LL << 30))
      return {words[0], Bytes(mebibytes << 20), words[2], words[3]};
  }
  fail(ErrorCode::kDevice, "nvidia-smi says '{}', wanted name, MiB of memory, driver, bus id",
       line);
}

}  // namespace

std::vector<MachineGpu> parse_gpu_query(const std::string& text) {
  std::vector<MachineGpu> gpus;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!without_blanks(line).empty()) gpus.push_back(parse_gpu(line));
  return gpus;
}

std::vector<std::string> parse_unreachable(const std::string& text) {
  std::vector<std::string> ends, pairs;
  std::istringstream lines(without_escape_codes(text));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (cells.empty() || !cells.front().starts_with("GPU")) continue;
    if (ends.empty()) {
      ends = cells;
      continue;
    }
    for (std::size_t i = 0; i + 1 < cells.size() && i < ends.size(); ++i)
      if (cells[i + 1] != "OK" && cells[i + 1] != "X" && cells.front() < ends[i])
        pairs.push_back(fmt::format("{} and {} ({})", cells.front(), ends[i], cells[i + 1]));
  }
  return pairs;
}

std::optional<std::string> output_of(const std::string& command) {
  struct Close {
    void operator()(std::FILE* pipe) const { pclose(pipe); }
  };
  std::unique_ptr<std::FILE, Close> pipe(popen((command + " 2>/dev/null").c_str(), "r"));
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  char part[4096];
  for (std::size_t read = 0; (read = std::fread(part, 1, sizeof(part), pipe.get())) > 0;)
    text.append(part, read);
  if (pclose(pipe.release()) != 0) return std::nullopt;
  return text;
}

std::vector<MachineGpu> machine_gpus() {
  const std::optional<std::string> text = output_of(kQuery);
  const std::vector<MachineGpu> gpus = text ? parse_gpu_query(*text) : std::vector<MachineGpu>();
  if (gpus.empty())
    throw Error(ErrorCode::kDevice, "no GPU: nvidia-smi is not there or names none",
                {"`sextant cluster bench --backend cpu` measures this machine's CPU"});
  return gpus;
}

}  // namespace sextant
