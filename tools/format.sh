#!/usr/bin/env bash
# Formats C++ and CUDA files in place: the ones named, or all that differ from the last commit.
# Usage: tools/format.sh [--all | FILE...]
set -euo pipefail

formatter=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    formatter="$candidate"
    break
  fi
done
if [ -z "$formatter" ]; then
  echo "tools/format.sh: needs clang-format 14 (package clang-format-14)" >&2
  exit 2
fi

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
sources=('*.h' '*.cpp' '*.cu' '*.cuh')
case "${1:-}" in
  --all) cd "$root" && mapfile -t files < <(git ls-files -co --exclude-standard -- "${sources[@]}") ;;
  "")
    cd "$root"
    mapfile -t files < <(
      git diff --name-only --diff-filter=d HEAD -- "${sources[@]}"
      git ls-files -o --exclude-standard -- "${sources[@]}")
    ;;
  *) files=("$@") ;;
esac
[ "${#files[@]}" = 0 ] && exit 0
"$formatter" -i "${files[@]}"
