#!/usr/bin/env bash
# On a machine with a GPU: builds, runs every CUDA test, runs a part again under compute-sanitizer,
# trains and times. Logs stay in a folder; the last line counts what failed.
# usage: tools/gpu_test.sh [--no-sanitizer] [--no-times] [LOG_FOLDER]
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 2

sanitize=yes times=yes logs=out/gpu
for argument in "$@"; do
  case "$argument" in
    --no-sanitizer) sanitize=no ;;
    --no-times) times=no ;;
    -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    -*) sed -n '4s/^# //p' "$0" >&2; exit 2 ;;
    *) logs="$argument" ;;
  esac
done
mkdir -p "$logs"
source tools/environment.sh

if ! nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv \
  >"$logs/gpu.txt" 2>&1; then
  echo "skipped: no GPU (nvidia-smi says: $(head -1 "$logs/gpu.txt"))"
  exit 0
fi
cat "$logs/gpu.txt"

tests=(cuda_test operator_conformance_test cuda_training_test cuda_ranks_test cuda_checkpoint_test cuda_calls_test)
{
  configure build-gpu -Dmpi=disabled -Doptimization=3 &&
    ninja -C build-gpu "${tests[@]/#/tests/cuda/}" cli/sextant experiments/micro/kernel_bench
} >"$logs/build.log" 2>&1 || { tail -30 "$logs/build.log"; exit 1; }

: >"$logs/failed"
# log NAME COMMAND...: keeps the output, shows its end, notes a failure.
log() {
  local name="$1" begin=$SECONDS
  shift
  if "$@" >"$logs/$name.log" 2>&1; then
    printf '%-28s ok      %4d s\n' "$name" "$((SECONDS - begin))"
  else
    echo "$name" >>"$logs/failed"
    printf '%-28s FAILED  %4d s\n' "$name" "$((SECONDS - begin))"
    tail -15 "$logs/$name.log"
  fi
}

for test in "${tests[@]}"; do log "$test" build-gpu/tests/cuda/"$test"; done

# initcheck says little about an arena that is poisoned first, so it looks at the kernels alone. Rates
# under a sanitizer are none.
if [ "$sanitize" = yes ] && ! command -v compute-sanitizer >/dev/null; then
  echo "skipped: compute-sanitizer is not installed"
elif [ "$sanitize" = yes ]; then
  sanitizer() { compute-sanitizer --error-exitcode 9 --tool "$@"; }
  # Every kind of operator on a part of its cases, side by side: the tools leave the card idle.
  for tool in memcheck racecheck initcheck; do
    SEXTANT_SWEEP_EVERY=40 log "${tool}_kernels" sanitizer "$tool" \
      build-gpu/tests/cuda/operator_conformance_test &
    log "$tool" sanitizer "$tool" build-gpu/tests/cuda/cuda_test \
      --test-case="*element-wise*,*refused*,*GPU gives*,*norm*,*update*" \
      --test-case-exclude="*the rate of a copy*" &
  done
  wait
  # Scripts of communications, which several ranks of one card run, and by NCCL where there are two. Ranks wait for
  # each other under the tool too, so every seventh case: a number that shares no factor with those of words.
  SEXTANT_SWEEP_EVERY=7 log memcheck_ranks sanitizer memcheck build-gpu/tests/cuda/cuda_ranks_test \
    --test-case="*pairs of words run right*one GPU*,*pairs of words run right*by NCCL*,every element type*one GPU*"
  SEXTANT_SWEEP_EVERY=7 log racecheck_ranks sanitizer racecheck build-gpu/tests/cuda/cuda_ranks_test \
    --test-case="*pairs of words run right*one GPU*,every element type*one GPU*"
  log memcheck_training sanitizer memcheck build-gpu/tests/cuda/cuda_training_test \
    --test-case="*leave the same bits*"
fi

# train NAME GLOBAL_BATCH MICRO_BATCH MODEL: a plan of one card on random tokens, profiled, compared.
train() {
  local name="$1" batch="$2" micro="$3" model="$4" out="$logs/$1"
  log "$name" build-gpu/cli/sextant run "$model" -c "${SEXTANT_CLUSTER:-hgx-h200:nodes=1}" \
    --strategy "micro_batch=$micro" --global-batch "$batch" --backend cuda --data random \
    --steps 30 --profile 3 --out "$out" --overwrite --matmul-cache "$logs/matmul.json"
  grep -h "^step " "$logs/$name.log"
  log "$name.compare" build-gpu/cli/sextant compare "$out/plan.json" "$out"
  cat "$logs/$name.compare.log"
}
if [ "$times" = yes ]; then
  log kernel_bench build-gpu/experiments/micro/kernel_bench --json "$logs/kernel_bench.json"
  grep -h "^sum of kernels" "$logs/kernel_bench.log"
  medium=experiments/peers/gpt2-medium-50304.json xl=experiments/peers/gpt2-xl-50304.json
  log cluster_bench build-gpu/cli/sextant cluster bench --date "$(date +%F)" --step "$medium:16x1024" \
    --step "$xl:8x1024" --matmul-cache "$logs/matmul.json" --out "$logs/cluster" --overwrite
  [ -z "${SEXTANT_CLUSTER:-}" ] && [ -f "$logs/cluster/cluster.json" ] &&
    SEXTANT_CLUSTER="$logs/cluster/cluster.json"
  train gpt2_medium 16 16 "$medium"
  train gpt2_xl 8 8 "$xl"
fi

echo "$(wc -l <"$logs/failed") failed: $(paste -sd' ' "$logs/failed")"
[ ! -s "$logs/failed" ]
