// Quotas of control groups on made-up machines; nothing is read of the machine that runs this.
#include "backends/cpu/machine_load.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sextant::machine_load_test {
namespace {

namespace fs = std::filesystem;

// A folder with files of its own, gone at the end.
class MadeUpGroups {
 public:
  explicit MadeUpGroups(const std::string& groups) {
    std::string name = (fs::temp_directory_path() / "groups.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
    write("proc/self/cgroup", groups);
  }
  ~MadeUpGroups() { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::optional<double> quota() const { return processor_quota(root_); }

 private:
  fs::path root_;
};

TEST_CASE("without a quota all processors may be used") {
  const MadeUpGroups groups("0::/job\n");
  CHECK_FALSE(groups.quota().has_value());
  groups.write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  CHECK_FALSE(groups.quota().has_value());
}

TEST_CASE("the least quota of all levels holds, not only that of the root") {
  const MadeUpGroups groups("0::/slice/job\n");
  groups.write("sys/fs/cgroup/slice/cpu.max", "400000 100000\n");
  CHECK(groups.quota() == 4.0);
  groups.write("sys/fs/cgroup/slice/job/cpu.max", "150000 100000\n");
  CHECK(groups.quota() == 1.5);
}

TEST_CASE("groups of version 1 have a quota in two files") {
  const MadeUpGroups groups("3:memory:/elsewhere\n5:cpu,cpuacct:/docker/4f2a\n");
  groups.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  groups.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(groups.quota().has_value());
  groups.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  CHECK(groups.quota() == 2.5);
}

}  // namespace
}  // namespace sextant::machine_load_test
