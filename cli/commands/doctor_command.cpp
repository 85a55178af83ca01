// `sextant doctor`: what works on this machine.
#include "cli/verb.h"
#include "cli/verbs.h"

#ifdef SEXTANT_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <thread>

namespace sextant {
namespace {

std::string cuda_text() {
#ifdef SEXTANT_HAS_CUDA
  const int devices = num_cuda_devices();
  return devices > 0 ? fmt::format("{} GPU(s), the first is {}; a plan of one rank runs on it",
                                   devices, cuda_device_name(0))
                     : "built in, but no usable GPU: " + why_no_cuda_device();
#else
  return "not built in: it needs nvcc and, for ./demo.sh, a GPU; SEXTANT_CUDA=on ./demo.sh builds "
         "it "
         "all the same";
#endif
}

void run_doctor(const CommonOptions&, Console& console) {
  const unsigned cores = std::thread::hardware_concurrency();
#ifdef SEXTANT_HAS_BLAS
  const char* blas = "OpenBLAS";
#else
  const char* blas = "none: matrix products run as plain loops";
#endif
#ifdef SEXTANT_CHECKED
  const bool checked = true;
#else
  const bool checked = false;
#endif
  console.say(fmt::format("simulator  yes"));
  console.say(fmt::format("CPU ranks  yes, {} hardware threads", cores));
  console.say(fmt::format("BLAS       {}", blas));
  console.say(fmt::format("CUDA       {}", cuda_text()));
  console.say("MPI, NCCL  not used in this version: all ranks of a run are in one process");
  console.say(fmt::format("checks     invariants are {}", checked ? "asserted" : "not asserted"));
  console.document(
      "doctor",
      {{"hardware_threads", cores}, {"blas", blas}, {"cuda", cuda_text()}, {"checked", checked}});
}

}  // namespace

Verb doctor_verb() {
  return {.path = "doctor",
          .text = "What works on this machine",
          .examples = "Examples:\n  sextant doctor\n  sextant doctor --json",
          .options = {},
          .action = run_doctor};
}

}  // namespace sextant
