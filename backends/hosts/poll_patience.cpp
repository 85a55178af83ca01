// "0.20 0.18 0.12 3/80 11206": three of eighty threads run or want to.
#include "backends/hosts/poll_patience.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace sextant {

std::optional<std::int64_t> runnable_threads(std::string_view loadavg) {
  const std::size_t slash = loadavg.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::size_t space = loadavg.rfind(' ', slash);
  if (space == std::string_view::npos) return std::nullopt;
  std::int64_t threads = 0;
  const char* const end = loadavg.data() + slash;
  const auto [stop, error] = std::from_chars(loadavg.data() + space + 1, end, threads);
  if (error != std::errc() || stop != end) return std::nullopt;
  return threads;
}

RunnableThreads::RunnableThreads() : file_(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)) {}

RunnableThreads::~RunnableThreads() {
  if (file_ >= 0) ::close(file_);
}

std::optional<std::int64_t> RunnableThreads::now() const {
  std::array<char, 128> text{};
  if (file_ < 0) return std::nullopt;
  const ssize_t size = ::pread(file_, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return runnable_threads({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace sextant
