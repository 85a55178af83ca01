#!/usr/bin/env python3
"""A checkpoint of ours as a folder of torch.distributed.checkpoint, and the way back.

usage: torch_checkpoint.py to-torch CHECKPOINT FOLDER [--unchecked]
       torch_checkpoint.py from-torch FOLDER CHECKPOINTS

CHECKPOINT is a folder step-N that `sextant run --checkpoint` has left; CHECKPOINTS a folder that gets one. Every state is a whole
tensor there, "OWNER" of a parameter and "OWNER (ROLE)" of another state, so any number of torch's ranks may load it and save it
again as they like. What is no tensor (plan, counters, place in the data) goes along as bytes in two tensors of their own.
torch's folders hold pickles: read those alone that you trust. Python takes 30 s for the checksums of a GB; with --unchecked those
of pieces are not compared (`sextant checkpoint check` does it at the speed of the disk). Exit codes: 3 bad input, 8 damage.
"""

import argparse
import fcntl
import json
import os
import pathlib
import shutil
import struct
import sys

try:
    import torch
    import torch.distributed.checkpoint as torch_checkpoint
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
except ImportError as missing:
    sys.exit(f"torch_checkpoint: {missing}: needs PyTorch (2.11 is tested)")

VERSION = 1
MANIFEST, PLAN, SHARD = "manifest.json", "plan.json", "rank-00000.safetensors"
TRAINING_KEY, PLAN_KEY = "sextant.training", "sextant.plan"
DTYPES = {"f64": (torch.float64, "F64"), "f32": (torch.float32, "F32"), "bf16": (torch.bfloat16, "BF16"), "f16": (torch.float16, "F16"),
          "i64": (torch.int64, "I64"), "i32": (torch.int32, "I32"), "bool": (torch.bool, "BOOL")}
NAMES = {torch_type: name for name, (torch_type, _) in DTYPES.items()}
BASIS, PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
DAMAGED, BAD = 8, 3


class Refusal(Exception):
    """What is wrong, and the exit code that says of what kind."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def require(condition, code, text):
    if not condition:
        raise Refusal(code, text)


def checksum_of_text(data):
    state = BASIS
    for byte in data:
        state = (state ^ byte) * PRIME & MASK
    return f"{state:016x}"


def checksum_of_piece(data):
    """By words of eight bytes, the last filled with zeros."""
    state = BASIS
    for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        state = (state ^ word) * PRIME & MASK
        state ^= state >> 32
    return f"{state:016x}"


def bytes_of(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def tensor_of(data, dtype, shape):
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)


def key_of(state):
    return state["name"] if state["role"] == "parameter" else f"{state['name']} ({state['role']})"


def state_of(key):
    """The reverse: a role stands behind the name, in brackets."""
    if key.endswith(")") and " (" in key:
        name, role = key[:-1].rsplit(" (", 1)
        return name, role
    return key, "parameter"


def read(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refusal(DAMAGED, f"{path}: {error.strerror}") from error


def read_json(path, data):
    """An object."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise Refusal(DAMAGED, f"{path}: is no JSON: {error}") from error
    require(isinstance(value, dict), DAMAGED, f"{path}: is no JSON object")
    return value


def read_manifest(folder):
    path = folder / MANIFEST
    data = read(path)
    head = b'{"checksum": "'
    require(data.startswith(head), DAMAGED, f"{path}: does not begin with its checksum")
    begin = len(head) + 16
    require(data[len(head):begin] == checksum_of_text(data[begin + len('",\n'):]).encode(), DAMAGED, f"{path}: is damaged: another checksum")
    manifest = read_json(path, data)
    require(manifest["schema"] == "sextant.checkpoint" and manifest["version"] == VERSION, DAMAGED,
            f"{path}: {manifest['schema']} of version {manifest['version']}, not sextant.checkpoint of version {VERSION}")
    return manifest


class Shard:
    """Tensors of a safetensors file, which lies in the folder itself."""

    def __init__(self, folder, name):
        self.path = folder / name
        require(name == os.path.basename(name) and not self.path.is_symlink(), DAMAGED, f"{self.path}: is no file of the checkpoint")
        self.data = read(self.path)
        length = int.from_bytes(self.data[:8], "little")
        require(8 <= len(self.data) and length <= len(self.data) - 8, DAMAGED, f"{self.path}: is cut off in its header")
        self.tensors, self.begin = read_json(self.path, self.data[8:8 + length]), 8 + length

    def bytes(self, key, dtype, shape):
        require(key in self.tensors, DAMAGED, f"{self.path}: has no tensor '{key}'")
        entry = self.tensors[key]
        try:
            begin, end = (int(offset) for offset in entry["data_offsets"])
            found = entry["dtype"], entry["shape"]
        except (KeyError, TypeError, ValueError) as error:
            raise Refusal(DAMAGED, f"{self.path}: '{key}' is not described as a tensor") from error
        size = torch.Size(shape).numel() * dtype[0].itemsize
        require(found == (dtype[1], shape) and end - begin == size, DAMAGED,
                f"{self.path}: '{key}' is not as the manifest says")
        require(0 <= begin and self.begin + end <= len(self.data), DAMAGED, f"{self.path}: '{key}' is cut off")
        return self.data[self.begin + begin:self.begin + end]


def whole_of(state, shards, checked):
    require(state["dtype"] in DTYPES, DAMAGED, f"{MANIFEST}: '{key_of(state)}' is {state['dtype']}, which no state is")
    dtype = DTYPES[state["dtype"]]
    whole = torch.empty(state["shape"], dtype=dtype[0])
    filled = 0
    for piece in state["pieces"]:
        data = shards(piece["file"]).bytes(piece["key"], dtype, piece["extent"])
        require(not checked or checksum_of_piece(data) == piece["checksum"], DAMAGED, f"{piece['file']}: '{piece['key']}' is damaged: another checksum")
        box = tuple(slice(offset, offset + extent) for offset, extent in zip(piece["offset"], piece["extent"]))
        whole[box] = tensor_of(data, dtype[0], piece["extent"])
        filled += torch.Size(piece["extent"]).numel()
    require(filled == whole.numel(), DAMAGED, f"{MANIFEST}: the pieces of '{key_of(state)}' are not its whole")
    return whole


def to_torch(folder, out, checked):
    manifest = read_manifest(folder)
    plan = read(folder / PLAN)
    require(checksum_of_text(plan) == manifest["plan_checksum"], DAMAGED, f"{folder / PLAN}: is damaged: another checksum")
    require(not out.exists(), BAD, f"{out}: is there already")
    opened = {}

    def shards(name):
        if name not in opened:
            opened[name] = Shard(folder, name)
        return opened[name]

    states = {}
    for state in manifest["states"]:
        key = key_of(state)
        require(state_of(key) == (state["name"], state["role"]) and key not in states and key not in (TRAINING_KEY, PLAN_KEY), BAD,
                f"'{state['name']}' ({state['role']}): torch's folder would not tell it from another state")
        states[key] = whole_of(state, shards, checked)
    states[TRAINING_KEY] = tensor_of(json.dumps(manifest["training"]).encode(), torch.uint8, [-1])
    states[PLAN_KEY] = tensor_of(plan, torch.uint8, [-1])
    torch_checkpoint.save(states, storage_writer=torch_checkpoint.FileSystemWriter(out))
    print(f"{len(manifest['states'])} states of step {manifest['training']['step']} in {out}")


def states_in(folder):
    try:
        metadata = torch_checkpoint.FileSystemReader(folder).read_metadata()
    except Exception as error:  # pickle's errors are of any kind
        raise Refusal(BAD, f"{folder}: is no folder of torch.distributed.checkpoint: {error}") from error
    states = {}
    for key, entry in metadata.state_dict_metadata.items():
        require(isinstance(entry, TensorStorageMetadata), BAD, f"{folder}: '{key}' is no tensor")
        states[key] = torch.empty(entry.size, dtype=entry.properties.dtype)
    for key in (TRAINING_KEY, PLAN_KEY):
        require(key in states, BAD, f"{folder}: has no '{key}': it does not come from a checkpoint of ours")
    try:
        torch_checkpoint.load(states, storage_reader=torch_checkpoint.FileSystemReader(folder))
    except Exception as error:
        raise Refusal(BAD, f"{folder}: cannot be loaded: {error}") from error
    return states


def written_file(path, parts):
    with open(path, "xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path):
    folder = os.open(path, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def shard_of(states):
    """Header and data, and what the manifest says of them."""
    header, data, entries, begin = {}, [], [], 0
    for key in sorted(states, key=state_of):
        tensor, (name, role) = states[key], state_of(key)
        require(tensor.dtype in NAMES, BAD, f"'{key}' is {tensor.dtype}, which checkpoints do not have")
        dtype, shape = NAMES[tensor.dtype], list(tensor.shape)
        entry = {"name": name, "role": role, "shape": shape, "dtype": dtype, "pieces": []}
        entries.append(entry)
        part = bytes_of(tensor)
        if not part:
            continue
        header[key] = {"dtype": DTYPES[dtype][1], "shape": shape, "data_offsets": [begin, begin + len(part)]}
        begin += len(part)
        data.append(part)
        entry["pieces"].append({"offset": [0] * len(shape), "extent": shape, "file": SHARD, "key": key, "checksum": checksum_of_piece(part)})
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *data], entries


class Locked:
    """The folder of checkpoints as a run that writes there has it: nobody else writes meanwhile."""

    def __init__(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory

    def __enter__(self):
        self.folder = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.flock(self.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self.folder)
            raise Refusal(BAD, f"{self.directory}: a run writes checkpoints there") from error

    def __exit__(self, *_):
        os.close(self.folder)


def step_in(training, folder):
    step = training.get("step")
    require(isinstance(step, int) and step >= 0, BAD, f"{folder}: '{TRAINING_KEY}' has no step")
    return step


def from_torch(folder, directory):
    states = states_in(folder)
    training = read_json(f"{folder}: {TRAINING_KEY}", bytes_of(states.pop(TRAINING_KEY)))
    plan = bytes_of(states.pop(PLAN_KEY))
    out = directory / f"step-{step_in(training, folder):06}"
    require(not out.exists(), BAD, f"{out}: is there already")
    with Locked(directory):
        try:
            entries = write_checkpoint(out, training, plan, states)
        except OSError as error:
            raise Refusal(BAD, f"{out}: cannot be written: {error.strerror}") from error
    print(f"{len(entries)} states of step {training['step']} in {out}; next: sextant checkpoint check {out}")


def write_checkpoint(out, training, plan, states):
    """Under its name once it is whole."""
    parts, entries = shard_of(states)
    unfinished = out.with_name(out.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        written_file(unfinished / SHARD, parts)
        written_file(unfinished / PLAN, [plan])
        body = {"schema": "sextant.checkpoint", "version": VERSION, "training": training, "plan_checksum": checksum_of_text(plan), "states": entries}
        rest = (json.dumps(body, indent=1, ensure_ascii=False)[1:] + "\n").encode()
        written_file(unfinished / MANIFEST, [f'{{"checksum": "{checksum_of_text(rest)}",\n'.encode(), rest])
        sync_folder(unfinished)
        unfinished.rename(out)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync_folder(out.parent)
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    there = verbs.add_parser("to-torch")
    there.add_argument("checkpoint", type=pathlib.Path)
    there.add_argument("folder", type=pathlib.Path)
    there.add_argument("--unchecked", action="store_true")
    back = verbs.add_parser("from-torch")
    back.add_argument("folder", type=pathlib.Path)
    back.add_argument("checkpoints", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        if arguments.verb == "to-torch":
            to_torch(arguments.checkpoint, arguments.folder, not arguments.unchecked)
        else:
            from_torch(arguments.folder, arguments.checkpoints)
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return refusal.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
