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
#include <string>
#include <system_error>
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

namespace {

// An empty folder that is gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    require(mkdtemp(path_.data()) != nullptr, ErrorCode::kDevice, "no folder like {}", path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "sextant-XXXXXX").string();
};

// A variable of the environment has a value as long as it lives, and then the one of before.
class EnvironmentValue {
 public:
  EnvironmentValue(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~EnvironmentValue() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }
  EnvironmentValue(const EnvironmentValue&) = delete;
  EnvironmentValue& operator=(const EnvironmentValue&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

std::optional<NcclTopology> nccl_topology() {
  const int cards = num_cuda_devices();
  if (cards < 2) return std::nullopt;
  require_one_nccl();
  set_nccl_defaults(false);
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/topology.xml";
  std::vector<ncclComm_t> communicators(static_cast<std::size_t>(cards));
  {
    const EnvironmentValue dump("NCCL_TOPO_DUMP_FILE", file);
    SEXTANT_NCCL(ncclCommInitAll(communicators.data(), cards, nullptr));
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  SEXTANT_NCCL(ncclGroupStart());
  for (const ncclComm_t communicator : communicators) SEXTANT_NCCL(ncclCommDestroy(communicator));
  SEXTANT_NCCL(ncclGroupEnd());
  if (text.str().empty()) return std::nullopt;
  return NcclTopology{text.str(), nccl_version_text()};
}

#endif

}  // namespace sextant
