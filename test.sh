#!/usr/bin/env bash
# Installs what is missing, builds, runs every test; the last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" || exit 2

usage() {
  cat <<'USAGE'
usage: ./test.sh [--fast | --long | --gpu | --sanitize address|thread]

  (nothing)            all tests, then the sanitizer subset (protocol, CPU kernels and queues)
  --fast               all tests, no sanitizers
  --long               as --fast, with 10,000 random plans instead of hundreds and larger samples elsewhere (an hour)
  --gpu                where there is a GPU: its tests, compute-sanitizer, times (tools/gpu_test.sh);
                       elsewhere says so and does nothing
  --sanitize address   all tests under address + undefined behaviour sanitizers, in build-asan/
  --sanitize thread    all tests under the thread sanitizer, in build-tsan/

SEXTANT_CUDA=off leaves the CUDA back end out, on insists on it; without it nvcc decides.
Everything else is Meson: `meson test -C build actor` runs one test, `build/tests/actor/actor_test -h`
says how to run one case.
USAGE
}

mode=default
case "${1:-}" in
  "") ;;
  --fast) mode=fast ;;
  --long) mode=long ;;
  --gpu) mode=gpu ;;
  --sanitize)
    mode="${2:-}"
    [ "$mode" = address ] || [ "$mode" = thread ] || { usage >&2; exit 2; }
    ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

[ "$mode" = gpu ] && exec tools/gpu_test.sh

./setup.sh || exit
source tools/environment.sh

logs=()
# An earlier step that fails must show in the count even where no test could run.
broken=()

heading() { printf '\n== %s\n' "$*"; }

# run DIR MESON_TEST_ARGUMENT...: runs tests that are built, and keeps the log for the summary.
run() {
  local dir="$1"
  shift
  local log
  rm -f "$dir"/meson-logs/testlog*.json
  meson test -C "$dir" --no-rebuild --num-processes "$(nproc)" "$@" </dev/null
  # With a wrapper meson puts the wrapper's name into the name of the log.
  for log in "$dir"/meson-logs/testlog*.json; do
    [ -f "$log" ] && logs+=("$log")
  done
}

# sanitized KIND [PROGRAM...]: the programs named, or all of them, under one kind of sanitizer.
sanitized() {
  local kind="$1" options=() wrapper=() dir
  shift
  # The libraries behind the features are not instrumented. -Og compiles faster than -O1 and runs faster
  # than -O0; instrumented code has false warnings, true ones are the normal build's to find.
  case "$kind" in
    address) dir=build-asan options=(-Db_sanitize=address,undefined) ;;
    # These four checks double the compile time; the first three are the address sanitizer's as well. Accesses are checked
    # by calls: code in line takes a quarter longer to compile, and this subset compiles longer than it runs.
    address-quick)
      dir=build-asan-quick
      options=(-Db_sanitize=address,undefined
        "-Dcpp_args=-g1 -fno-sanitize=null,object-size,vptr,alignment --param=asan-instrumentation-with-call-threshold=0")
      ;;
    thread)
      # Without instrumentation, it would not see what orders the threads of BLAS and oneDNN.
      dir=build-tsan options=(-Db_sanitize=thread -Dblas=disabled -Donednn=disabled)
      # GCC 12 and 13 cannot place its shadow where a kernel randomises more than 28 bits.
      setarch "$(uname -m)" -R true 2>/dev/null && wrapper=(--wrapper "setarch $(uname -m) -R")
      ;;
  esac
  heading "sanitizers: $kind, in $dir"
  configure "$dir" -Db_lundef=false -Doptimization=g -Dwerror=false \
    -Dcuda=disabled -Dmpi=disabled "${options[@]}" >/dev/null || { broken+=("configure $dir"); return; }
  # The list of tests is as old as the last configuration.
  ninja -C "$dir" build.ninja >/dev/null || { broken+=("configure $dir"); return; }
  local selection
  selection="$(python3 tools/select_tests.py "$dir" "$@")" || { broken+=("select $dir"); return; }
  local targets=() names=() target name
  while IFS=$'\t' read -r target name; do
    targets+=("$target")
    names+=("$name")
  done <<<"$selection"
  # Without a selection everything is built: a test may start the program itself.
  [ "$#" = 0 ] && targets=()
  ninja -C "$dir" "${targets[@]}" || { broken+=("build $dir"); return; }
  run "$dir" --timeout-multiplier 5 "${wrapper[@]}" "${names[@]}"
}

case "$mode" in
  address | thread) sanitized "$mode" ;;
  *)
    heading "build"
    # CUDA is compiled where there is nvcc: its tests skip without a GPU, its sources must not rot.
    if configure build -Dcuda="$(cuda_setting auto)" && ninja -C build; then
      heading "tests"
      if [ "$mode" = long ]; then
        SEXTANT_LONG=1 SEXTANT_LAW_PLANS="${SEXTANT_LAW_PLANS:-10000}" run build --timeout-multiplier 10
      else
        run build
      fi
    else
      broken+=("build build")
    fi
    if [ "$mode" = default ] && [ "${#broken[@]}" = 0 ]; then
      sanitized address-quick core_test actor_test protocol_test cpu_test cpu_kernels_test
      # Without cpu_kernels_test: what one thread does shows it nothing.
      sanitized thread actor_test cpu_test hosts_test protocol_test
    fi
    ;;
esac

heading "summary"
python3 tools/test_summary.py "${logs[@]}" "${broken[@]/#/--broken=}"
