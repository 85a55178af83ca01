// The program: its verbs, and what becomes of an error.
#include "backends/cpu/kernels/fast/gemm.h"
#include "cli/command_line.h"
#include "cli/config_report.h"
#include "cli/launched.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/base/parallel.h"

#ifdef SEXTANT_HAS_MIMALLOC
#include <mimalloc.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sextant;

// A compile frees large tables and takes as much again at once: pages that went back to the system
// in between were two thirds of its page faults, a tenth of its time.
void keep_freed_pages() {
#if defined(SEXTANT_HAS_MIMALLOC) && MI_MALLOC_VERSION >= 210
  mi_option_set_default(mi_option_purge_delay, -1);
#elif defined(SEXTANT_HAS_MIMALLOC) && MI_MALLOC_VERSION >= 200
  mi_option_set_enabled_default(mi_option_allow_decommit, false);
#endif
}

// Its tables are a hundred MiB or more, most of them walked from end to end. In pages of 2 MiB they
// cause a fiftieth of the faults, which with fewer misses of the address tables is a tenth of a
// check. Asked for as pages that the system makes large where it can: reserved ones (hugetlb),
// which the allocator would ask for itself, may be promised and then refused at the first touch.
void use_large_pages() {
#if defined(SEXTANT_HAS_MIMALLOC) && defined(__linux__) && MI_MALLOC_VERSION >= 200
  constexpr std::size_t kSize = std::size_t{512} << 20, kAlignment = std::size_t{64} << 20;
  void* const area = mmap(nullptr, kSize + kAlignment, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(area);
  auto* const aligned = static_cast<std::byte*>(area) + (kAlignment - begin % kAlignment);
  madvise(aligned, kSize, MADV_HUGEPAGE);
  mi_manage_os_memory(aligned, kSize, true, false, true, -1);
  mi_option_set(mi_option_eager_commit_delay, 0);
#endif
}

std::vector<Verb> all_verbs() {
  std::vector<Verb> verbs = {search_verb(),
                             simulate_verb(),
                             explain_verb(),
                             boxing_verb(),
                             check_verb(),
                             run_verb(),
                             export_verb(),
                             compare_verb(),
                             model_show_verb(),
                             strategy_show_verb(),
                             cluster_show_verb(),
                             cluster_import_verb(),
                             cluster_detect_verb(),
                             cluster_bench_verb(),
                             experiment_accuracy_verb(),
                             experiment_data_pipeline_verb(),
                             experiment_pytorch_verb(),
                             doctor_verb(),
                             checkpoint_show_verb(),
                             checkpoint_check_verb(),
                             checkpoint_export_verb(),
                             report_verb(),
                             plan_diff_verb(),
                             plan_convert_verb()};
  for (Verb& verb : sweep_verbs()) verbs.push_back(std::move(verb));
  return verbs;
}

void say_unused(const Verb& verb, const CommonOptions& common, const Console& console) {
  if (common.seed != 0 && !verb.is_seeded)
    console.note("--seed had no effect, nothing is random here");
  if (!common.out.empty() && !verb.writes_results)
    console.note("--out had no effect, no folder is written here");
  if (common.overwrite && !verb.writes_results)
    console.note("--overwrite had no effect, no folder is written here");
  if (common.dry_run && !verb.has_dry_run)
    console.note("--dry-run had no effect, nothing is changed here");
}

// A document is owed before options are understood.
bool wants_json() {
  const char* json = std::getenv("SEXTANT_JSON");
  return json != nullptr && flag_value(json) == "true";
}

void set_threads(const CommonOptions& common) {
  require(common.threads >= 0, ErrorCode::kUsage, "--threads {}: 1 or more, or 0 for one per core",
          common.threads);
  if (common.threads > 0) limit_threads(static_cast<std::size_t>(common.threads));
}

int failed(const Error& error, const CommonOptions& common, Console& console) {
  console.end_progress();
  if (!was_interrupted()) return report_error(error, common.json);
  report_interrupted(error, common.json);
  return 128 + interrupting_signal();
}

int act(const Verb& verb, const CommandLine& line, const CommonOptions& common) {
  if (verb.keeps_freed_pages) {
    keep_freed_pages();
    use_large_pages();
  }
  watch_signals();
  if (common.json) owe_document();
  Console console(common);
  try {
    set_threads(common);
    if (!common.print_config && is_first_process())
      for (const std::string& note : line.notes()) console.note(note);
    if (common.print_config) {
      say_settings(verb, line.values(), console);
    } else {
      verb.action(common, console);
      say_unused(verb, common, console);
    }
  } catch (const Error& error) {
    return failed(error, common, console);
  } catch (const std::exception& error) {
    console.end_progress();
    return report_error(Error(ErrorCode::kInternal, error.what()), common.json);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return report_error(Error(ErrorCode::kBadInput, "standard output cannot be written"), false);
  return was_interrupted() ? 128 + interrupting_signal() : 0;
}

int run(int argc, char** argv) {
  CommonOptions common;
  CommandLine line(all_verbs(), common);
  const Verb* verb = nullptr;
  try {
    verb = line.parse(argc, argv);
  } catch (const Error& error) {
    // What was typed is wrong in all processes; files and variables may be in one alone.
    if (!is_first_process() && error.place().empty()) return static_cast<int>(error.code());
    return report_error(error, common.json || wants_json());
  }
  const bool is_left_to_the_first =
      verb != nullptr && !is_first_process() && (!verb->shares_processes || common.print_config);
  return verb == nullptr || is_left_to_the_first ? 0 : act(*verb, line, common);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    sextant::has_gemm();  // chooses kernels, while there is neither a thread nor MPI
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error (internal): %s\n", error.what());
    return 1;
  }
}
