#!/usr/bin/env bash
# Installs what the build and the tests need, through apt (Debian 12, Ubuntu 24.04). Safe to repeat;
# does nothing when everything is there. Needs root or sudo only when something is missing.
set -euo pipefail

required=(
  g++ meson ninja-build pkg-config python3
  libboost-dev libfmt-dev nlohmann-json3-dev libcli11-dev doctest-dev libbenchmark-dev
)
# Features: the build works without them and says so in its summary.
optional=(libopenmpi-dev openmpi-bin libopenblas-dev libdnnl-dev libmimalloc-dev zlib1g-dev libturbojpeg0-dev libyaml-cpp-dev ccache mold clang-format-14)

missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      echo "$package"
  done
}

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: no apt-get here; install the equivalents of: ${required[*]} ${optional[*]}" >&2
  exit 5
fi

mapfile -t missing < <(missing_of "${required[@]}")
mapfile -t wanted < <(missing_of "${optional[@]}")
[ "${#missing[@]}" = 0 ] && [ "${#wanted[@]}" = 0 ] && exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    if [ "${#missing[@]}" = 0 ]; then
      echo "setup.sh: not root and no sudo, going on without: ${wanted[*]}" >&2
      exit 0
    fi
    echo "setup.sh: not root and no sudo; ask for: apt-get install ${missing[*]}" >&2
    exit 5
  fi
  as_root=(sudo)
fi

# Prints what apt-get says only where it fails.
apt() {
  local log status=0
  log="$(mktemp)"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1 ||
    status=$?
  [ "$status" = 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

echo "setup.sh: installing" "${missing[@]}" "${wanted[@]}"
apt update
if ! apt install -y --no-install-recommends "${missing[@]}" "${wanted[@]}"; then
  # One optional package that a distribution lacks must not keep the others out.
  [ "${#missing[@]}" = 0 ] || apt install -y --no-install-recommends "${missing[@]}"
  for package in "${wanted[@]}"; do
    apt install -y --no-install-recommends "$package" ||
      echo "setup.sh: going on without $package" >&2
  done
fi
