"""A checkpoint goes to torch.distributed.checkpoint and comes back with the same bits, also when two of torch's ranks have loaded
and saved parts of it in between.

usage: torch_checkpoint_test.py --sextant PROGRAM

Skipped where Python has no torch.
"""

import os
import pathlib
import socket
import subprocess
import sys
import warnings

from checkpoint_test import JOB, bytes_below, with_text
from habits_test import TINY, expect, run_checks

try:
    import torch
    import torch.distributed.checkpoint as torch_checkpoint
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "torch_checkpoint.py"


def convert(folder, *arguments):
    return subprocess.run([sys.executable, "-W", "ignore", TOOL, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def expect_converted(folder, *arguments):
    result = convert(folder, *arguments)
    expect(result.returncode == 0, f"{arguments}: {result.returncode} {result.stdout} {result.stderr}")


def load_and_save(source, target):
    """As a rank of two: matrices are split between them, the rest both have."""
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,))
    metadata = torch_checkpoint.FileSystemReader(source).read_metadata()
    states = {}
    for key, entry in metadata.state_dict_metadata.items():
        assert isinstance(entry, TensorStorageMetadata)
        tensor = torch.zeros(entry.size, dtype=entry.properties.dtype)
        states[key] = distribute_tensor(tensor, mesh, [Shard(0)]) if tensor.dim() == 2 else tensor
    torch_checkpoint.load(states, checkpoint_id=source)
    torch_checkpoint.save(states, checkpoint_id=target)
    torch.distributed.destroy_process_group()


def in_two_ranks(folder, source, target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--rank", source, target], cwd=folder,
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
    for rank in ranks:
        said, _ = rank.communicate(timeout=240)
        expect(rank.returncode == 0, f"torch's rank: {said}")


def check_there_and_back(program):
    with_text(program)
    # Shards of four ranks; counters beside numbers.
    program.run("run", TINY, *JOB, "--checkpoint", "c", "--checkpoint-every", "2", "--steps", "4").expect_code(0)
    expect_converted(program.folder, "to-torch", "c/step-000002", "torch")
    expect_converted(program.folder, "from-torch", "torch", "back")
    in_two_ranks(program.folder, "torch", "torch2")
    expect_converted(program.folder, "from-torch", "torch2", "back2")
    expect(bytes_below(program.folder / "back") == bytes_below(program.folder / "back2"), "two ranks of torch have changed something")
    program.run("checkpoint", "check", "back2").expect_code(0)
    for name in ("back", "back2"):
        program.run("run", TINY, *JOB, "--resume", name, "--checkpoint", f"{name} on", "--steps", "4").expect_code(0)
        expect(bytes_below(program.folder / "c" / "step-000004") == bytes_below(program.folder / f"{name} on" / "step-000004"),
               f"{name}: training does not go on as without the way through torch")


def check_refusals(program):
    with_text(program)
    program.run("run", TINY, *JOB, "--checkpoint", "c", "--steps", "1").expect_code(0)
    shard = program.folder / "c" / "step-000001" / "rank-00001.safetensors"
    whole = shard.read_bytes()
    for damaged, code, part in ((whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:], 8, "is damaged"), (whole[:-3], 8, "is cut off"),
                                (whole[:8] + b"[" + whole[9:], 8, "is no JSON")):
        shard.write_bytes(damaged)
        result = convert(program.folder, "to-torch", "c/step-000001", "torch")
        expect(result.returncode == code and part in result.stderr and "rank-00001" in result.stderr, f"{part}: {result.returncode} {result.stderr}")
    shard.unlink()
    expect("rank-00001.safetensors: No such file" in convert(program.folder, "to-torch", "c/step-000001", "torch").stderr, "a missing shard is not named")
    expect(not (program.folder / "torch").exists(), "damage was converted")
    states = {"weight": torch.zeros(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch_checkpoint.save(states, storage_writer=torch_checkpoint.FileSystemWriter(program.folder / "other"), no_dist=True)
    for folder, part in (("other", "has no 'sextant.training'"), ("c", "is no folder of torch")):
        result = convert(program.folder, "from-torch", folder, "back")
        expect(result.returncode == 3 and part in result.stderr, f"{folder}: {result.returncode} {result.stderr}")


if __name__ == "__main__":
    if "--rank" in sys.argv:
        load_and_save(*sys.argv[2:])
    else:
        sys.exit(run_checks(check_there_and_back, check_refusals))
