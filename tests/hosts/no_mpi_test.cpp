// A build without MPI says so to whoever starts it by a launcher.
#include "backends/hosts/process_group.h"
#include "core/base/error.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::no_mpi_test {

TEST_CASE("a build without MPI refuses to be one of several processes, and says how it could") {
  try {
    join_processes({"mpirun", 1, 4}, {});
    FAIL("joined without MPI");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kDevice);
    const std::string text = error.what();
    CHECK(text.find("mpirun started 4 processes, and this build has no MPI") == 0);
    CHECK(text.find("-Dmpi=enabled") != std::string::npos);
  }
}

}  // namespace sextant::no_mpi_test
