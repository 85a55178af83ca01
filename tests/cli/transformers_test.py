"""Models of transformers have the losses here that they have there, token by token, in both directions of their files.

usage: transformers_test.py --sextant PROGRAM

Skipped where Python has no torch, transformers and safetensors. Both programs compute in f32.
"""

import json
import sys

from habits_test import expect, run_checks

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if int(transformers.__version__.split(".", maxsplit=1)[0]) < 5:
    print(f"skipped: transformers {transformers.__version__} has other keys in its configs")
    sys.exit(77)

LAYERS, HIDDEN, HEADS, VOCAB, LENGTH, BATCH, STEPS = 2, 32, 4, 300, 24, 4, 3
# Relative. Sums in f32 in two orders differ by 1.4e-7; an epsilon of 1e-5 for 1e-6 in norms moves these losses by 4e-6, GELU
# without its tanh by 3.6e-6.
BOUND = 1e-6
TEXT = "It was the best of times, it was the worst of times. " * 40
JOB = ["-c", "cpu:ranks=1,memory=1GiB", "--strategy", "dp=1", "--global-batch", str(BATCH), "--data", "text.txt",
       "--steps", str(STEPS), "--dtype", "f32"]

LLAMA = {"hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
         "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": LENGTH, "tie_word_embeddings": False,
         "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 3e-5}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}  # 5.1 turns, 0.51, ...
LLAMA3_SHORT = {**LLAMA3_ROPE, "original_max_position_embeddings": 12}  # 1.9, 0.19, ...
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}
EXPERTS = {"num_experts_per_tok": 2, "output_router_logits": False}


def families():
    t = transformers
    return {
        "gpt2": t.GPT2Config(n_layer=LAYERS, n_embd=HIDDEN, n_head=HEADS, vocab_size=VOCAB, n_positions=LENGTH, resid_pdrop=0,
                             embd_pdrop=0, attn_pdrop=0, bos_token_id=1, eos_token_id=2),
        "llama": t.LlamaConfig(**LLAMA),
        "llama tied": t.LlamaConfig(**{**LLAMA, "tie_word_embeddings": True}),
        "llama bias": t.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True),
        "llama3 rope": t.LlamaConfig(**{**LLAMA, "rope_parameters": LLAMA3_ROPE}),
        "llama3 short rope": t.LlamaConfig(**{**LLAMA, "rope_parameters": LLAMA3_SHORT}),
        "linear rope": t.LlamaConfig(**{**LLAMA, "rope_parameters": LINEAR_ROPE}),
        "mistral": t.MistralConfig(**LLAMA, sliding_window=None),
        "qwen2": t.Qwen2Config(**LLAMA, use_sliding_window=False),
        "qwen3": t.Qwen3Config(**LLAMA, head_dim=16, use_sliding_window=False),
        "mixtral": t.MixtralConfig(**LLAMA, **EXPERTS, num_local_experts=4, sliding_window=None),
        "qwen3_moe": t.Qwen3MoeConfig(**LLAMA, **EXPERTS, num_experts=4, moe_intermediate_size=40, norm_topk_prob=True,
                                      decoder_sparse_step=1, mlp_only_layers=[], head_dim=16),
        "bert": t.BertConfig(num_hidden_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, intermediate_size=64,
                             vocab_size=VOCAB, max_position_embeddings=LENGTH, hidden_dropout_prob=0,
                             attention_probs_dropout_prob=0, pad_token_id=0),
    }


def class_of(config):
    if config.model_type == "bert":
        return transformers.BertForMaskedLM
    return transformers.AutoModelForCausalLM


def made(config):
    """Random weights, larger than a fresh model's, so that no part of the model is lost in the rest."""
    torch.manual_seed(7)
    kind = class_of(config)
    model = kind(config) if config.model_type == "bert" else kind.from_config(config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            is_scale = "norm" in name.lower() and name.endswith("weight") or ".ln_" in name and name.endswith("weight")
            value.normal_(1.0 if is_scale else 0.0, 0.2)
    return model.float().eval()


def their_losses(model, samples):
    """Of each step: the mean over the tokens that are labels."""
    losses = []
    with torch.no_grad():
        for tokens, labels in zip(samples["tokens"].long(), samples["labels"].long()):
            logits = model(input_ids=tokens).logits
            losses.append(torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100).item())
    return losses


def our_losses(program, folder):
    lines = (program.folder / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]


def is_near(ours, theirs):
    return len(ours) == len(theirs) == STEPS and all(abs(a - b) <= BOUND * abs(b) for a, b in zip(ours, theirs))


def check_family(program, name, config):
    folder = name.replace(" ", "_")
    # Models of transformers drop no token.
    described = f"{folder}:capacity_factor=2" if "mixtral" in name or "moe" in name else folder
    model = made(config)
    model.save_pretrained(program.folder / folder)
    program.run("export", described, *JOB, "--out", "samples", "--overwrite").expect_code(0)
    samples = load_file(program.folder / "samples" / "samples.safetensors")
    theirs = their_losses(model, samples)
    # Steps that change nothing: each has the loss of these weights.
    program.run("run", described, *JOB, "--weights", folder, "--learning-rate", "1e-30", "--optimizer", "sgd", "--out", "ours", "--overwrite").expect_code(0)
    ours = our_losses(program, "ours")
    print(f"{name}: {max(abs(a / b - 1) for a, b in zip(ours, theirs)):.1e} relative, losses {[round(x, 4) for x in theirs]}", flush=True)
    expect(is_near(ours, theirs), f"{name}: losses {ours}, of transformers {theirs}")
    # Trained here, read there.
    program.run("run", described, *JOB, "--weights", folder, "--out", "trained", "--overwrite", "--checkpoint", f"{folder}_t").expect_code(0)
    program.run("checkpoint", "export", f"{folder}_t", "--out", f"{folder}_back").expect_code(0)
    back = class_of(config).from_pretrained(program.folder / f"{folder}_back", dtype=torch.float32).eval()
    program.run("run", described, *JOB, "--weights", f"{folder}_back", "--learning-rate", "1e-30", "--optimizer", "sgd", "--out", "again",
                "--overwrite").expect_code(0)
    again, there = our_losses(program, "again"), their_losses(back, samples)
    expect(is_near(again, there), f"{name}: trained here: losses {again}, of transformers {there}")
    expect(not is_near(again, theirs), f"{name}: training changed nothing")


def check_losses(program):
    (program.folder / "text.txt").write_text(TEXT, encoding="utf-8")
    for name, config in families().items():
        check_family(program, name, config)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    sys.exit(run_checks(check_losses))
