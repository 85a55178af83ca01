// A folder of a test's own that goes away.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ios>
#include <string>

namespace sextant::testing {

struct DataFolder {
  std::filesystem::path path;
  explicit DataFolder(const std::string& name)
      : path(std::filesystem::temp_directory_path() / (name + "." + std::to_string(getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~DataFolder() { std::filesystem::remove_all(path); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  // The path of the file.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

}  // namespace sextant::testing
