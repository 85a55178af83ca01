#!/usr/bin/env bash
# On a machine with a GPU: builds, runs the CUDA tests, and runs them again under compute-sanitizer.
# usage: tools/gpu_test.sh [LOG_FOLDER]
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 2
logs="${1:-out/gpu}"
mkdir -p "$logs"
source tools/environment.sh
{
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
  configure build-gpu -Dmpi=disabled || exit 1
  ninja -C build-gpu tests/cuda/cuda_test tests/cuda/operator_conformance_test || exit 1
} 2>&1 | tee "$logs/build.log"
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
status=0
build-gpu/tests/cuda/cuda_test 2>&1 | tee "$logs/cuda_test.log" || status=1
build-gpu/tests/cuda/operator_conformance_test 2>&1 | tee "$logs/operator_conformance.log" || status=1
for tool in memcheck racecheck initcheck; do
  echo "== compute-sanitizer $tool"
  compute-sanitizer --tool "$tool" --error-exitcode 9 build-gpu/tests/cuda/cuda_test \
    --test-case="*kernels*,*matmul*,*refused*,*activations*,*GPU gives*" 2>&1 |
    tee "$logs/$tool.log" | tail -5 || status=1
done
exit "$status"
