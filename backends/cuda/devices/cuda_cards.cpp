// Which cards there are, and why there are none.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/devices/cuda_device.h"
#include "core/base/check.h"

#include <memory>
#include <string>

namespace sextant {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string reason_text(cudaError_t status) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const std::string driver_text = driver == 0 ? std::string("no driver is installed")
                                              : "the driver serves CUDA " + version_text(driver);
  return fmt::format("{} ({}, this build needs {})", cudaGetErrorString(status), driver_text,
                     version_text(runtime));
}

}  // namespace

int num_cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string why_no_cuda_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  return status == cudaSuccess && count > 0
             ? std::string()
             : reason_text(status == cudaSuccess ? cudaErrorNoDevice : status);
}

std::string cuda_device_name(int device) {
  require(device >= 0 && device < num_cuda_devices(), ErrorCode::kDevice,
          "GPU {} of {} does not exist", device, num_cuda_devices());
  cudaDeviceProp properties{};
  SEXTANT_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

std::unique_ptr<Device> make_cuda_device(const CudaOptions& options) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  require(status == cudaSuccess, ErrorCode::kDevice, "no usable GPU: {}", reason_text(status));
  require(options.device >= 0 && options.device < count, ErrorCode::kDevice,
          "GPU {} of {} does not exist", options.device, count);
  return std::make_unique<CudaDevice>(options);
}

}  // namespace sextant
