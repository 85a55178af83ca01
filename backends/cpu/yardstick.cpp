// The product is one that a small model's layer makes: kernels of a step slow down as it does.
#include "backends/cpu/yardstick.h"

#include "backends/cpu/kernels/fast/gemm.h"
#include "backends/cpu/machine_load.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace sextant {
namespace {

constexpr std::size_t kRows = 128, kInner = 256, kColumns = 256;  // 512 KiB of operands, 17 MFLOP
constexpr std::size_t kPlainRows = 8;  // without a BLAS a row takes many times as long
constexpr std::size_t kCopies = 16;
constexpr int kProducts = 3;

void multiply(const float* a, const float* b, float* c) {
  if (has_gemm()) {
    gemm(kRows, kColumns, kInner, 1.0F, MatrixView<float>{a, kInner, false},
         MatrixView<float>{b, kColumns, false}, 0.0F, c, kColumns);
    return;
  }
  std::fill_n(c, kPlainRows * kColumns, 0.0F);
  for (std::size_t row = 0; row < kPlainRows; ++row)
    for (std::size_t inner = 0; inner < kInner; ++inner)
      for (std::size_t column = 0; column < kColumns; ++column)
        c[row * kColumns + column] += a[row * kInner + inner] * b[inner * kColumns + column];
}

}  // namespace

Yardstick::Yardstick()
    : copies_(kCopies, Operands{std::vector<float>(kRows * kInner, 0.5F),
                                std::vector<float>(kInner * kColumns, 0.25F),
                                std::vector<float>(kRows * kColumns)}) {}

double Yardstick::seconds() {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProducts; ++i) {
    Operands& operands = copies_[turn_++ % copies_.size()];
    const double begin = thread_seconds();
    multiply(operands.a.data(), operands.b.data(), operands.c.data());
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

SpeedWatch::SpeedWatch(std::chrono::milliseconds period)
    : period_(period), thread_([this] { watch(); }) {}

SpeedWatch::~SpeedWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SpeedWatch::watch() {
  Yardstick yardstick;
  std::unique_lock lock(mutex_);
  while (!is_ended_) {
    lock.unlock();
    const double seconds = yardstick.seconds();
    lock.lock();
    sum_ += seconds;
    if (++count_ == 1) changed_.notify_all();
    changed_.wait_for(lock, period_, [this] { return is_ended_; });
  }
}

double SpeedWatch::mean_seconds() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return count_ > 0; });
  return sum_ / static_cast<double>(count_);
}

}  // namespace sextant
