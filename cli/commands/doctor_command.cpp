// `sextant doctor`: what works on this machine.
#include "backends/hosts/process_group.h"
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
  return devices > 0 ? fmt::format(
                           "{} GPU(s), the first is {}; a plan runs with a rank on each, or "
                           "with --ranks-per-gpu on fewer",
                           devices, cuda_device_name(0))
                     : "built in, but no usable GPU: " + why_no_cuda_device();
#else
  return "not built in: it needs nvcc and, for ./demo.sh, a GPU; SEXTANT_CUDA=on ./demo.sh builds "
         "it "
         "all the same";
#endif
}

std::string nccl_text() {
#ifdef SEXTANT_HAS_CUDA
  const std::string version = nccl_version();
  return version.empty() ? "not built in: ranks on GPUs exchange by kernels of our own"
                         : version + ": ranks exchange by it where each has a GPU";
#else
  return "not built in: it comes with CUDA";
#endif
}

std::string mpi_text() {
  return has_mpi() ? "built in: mpirun --bind-to none -n N sextant run spreads CPU ranks over N "
                     "processes"
                   : "not built in: all ranks of a run are in one process";
}

void run_doctor(const CommonOptions&, Console& console) {
  const unsigned cores = std::thread::hardware_concurrency();
#if defined(SEXTANT_HAS_BLAS) && defined(SEXTANT_HAS_DNNL)
  const char* blas = "OpenBLAS, oneDNN for products of f32";
#elif defined(SEXTANT_HAS_BLAS)
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
  console.say(fmt::format("NCCL       {}", nccl_text()));
  console.say(fmt::format("MPI        {}", mpi_text()));
  console.say(fmt::format("checks     invariants are {}", checked ? "asserted" : "not asserted"));
  console.document("doctor", {{"hardware_threads", cores},
                              {"blas", blas},
                              {"cuda", cuda_text()},
                              {"nccl", nccl_text()},
                              {"mpi", mpi_text()},
                              {"checked", checked}});
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
