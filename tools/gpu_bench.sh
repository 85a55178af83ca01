#!/usr/bin/env bash
# On a machine with GPUs and PyTorch: step times and loss curves, ours beside PyTorch's, in one run
# on the same cards. Prints a table; logs and JSON go to a folder.
# usage: tools/gpu_bench.sh [--build DIR] [--peer torch_gpt.py] [--steps N] [--rows "NAME ..."] [--no-losses] [LOG_FOLDER]
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 2

build=build-gpu peer="" steps=30 logs=out/gpu-bench rows="" losses=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build="$2"; shift ;;
    --peer) peer="$(readlink -f "$2")"; shift ;;
    --steps) steps="$2"; shift ;;
    --rows) rows="$2"; shift ;;
    --no-losses) losses=no ;;
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
gpus="$(nvidia-smi -L | wc -l)"
# row NAME CARDS MODEL GLOBAL_BATCH STRATEGY PEER_ARGUMENTS: one line of the table. PyTorch's batch is per card.
row() {
  local name="$1" cards="$2" model="$3" batch="$4" strategy="$5" peer_arguments="$6" ours theirs=""
  local out="$logs/$name" torch=(python3)
  [ -z "$rows" ] || [[ " $rows " == *" $name "* ]] || return 0
  if [ "$gpus" -lt "$cards" ]; then
    printf '%-34s skipped: %d GPUs are needed\n' "$name" "$cards"
    return 0
  fi
  if ! "$sextant" run "$peers/gpt2-$model-50304.json" -c "$cluster" --strategy "$strategy" \
    --global-batch "$batch" --backend cuda --data random --steps "$steps" --gpus "$(seq -s, 0 $((cards - 1)))" \
    --matmul-cache "$logs/matmul.cache" --out "$out" --overwrite >"$out.log" 2>&1; then
    tail -5 "$out.log"
    failed=1
    return 0
  fi
  ours="$(number "$out/run.json" step_time_s)"
  if [ -n "$peer" ] && python3 -c 'import torch' 2>/dev/null; then
    [ "$cards" = 1 ] || torch=(python3 -m torch.distributed.run --standalone --nproc-per-node "$cards")
    # shellcheck disable=SC2086
    (cd "$logs" && "${torch[@]}" "$peer" --model "$model" $peer_arguments --steps "$steps" >"$name.torch.log" 2>&1)
    theirs="$(sed -n 's/^RESULT //p' "$out.torch.log" |
      python3 -c 'import json, sys; print(json.load(sys.stdin)["step_ms"])')"
    [ -n "$theirs" ] || { tail -5 "$out.torch.log"; failed=1; }
  fi
  python3 - "$name" "$strategy" "$ours" "$theirs" "$out/metrics.jsonl" <<'EOS'
import json, statistics, sys
name, strategy, ours, theirs, metrics = sys.argv[1:]
ours = float(ours) * 1e3
values = [json.loads(line)["mfu"] for line in open(metrics)]
mfu = "n/a" if None in values else f"{statistics.median(values):.3f}"  # none on another card than the cluster's
ratio = f"{float(theirs) / ours:7.3f}" if theirs else "skipped"
print(f"{name:34} {ours:10.2f} {theirs or 'skipped':>10} {ratio:>7} {mfu:>7}  {strategy}", flush=True)
EOS
}
printf '%-34s %10s %10s %7s %7s  %s\n' "step" "ours ms" "torch ms" "ratio" "MFU" "strategy"
row medium-16x1024 1 medium 16 "dp=1 micro_batch=16" "--mbs 16"
row xl-8x1024 1 xl 8 "dp=1 micro_batch=8" "--mbs 8"
row medium-dp2-16x1024 2 medium 32 "dp=2 micro_batch=16" "--mbs 16 --strategy ddp"
row large-dp2-12x1024 2 large 24 "dp=2 micro_batch=12" "--mbs 12 --strategy ddp"
row xl-dp2-8x1024 2 xl 16 "dp=2 micro_batch=8" "--mbs 8 --strategy ddp"
row xl-zero1-8x1024 2 xl 16 "dp=2 micro_batch=8 zero=1" "--mbs 8 --strategy ddp"
row 2.7b-zero3-8x1024 2 2.7b 16 "dp=2 micro_batch=8 zero=3" "--mbs 8 --strategy fsdp"
row 2.7b-tp2-8x1024 2 2.7b 8 "tp=2 micro_batch=8 sp=on" "--mbs 8 --strategy tp --tp 2"
row 2.7b-pp2-8x4x1024 2 2.7b 32 "pp=2 micro_batch=4 schedule=1f1b" "--mbs 4 --micro 8 --strategy pp"
row 2.7b-pp2-zbv-8x4x1024 2 2.7b 32 "pp=2 micro_batch=4 schedule=zb-v virtual=2" "--mbs 4 --micro 8 --strategy pp"

[ "$losses" = yes ] || exit "$failed"
# Bounds: f32 differs by the order of sums, which 200 updates amplify; bf16 rounds weights and
# activations at 2^-9 relative.
for model in gpt-3m llama-3m bert-3m; do
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
