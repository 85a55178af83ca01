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

# cuda_setting DEFAULT: the value of meson's option `cuda`. SEXTANT_CUDA=on and off decide; without it DEFAULT does.
cuda_setting() {
  case "${SEXTANT_CUDA:-}" in
    on) echo enabled ;;
    off) echo disabled ;;
    *) echo "$1" ;;
  esac
}

# Whether a GPU of NVIDIA has its device file: nothing else can run what the CUDA back end compiles to.
has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null; }

# configure DIR [meson options]: configures once; later changes of meson.build are ninja's to notice. A folder that
# was configured without CUDA gets it once it is asked for.
configure() {
  local dir="$1" option
  if [ -f "$dir/build.ninja" ]; then
    for option in "${@:2}"; do
      case "$option" in
        -Dcuda=auto | -Dcuda=enabled)
          meson introspect "$dir" --buildoptions |
            python3 -c 'import json, sys; sys.exit(not any(
              o["name"] == "cuda" and o["value"] == "disabled" for o in json.load(sys.stdin)))' || continue
          command -v nvcc >/dev/null && meson configure "$dir" "$option"
          ;;
      esac
    done
    return 0
  fi
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
