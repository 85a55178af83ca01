// The file that NCCL writes of its own accord, in a folder of the moment.
#include "backends/cuda/machine/cuda_topology.h"

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"

#ifdef SEXTANT_HAS_NCCL
#include "backends/cuda/nccl_settings.h"
#endif

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace sextant {

#ifndef SEXTANT_HAS_NCCL

std::string nccl_version_text() { return ""; }
std::optional<NcclTopology> nccl_topology() { return std::nullopt; }

#else

std::string nccl_version_text() {
  int version = 0;
  SEXTANT_NCCL(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::optional<NcclTopology> nccl_topology() {
  const int cards = num_cuda_devices();
  if (cards < 2) return std::nullopt;
  require_one_nccl();
  set_nccl_defaults(false);
  std::string folder = (std::filesystem::temp_directory_path() / "sextant-XXXXXX").string();
  require(mkdtemp(folder.data()) != nullptr, ErrorCode::kDevice, "no folder like {}", folder);
  const std::string file = folder + "/topology.xml";
  setenv("NCCL_TOPO_DUMP_FILE", file.c_str(), 1);
  std::vector<ncclComm_t> communicators(static_cast<std::size_t>(cards));
  SEXTANT_NCCL(ncclCommInitAll(communicators.data(), cards, nullptr));
  unsetenv("NCCL_TOPO_DUMP_FILE");
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove_all(folder);
  SEXTANT_NCCL(ncclGroupStart());
  for (const ncclComm_t communicator : communicators) SEXTANT_NCCL(ncclCommDestroy(communicator));
  SEXTANT_NCCL(ncclGroupEnd());
  if (text.str().empty()) return std::nullopt;
  return NcclTopology{text.str(), nccl_version_text()};
}

#endif

}  // namespace sextant
