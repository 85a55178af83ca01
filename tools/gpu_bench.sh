#!/usr/bin/env bash
# On a machine with GPUs and PyTorch: step times and loss curves, ours beside PyTorch's, in one run
# on the same cards. Prints a table; logs and JSON go to a folder. --list prints the rows there are, and how many cards each needs.
# usage: tools/gpu_bench.sh [--list] [--build DIR] [--peer torch_gpt.py] [--no-torch] [--steps N] [--rows "NAME ..."] [--no-losses] [LOG_FOLDER]
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 2

build=build-gpu peer="" steps=30 logs=out/gpu-bench rows="" losses=yes with_torch=yes list=no
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build="$2"; shift ;;
    --peer) peer="$(readlink -f "$2")"; shift ;;
    --steps) steps="$2"; shift ;;
    --rows) rows="$2"; shift ;;
    --no-losses) losses=no ;;
    --list) list=yes losses=no ;;
    --no-torch) with_torch=no ;;
    -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    -*) sed -n '4s/^# //p' "$0" >&2; exit 2 ;;
    *) logs="$1" ;;
  esac
  shift
done
peers=experiments/peers
text="$logs/text.txt"
# prepare: what measuring needs: a GPU, a build, a text.
prepare() {
  mkdir -p "$logs"
  source tools/environment.sh
  if ! nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv >"$logs/gpu.txt" 2>&1; then
    echo "skipped: no GPU"
    exit 0
  fi
  tail -1 "$logs/gpu.txt"
  ninja -C "$build" cli/sextant >"$logs/build.log" 2>&1 || { tail -20 "$logs/build.log"; exit 1; }
  find . -maxdepth 3 -name '*.md' -not -path './build*' -not -path './out/*' -print0 |
    LC_ALL=C sort -z | xargs -0 cat >"$text"
  gpus="$(nvidia-smi -L | wc -l)"
}
sextant="$build/cli/sextant"
cluster="${SEXTANT_BENCH_CLUSTER:-hgx-h200:nodes=1}"
gpus=0
[ "$list" = yes ] || prepare

failed=0
# wanted NAME CARDS: whether the row is asked for and there are cards for it.
wanted() {
  [ "$list" = no ] || { printf '%s %d\n' "$1" "$2"; return 1; }
  [ -z "$rows" ] || [[ " $rows " == *" $1 "* ]] || return 1
  [ "$gpus" -ge "$2" ] && return 0
  printf '%-34s skipped: %d GPUs are needed\n' "$1" "$2"
  return 1
}
# train NAME CARDS MODEL GLOBAL_BATCH STRATEGY [OPTION ...]: our run, into a folder of the name. `data` says what it reads.
data=(--data random)
train() {
  local name="$1" cards="$2" model="$3" batch="$4" strategy="$5" out="$logs/$1"
  shift 5
  rm -f "$out.torch.log"  # a ratio is of one call
  "$sextant" run "$model" -c "$cluster" --strategy "$strategy" --global-batch "$batch" --backend cuda "${data[@]}" \
    --steps "$steps" --profile 2 --gpus "$(seq -s, 0 $((cards - 1)))" --matmul-cache "$logs/matmul.cache" \
    --out "$out" --overwrite "$@" >"$out.log" 2>&1 && return 0
  tail -5 "$out.log"
  failed=1
  return 1
}
# report NAME STRATEGY: a line of ours beside the last JSON object that PyTorch's log holds; NAME.row.json has the same.
report() {
  python3 - "$1" "$2" "$logs/$1/run.json" "$logs/$1.torch.log" "$logs/$1/metrics.jsonl" "$logs/$1.row.json" "$logs/gpu.txt" <<'EOS'
import json, os, statistics, sys
name, strategy, run, log, metrics, kept, gpu = sys.argv[1:]
with open(run) as file:
    found = json.load(file)
ours, spread = found["step_time_s"] * 1e3, [value * 1e3 for value in found["step_time_quartiles_s"]]
theirs = "skipped"
if os.path.exists(log):
    objects = [line[line.index("{"):] for line in open(log) if line.startswith(("{", "RESULT {"))]
    theirs = json.loads(objects[-1])["step_ms"] if objects else "failed"
values = [json.loads(line)["mfu"] for line in open(metrics)]
mfu = "n/a" if None in values else f"{statistics.median(values):.3f}"  # none on another card than the cluster's
ratio = f"{theirs / ours:7.3f}" if isinstance(theirs, float) else "n/a"
print(f"{name:34} {ours:8.2f} ({spread[0]:.1f}-{spread[1]:.1f}) {theirs:>10} {ratio:>7} {mfu:>7}  {strategy}", flush=True)
with open(gpu) as file:
    card = file.read().strip().splitlines()[-1]
with open(kept, "w") as file:
    json.dump({"step_s": ours / 1e3, "spread": (spread[1] - spread[0]) / ours,
               "torch_step_s": theirs / 1e3 if isinstance(theirs, float) else None,
               "mfu": None if None in values else statistics.median(values), "strategy": strategy, "gpu": card}, file)
sys.exit(theirs == "failed")
EOS
}
has_torch() { python3 -c 'import torch' 2>/dev/null; }
# torch CARDS PROGRAM ARGUMENT...: PyTorch's program, a process a card.
torch() {
  local cards="$1" launcher=(python3)
  shift
  [ "$cards" = 1 ] || launcher=(python3 -m torch.distributed.run --standalone --nproc-per-node "$cards")
  "${launcher[@]}" "$@"
}
# row NAME CARDS MODEL GLOBAL_BATCH STRATEGY PEER_ARGUMENTS: of GPT-2 beside --peer. PyTorch's batch is per card.
row() {
  local name="$1" cards="$2"
  wanted "$name" "$cards" && train "$name" "$cards" "$peers/gpt2-$3-50304.json" "$4" "$5" || return 0
  if [ -n "$peer" ] && has_torch; then
    # shellcheck disable=SC2086
    (cd "$logs" && torch "$cards" "$peer" --model "$3" $6 --steps "$steps" >"$name.torch.log" 2>&1)
  fi
  report "$name" "$5" || { tail -5 "$logs/$name.torch.log"; failed=1; }
}
# decoder NAME CARDS MODEL SAMPLES MICRO_BATCHES STRATEGY PEER_ARGUMENTS: beside torch_decoder.py, which gets the model's
# description from our plan. Samples are of a micro-batch of each replica.
decoder() {
  local name="$1" cards="$2" model="$3" samples="$4" micro_batches="$5" strategy="$6" out="$logs/$1" replicas=1
  [[ "$strategy" =~ dp=([0-9]+) ]] && replicas="${BASH_REMATCH[1]}"
  wanted "$name" "$cards" || return 0
  train "$name" "$cards" "$model" $((samples * micro_batches * replicas)) "micro_batch=$samples $strategy" || return 0
  if [ "$with_torch" = yes ] && has_torch; then
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["model_text"])' "$out/plan.json" >"$out.model.json"
    # shellcheck disable=SC2086
    torch "$cards" "$peers/torch_decoder.py" "$out.model.json" --samples "$samples" --micro-batches "$micro_batches" \
      --steps "$steps" --profile "$out.torch.kernels.json" $7 >"$out.torch.log" 2>&1
  fi
  report "$name" "$strategy" || { tail -5 "$out.torch.log"; failed=1; }
}
[ "$list" = yes ] || printf '%-34s %10s %10s %7s %7s  %s\n' "step" "ours ms" "torch ms" "ratio" "MFU" "strategy"
medium="$peers/gpt2-medium-50304.json" xl="$peers/gpt2-xl-50304.json"
llama() { echo "llama:layers=$1,hidden=$2,heads=$3,kv_heads=$4,ffn=$5,vocab=$6,seq=$7"; }
llama12="$(llama 16 2048 32 8 8192 32000 2048)"
decoder medium-16x1024 1 "$medium" 16 1 "" ""
decoder xl-8x1024 1 "$xl" 8 1 "" ""
decoder xl-16x1024 1 "$xl" 16 1 "" ""
decoder llama-1.2b-8x2048 1 "$llama12" 8 1 "" ""
decoder llama-3.2b-4x2048 1 "$(llama 28 3072 24 8 8192 128256 2048)" 4 1 "" ""
decoder llama-3.2b-fp8 1 "$(llama 28 3072 24 8 8192 128256 2048)" 4 1 "precision=fp8" ""
decoder medium-fp8 1 "$medium" 16 1 "precision=fp8" ""
decoder llama-1x16384 1 "$(llama 8 2048 16 16 5632 32000 16384)" 1 1 "" ""
# Ours has places for 1.25 times the even share of tokens and drops what is beyond, PyTorch drops none.
decoder experts-8x2048 1 "mixtral-8x7b:layers=4,hidden=2048,heads=32,kv_heads=8,ffn=5632,vocab=32000,seq=2048,capacity_factor=1.25" 8 1 "" ""
decoder medium-8x4x1024 1 "$medium" 4 8 "" ""
decoder llama-1.2b-full 1 "$llama12" 8 1 "recompute=full" "--recompute"
decoder medium-dropout 1 "$medium:dropout=0.1" 16 1 "" "--dropout 0.1"
# encoder NAME SAMPLES SEQUENCE: BERT-base of masked tokens, beside torch_steps.py.
encoder() {
  local name="$1" out="$logs/$1"
  wanted "$name" 1 && train "$name" 1 bert-base "$2" "micro_batch=$2" --seq "$3" || return 0
  if [ "$with_torch" = yes ] && python3 -c 'import torch, transformers' 2>/dev/null; then
    python3 "$peers/torch_steps.py" bert --batch "$2" --sequence "$3" --steps "$steps" --compile --device cuda \
      >"$out.torch.log" 2>&1
  fi
  report "$name" "--seq $3" || { tail -5 "$out.torch.log"; failed=1; }
}
encoder bert-32x128 32 128
encoder bert-64x128 64 128
encoder bert-32x512 32 512
encoder bert-64x512 64 512
# synthetic NAME CARDS MODEL GLOBAL_BATCH STRATEGY OPTIMIZER PEER_ARGUMENTS: a model that reads no tokens, beside torch_steps.py.
synthetic() {
  local name="$1" cards="$2" strategy="$5" out="$logs/$1" data=()
  wanted "$name" "$cards" && train "$name" "$cards" "$3" "$4" "$strategy" --optimizer "$6" || return 0
  if [ "$with_torch" = yes ] && python3 -c 'import torch, transformers' 2>/dev/null; then
    # shellcheck disable=SC2086
    torch "$cards" "$peers/torch_steps.py" $7 --steps "$steps" --compile --device cuda >"$out.torch.log" 2>&1
  fi
  report "$name" "$strategy" || { tail -5 "$out.torch.log"; failed=1; }
}
synthetic resnet50-256 1 resnet50 256 "micro_batch=256" "momentum lr=0.01" "resnet50 --batch 256 --image 224"
synthetic resnet50-dp2-256 2 resnet50 512 "dp=2 micro_batch=256" "momentum lr=0.01" \
  "resnet50 --batch 256 --image 224 --strategy ddp"
synthetic class-head-1m-tp2-1024 2 class-head-1m 1024 "tp=2 micro_batch=1024" adamw "class_head --batch 1024 --strategy tp"
synthetic wide-deep-tp2-16384 2 "wide_deep:deep_vocab=20000000,hidden=1024x1024x1024x1024x1024x1024x1024" 16384 \
  "tp=2 micro_batch=16384" adamw "wide_deep --batch 16384 --rows 20000000 --strategy tp"
decoder llama-1.2b-dp2-8x2048 2 "$llama12" 8 1 "dp=2" "--strategy ddp"
decoder llama-1.2b-zero3-8x2048 2 "$llama12" 8 1 "dp=2 zero=3" "--strategy fsdp"
decoder llama-1.2b-tp2-8x2048 2 "$llama12" 8 1 "tp=2" "--strategy tp"
decoder llama-1.2b-tp2-sp-8x2048 2 "$llama12" 8 1 "tp=2 sp=on" "--strategy tp"
row medium-dp2-16x1024 2 medium 32 "dp=2 micro_batch=16" "--mbs 16 --strategy ddp"
row large-dp2-12x1024 2 large 24 "dp=2 micro_batch=12" "--mbs 12 --strategy ddp"
row xl-dp2-8x1024 2 xl 16 "dp=2 micro_batch=8" "--mbs 8 --strategy ddp"
row xl-zero1-8x1024 2 xl 16 "dp=2 micro_batch=8 zero=1" "--mbs 8 --strategy ddp"
row 2.7b-zero3-8x1024 2 2.7b 16 "dp=2 micro_batch=8 zero=3" "--mbs 8 --strategy fsdp"
row 2.7b-tp2-8x1024 2 2.7b 8 "tp=2 micro_batch=8 sp=on" "--mbs 8 --strategy tp --tp 2"
row 2.7b-pp2-8x4x1024 2 2.7b 32 "pp=2 micro_batch=4 schedule=1f1b" "--mbs 4 --micro 8 --strategy pp"
row 2.7b-pp2-zbv-8x4x1024 2 2.7b 32 "pp=2 micro_batch=4 schedule=zb-v virtual=2" "--mbs 4 --micro 8 --strategy pp"
row medium-dp4-16x1024 4 medium 64 "dp=4 micro_batch=16" "--mbs 16 --strategy ddp"
row xl-dp4-8x1024 4 xl 32 "dp=4 micro_batch=8" "--mbs 8 --strategy ddp"
row xl-zero1-dp4-8x1024 4 xl 32 "dp=4 micro_batch=8 zero=1" "--mbs 8 --strategy ddp"
row 2.7b-dp4-8x1024 4 2.7b 32 "dp=4 micro_batch=8" "--mbs 8 --strategy ddp"
row 6.7b-zero3-4x2048 4 6.7b 16 "dp=4 micro_batch=4 zero=3" "--mbs 4 --seq 2048 --strategy fsdp"
row 6.7b-tp4-4x2048 4 6.7b 4 "tp=4 micro_batch=4 sp=on" "--mbs 4 --seq 2048 --strategy tp --tp 4"
row 2.7b-pp4-16x4x1024 4 2.7b 64 "pp=4 micro_batch=4 schedule=1f1b" "--mbs 4 --micro 16 --strategy pp"
row 2.7b-pp4-zbv-16x4x1024 4 2.7b 64 "pp=4 micro_batch=4 schedule=zb-v virtual=2" "--mbs 4 --micro 16 --strategy pp"

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
