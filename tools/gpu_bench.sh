#!/usr/bin/env bash
# On a machine with a GPU and PyTorch: step times and loss curves, ours beside PyTorch's, in one run
# on one card. Prints a table; logs and JSON go to a folder.
# usage: tools/gpu_bench.sh [--build DIR] [--peer torch_gpt.py] [--steps N] [LOG_FOLDER]
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 2

build=build-gpu peer="" steps=30 logs=out/gpu-bench
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build="$2"; shift ;;
    --peer) peer="$(readlink -f "$2")"; shift ;;
    --steps) steps="$2"; shift ;;
    -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    -*) sed -n '4s/^# //p' "$0" >&2; exit 2 ;;
    *) logs="$1" ;;
  esac
  shift
done
mkdir -p "$logs"
source tools/environment.sh
if ! nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv >"$logs/gpu.txt" 2>&1; then
  echo "skipped: no GPU"
  exit 0
fi
tail -1 "$logs/gpu.txt"
ninja -C "$build" cli/sextant >"$logs/build.log" 2>&1 || { tail -20 "$logs/build.log"; exit 1; }
sextant="$build/cli/sextant"
cluster="${SEXTANT_BENCH_CLUSTER:-hgx-h200:nodes=1}"
peers=experiments/peers
text="$logs/text.txt"
find . -maxdepth 3 -name '*.md' -not -path './build*' -not -path './out/*' -print0 |
  LC_ALL=C sort -z | xargs -0 cat >"$text"

number() { python3 -c "import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])" "$1" "$2"; }

failed=0
printf '%-22s %10s %10s %7s %7s\n' "step" "ours ms" "torch ms" "ratio" "MFU"
for case in medium:16 xl:8; do
  name="${case%:*}" batch="${case#*:}"
  out="$logs/$name"
  if ! "$sextant" run "$peers/gpt2-$name-50304.json" -c "$cluster" --strategy "dp=1 micro_batch=$batch" \
    --global-batch "$batch" --backend cuda --data random --steps "$steps" \
    --matmul-cache "$logs/matmul.cache" --out "$out" --overwrite >"$out.log" 2>&1; then
    tail -5 "$out.log"
    failed=1
    continue
  fi
  ours="$(number "$out/run.json" step_time_s)"
  theirs=""
  if [ -n "$peer" ] && python3 -c 'import torch' 2>/dev/null; then
    (cd "$logs" && python3 "$peer" --model "$name" --mbs "$batch" --steps "$steps" >"$name.torch.log" 2>&1)
    theirs="$(sed -n 's/^RESULT //p' "$out.torch.log" |
      python3 -c 'import json, sys; print(json.load(sys.stdin)["step_ms"])')"
    [ -n "$theirs" ] || { tail -5 "$out.torch.log"; failed=1; }
  fi
  python3 - "$name" "$batch" "$ours" "$theirs" "$out/metrics.jsonl" <<'EOF'
import json, statistics, sys
name, batch, ours, theirs, metrics = sys.argv[1:]
ours = float(ours) * 1e3
values = [json.loads(line)["mfu"] for line in open(metrics)]
mfu = "n/a" if None in values else f"{statistics.median(values):.3f}"  # none on another card than the cluster's
ratio = f"{float(theirs) / ours:7.3f}" if theirs else "skipped"
print(f"{'gpt2-' + name + ' ' + batch + ' x 1024':22} {ours:10.2f} {theirs or 'skipped':>10} {ratio:>7} {mfu:>7}")
EOF
done

# Bounds: f32 differs by the order of sums, which 200 updates amplify; bf16 rounds weights and
# activations at 2^-9 relative.
for model in gpt-3m llama-3m; do
  plan=("$peers/$model.json" --strategy "dp=1 micro_batch=8" --global-batch 8 --data "$text")
  "$sextant" export "${plan[@]}" --steps 200 -c "$cluster" --dtype f32 --out "$logs/$model" --overwrite >"$logs/$model.log" 2>&1 ||
    failed=1
  "$sextant" run "${plan[@]}" --steps 20 --dtype f32 -c cpu:ranks=1 --out "$logs/$model/cpu" --overwrite >>"$logs/$model.log" 2>&1 ||
    failed=1
  for type in f32:0.002 bf16:0.03; do
    dtype="${type%:*}" bound="${type#*:}" out="$logs/$model/${type%:*}"
    "$sextant" run "${plan[@]}" --steps 200 -c "$cluster" --dtype "$dtype" --backend cuda --out "$out" --overwrite >>"$logs/$model.log" 2>&1 ||
      { tail -3 "$logs/$model.log"; failed=1; continue; }
    if python3 -c 'import torch, safetensors' 2>/dev/null; then
      python3 "$peers/torch_losses.py" "$peers/$model.json" "$logs/$model" --dtype "$dtype" \
        --out "$out.torch.jsonl" >>"$logs/$model.log" 2>&1
      echo "$model $dtype, ours and PyTorch:"
      python3 "$peers/compare_losses.py" "$out/metrics.jsonl" "$out.torch.jsonl" --bound "$bound" || failed=1
    else
      echo "$model $dtype, ours and PyTorch: skipped, no PyTorch or safetensors"
    fi
  done
  head -20 "$logs/$model/f32/metrics.jsonl" >"$logs/$model/f32.head.jsonl"
  echo "$model f32, GPU and CPU:"
  python3 "$peers/compare_losses.py" "$logs/$model/f32.head.jsonl" "$logs/$model/cpu/metrics.jsonl" --bound 1e-4 ||
    failed=1
done
exit "$failed"
