#!/usr/bin/env bash
# nvcc that also writes the dependency file which meson before 1.7 reads but does not ask for.
# Used through a native file, [binaries] cuda = 'path of this script', as the scripts at the root do.
set -euo pipefail

compiler=(nvcc)
object=""
compiles=no
asks=no
previous=""
for argument in "$@"; do
  case "$argument" in
    -c) compiles=yes ;;
    -MD | -MMD) asks=yes ;;
  esac
  [ "$previous" = -o ] && object="$argument"
  previous="$argument"
done

if [ "$compiles" = yes ] && [ -n "$object" ]; then
  command -v ccache >/dev/null && compiler=(ccache nvcc)
  if [ "$asks" = no ]; then
    exec "${compiler[@]}" "$@" -MD -MF "$object.d" -MT "$object"
  fi
fi
exec "${compiler[@]}" "$@"
