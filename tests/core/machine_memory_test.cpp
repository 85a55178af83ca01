// Limits of control groups on made-up machines; nothing is read of the machine that runs this.
#include "core/base/machine_memory.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sextant::machine_memory_test {
namespace {

namespace fs = std::filesystem;

// A folder with files of its own, gone at the end.
class MadeUpMachine {
 public:
  MadeUpMachine() {
    std::string name = (fs::temp_directory_path() / "machine.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
    // 8,000,000 and 6,000,000 KiB.
    write(
        "proc/meminfo",
        "MemTotal:        8000000 kB\nMemFree:         1000000 kB\nMemAvailable:    6000000 kB\n");
  }
  ~MadeUpMachine() { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  MachineMemory memory() const { return machine_memory(root_); }

 private:
  fs::path root_;
};

constexpr Bytes kibibytes(std::int64_t count) { return Bytes(count * 1024); }

TEST_CASE("without a limit a process may use what the machine has available") {
  const MadeUpMachine machine;
  CHECK(machine.memory().total == kibibytes(8'000'000));
  CHECK(machine.memory().available == kibibytes(6'000'000));
  CHECK(machine.memory().limit.empty());
  machine.write("proc/self/cgroup", "0::/job\n");
  machine.write("sys/fs/cgroup/job/memory.max", "max\n");
  CHECK(machine.memory().available == kibibytes(6'000'000));
}

// Of 4,000,000 KiB the group uses 1,500,000, of which 500,000 are files that nobody looks at:
// 3,000,000 are left. The group around it leaves 2,000,000.
TEST_CASE("the tightest control group around a process limits it") {
  const MadeUpMachine machine;
  machine.write("proc/self/cgroup", "0::/slice/job\n");
  machine.write("sys/fs/cgroup/slice/job/memory.max", "4096000000\n");
  machine.write("sys/fs/cgroup/slice/job/memory.current", "1536000000\n");
  machine.write("sys/fs/cgroup/slice/job/memory.stat", "anon 7\ninactive_file 512000000\n");
  CHECK(machine.memory().total == kibibytes(4'000'000));
  CHECK(machine.memory().available == kibibytes(3'000'000));
  CHECK(machine.memory().limit == "/slice/job");
  machine.write("sys/fs/cgroup/slice/memory.max", "5120000000\n");
  machine.write("sys/fs/cgroup/slice/memory.current", "3072000000\n");
  CHECK(machine.memory().total == kibibytes(4'000'000));
  CHECK(machine.memory().available == kibibytes(2'000'000));
}

TEST_CASE("control groups of version 1, and a container that sees its own group at the root") {
  const MadeUpMachine machine;
  machine.write("proc/self/cgroup", "3:cpu:/elsewhere\n5:hugetlb,memory:/docker/4f2a\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2048000000\n");
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1024000000\n");
  machine.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n");
  CHECK(machine.memory().total == kibibytes(2'000'000));
  CHECK(machine.memory().available == kibibytes(1'000'000));
  CHECK(machine.memory().limit == "/");
  // Nobody has set one: the largest multiple of a page.
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(machine.memory().available == kibibytes(6'000'000));
}

TEST_CASE(
    "a group that uses more than its limit has nothing left, and a strange machine is refused") {
  const MadeUpMachine machine;
  machine.write("proc/self/cgroup", "0::/\n");
  machine.write("sys/fs/cgroup/memory.max", "1024000000\n");
  machine.write("sys/fs/cgroup/memory.current", "2048000000\n");
  CHECK(machine.memory().available == Bytes(0));
  machine.write("proc/meminfo", "MemTotal: 5 kB\n");
  CHECK_THROWS_WITH_AS(machine.memory(), doctest::Contains("MemAvailable"), Error);
}

TEST_CASE("this machine has memory") {
  const MachineMemory memory = machine_memory();
  CHECK(memory.available > Bytes(0));
  CHECK(memory.available <= memory.total);
}

}  // namespace
}  // namespace sextant::machine_memory_test
