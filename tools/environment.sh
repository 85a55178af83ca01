# Sourced by the scripts at the root: tools and settings that every build and every test run shares.

# CUDA is often installed without being on the path.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
  export PATH="$PATH:/usr/local/cuda/bin"
fi

# A fresh clone at another path finds the objects of the first one.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}"
export CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"

if [ -z "${CXX_LD:-}" ] && command -v mold >/dev/null; then
  export CXX_LD=mold
fi

# Sanitizers report and go on unless told to stop, and a test that goes on passes.
export ASAN_OPTIONS="${ASAN_OPTIONS:-halt_on_error=1:detect_leaks=1:strict_string_checks=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}"

# Containers run as root and have fewer cores than we start ranks.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"

# configure DIR [meson options]: configures once; later changes of meson.build are ninja's to notice.
configure() {
  [ -f "$1/build.ninja" ] && return
  # Line tables suffice for stacks; complete debug information costs a third of the compile time.
  local options=(-Dcpp_args=-g1 "$@")
  if command -v nvcc >/dev/null; then
    # A native file wants an absolute path, and no environment variable names nvcc to meson.
    meson setup "${options[@]}" \
      --native-file <(printf "[binaries]\ncuda = '%s/tools/nvcc.sh'\n" "$PWD")
  else
    meson setup "${options[@]}"
  fi
}
