// What NCCL is asked for; empty in a build without it.
#ifdef SEXTANT_HAS_NCCL

#include "backends/cuda/nccl_settings.h"

#include "backends/cuda/cuda_check.h"

#include <algorithm>
#include <cstdlib>

namespace sextant {
namespace {

// Of one communicator. By the measurements 16 move 64 MiB in 1.1 times the time of 24, which NCCL
// takes unasked.
constexpr int kCommunicatorBlocks = 16;

void set_nccl_default(const char* name, const char* value) { setenv(name, value, 0); }

}  // namespace

void require_one_nccl() {
  int version = 0;
  SEXTANT_NCCL(ncclGetVersion(&version));
  require(version == NCCL_VERSION_CODE, ErrorCode::kDevice,
          "NCCL: the library that was loaded is {}, this build is for {}; LD_LIBRARY_PATH may name "
          "another one",
          version, NCCL_VERSION_CODE);
}

void set_nccl_defaults(bool deterministic) {
  // NVLink's multicast needs a service of the whole host, which ranks of one job do not look after.
  set_nccl_default("NCCL_NVLS_ENABLE", "0");
  if (!deterministic) return;
  set_nccl_default("NCCL_ALGO", "Ring");
  set_nccl_default("NCCL_PROTO", "Simple");
}

int blocks_of_card() {
  int device = 0, processors = 0;
  SEXTANT_CUDA(cudaGetDevice(&device));
  SEXTANT_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  // Collectives are on one queue and transfers on four: so many communicators may run at once, and
  // their blocks wait for each other's.
  constexpr int kQueues = 5;
  return std::clamp(processors / kQueues, 1, kCommunicatorBlocks);
}

ncclConfig_t nccl_config(int blocks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  // Clusters of four blocks find no room beside products that fill the card.
  config.cgaClusterSize = 1;
  if (blocks > 0) config.maxCTAs = blocks;
  config.splitShare = 0;
  return config;
}

}  // namespace sextant

#endif
