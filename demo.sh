#!/usr/bin/env bash
# Installs what is missing, builds the `sextant` program, then does the main job end to end:
# a plan for a 7 B model on 16 described GPUs, and a small model searched, run and compared on 4 CPU ranks.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

# Where to build; the tests name the folder they run in.
build="${SEXTANT_BUILD:-build}"
out="${SEXTANT_DEMO_OUT:-out/demo}"

./setup.sh
source tools/environment.sh
# The CUDA back end takes as long to compile as half of the rest, for nothing where there is no GPU.
cuda=disabled
has_gpu && cuda=auto
configure "$build" -Dcuda="$(cuda_setting "$cuda")"
ninja -C "$build" cli/sextant

PATH="$(cd "$build/cli" && pwd):$PATH"
mkdir -p "$out"

# The text of the repository itself, in a fixed order.
text="$out/text.txt"
find . -maxdepth 3 \( -name '*.h' -o -name '*.cpp' -o -name '*.md' \) -not -path './build*' \
  -not -path './out/*' -print0 | LC_ALL=C sort -z | xargs -0 cat >"$text"

show() {
  printf '\n\n=== %s\n$ %s\n\n' "$1" "${*:2}"
  "${@:2}"
}

big=experiments/demo/llama-2-7b/config.json
small=experiments/demo/gpt-small/config.json

show "What works on this machine" \
  sextant doctor
show "The best plans for Llama 2 7B on two DGX H100, from its Hugging Face file" \
  sextant search "$big" -c dgx-h100:nodes=2 --global-batch 64 --out "$out/llama" --overwrite
show "Where the step of the best plan goes" \
  sextant simulate "$out/llama/plan.json" --trace "$out/llama/trace.json"
show "Why it looks like this, and why not tensor parallelism over eight" \
  sextant explain "$out/llama/plan.json" --why-not tp=8
show "What four ranks can do on this machine's cores, measured: ten seconds" \
  sextant cluster bench --backend cpu --base cpu:ranks=4 --step "$small:4x128" -o "$out/here.json"
show "The best plans for a small GPT on these four ranks" \
  sextant search "$small" -c "$out/here.json" --global-batch 16 --out "$out/small" --overwrite
show "The same plan, run: four ranks train on the text of this repository" \
  sextant run "$out/small/plan.json" --backend cpu --steps 40 --data "$text" --out "$out/small/run" --overwrite
show "Predicted against measured" \
  sextant compare "$out/small/plan.json" "$out/small/run"

printf '\nFiles are in %s. Next: %s\n' "$out" "$build/cli/sextant --help"
