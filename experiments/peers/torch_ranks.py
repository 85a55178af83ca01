"""Processes of `python3 -m torch.distributed.run`, one a device, for the programs of this folder that time PyTorch: who
this process is, collectives that gradients pass and that `torch.compile` takes, and the loss of classes that ranks share.

Without that launcher there is one rank, and every collective is the identity.
"""

import os
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional_collectives
from torch import nn
from torch.nn import functional

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def device_of(kind):
    """The device "cpu" or "cuda" of this process, which joins the others."""
    device = torch.device("cpu")
    if kind == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    if RANKS > 1:
        if kind == "cuda":
            dist.init_process_group("nccl", device_id=device)
        else:
            dist.init_process_group("gloo")
    return device


def leave():
    if RANKS > 1:
        dist.destroy_process_group()


def say(text):
    """Of the first rank alone."""
    if RANK == 0:
        print(text, flush=True)


def wait_for(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def meet(device):
    """All ranks are here and their devices have nothing left to do."""
    wait_for(device)
    if RANKS > 1:
        dist.barrier()
        wait_for(device)


def reduced(values, how):
    """values: a list of numbers or tensors, alike on all ranks; how: "mean" or "max" over the ranks."""
    tensor = torch.stack([torch.as_tensor(value, dtype=torch.float64).cpu() for value in values])
    if RANKS > 1:
        place = "cuda" if dist.get_backend() == "nccl" else "cpu"
        tensor = tensor.to(place)
        dist.all_reduce(tensor, dist.ReduceOp.MAX if how == "max" else dist.ReduceOp.SUM)
        if how == "mean":
            tensor /= RANKS
    return tensor.tolist()


def seconds_of(step, count, device):
    """Of each of `count` steps, the slowest rank's."""
    taken = []
    for _ in range(count):
        meet(device)
        begin = time.perf_counter()
        step()
        wait_for(device)
        taken.append(time.perf_counter() - begin)
    return reduced(taken, "max")


def replicated(model, device):
    """The model under data parallelism, gradients as views of buckets."""
    places = {"device_ids": [device.index]} if device.type == "cuda" else {}
    return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, **places)


def sum_of(tensor, how="sum"):
    if RANKS == 1:
        return tensor
    return functional_collectives.wait_tensor(functional_collectives.all_reduce(tensor, how, dist.group.WORLD.group_name))


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(_, tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def backward(_, gradient):
        return sum_of(gradient.contiguous())


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(_, tensor):
        return sum_of(tensor.contiguous())

    @staticmethod
    def backward(_, gradient):
        return gradient.view_as(gradient)


def enter_split(tensor):
    """A full copy in front of products whose columns ranks share: its gradient is the sum over the ranks."""
    return _Enter.apply(tensor) if RANKS > 1 else tensor


def leave_split(tensor):
    """A sum that is pending over the ranks, summed."""
    return _Leave.apply(tensor) if RANKS > 1 else tensor


def share(shape):
    """A parameter of which every rank draws other numbers; what is drawn behind it is again alike on all ranks."""
    weight = torch.nn.Parameter(torch.empty(shape))
    weight.is_share = True
    seed = int(torch.randint(2**31, (), device="cpu")) * RANKS + RANK
    torch.nn.init.normal_(weight, 0, 0.02, generator=torch.Generator(weight.device).manual_seed(seed))
    return weight


class SplitLinear(torch.nn.Module):
    """A linear layer of which this rank has columns ("columns": a share of the outputs) or rows (a share of the
    inputs; what it returns is summed, and the bias, which all have, is added once)."""

    def __init__(self, inputs, outputs, bias, cut):
        super().__init__()
        self.rows = cut == "rows"
        shape = (outputs, inputs // RANKS) if self.rows else (outputs // RANKS, inputs)
        self.weight = share(shape)
        self.bias = torch.nn.Parameter(torch.zeros(shape[0])) if bias else None

    def forward(self, x):
        if not self.rows:
            return functional.linear(enter_split(x), self.weight, self.bias)
        y = leave_split(functional.linear(x, self.weight))
        return y if self.bias is None else y + self.bias.to(y.dtype)


class SplitEmbedding(torch.nn.Module):
    """A table of which this rank has a share of the rows."""

    def __init__(self, rows, width):
        super().__init__()
        self.own = rows // RANKS
        self.weight = share((self.own, width))

    def forward(self, ids):
        local = ids - RANK * self.own
        missing = (local < 0) | (local >= self.own)
        rows = functional.embedding(local.masked_fill(missing, 0), self.weight)
        if torch.is_autocast_enabled(rows.device.type):  # one rank alone has each row: the sum rounds nothing more
            rows = rows.to(torch.get_autocast_dtype(rows.device.type))
        return leave_split(rows.masked_fill(missing[..., None], 0))


class _SplitCrossEntropy(torch.autograd.Function):
    """Forward keeps this rank's logits as they came and the logarithm of all ranks' sum, from which backward makes the gradient."""

    @staticmethod
    def forward(context, logits, labels):
        wide = logits.float()
        largest = sum_of(wide.amax(dim=-1), "max")
        total = sum_of((wide - largest[:, None]).exp().sum(dim=-1))
        local = labels - RANK * logits.shape[-1]
        present = (local >= 0) & (local < logits.shape[-1])
        local = torch.where(present, local, 0)
        own = wide.gather(-1, local[:, None]).squeeze(-1)
        label_logit = sum_of(torch.where(present, own, 0.0))
        context.save_for_backward(logits, largest + total.log(), local, present)
        return (largest + total.log() - label_logit).mean()

    @staticmethod
    def backward(context, gradient):
        logits, log_total, local, present = context.saved_tensors
        scale = gradient / logits.shape[0]
        own = torch.arange(logits.shape[-1], device=logits.device) == local[:, None]
        result = ((logits.float() - log_total[:, None]).exp() - (own & present[:, None]).float()) * scale
        return result.to(logits.dtype), None


def split_cross_entropy(logits, labels):
    """Mean loss of labels [n] with logits [n, classes / ranks], of which rank r has classes from r x classes / ranks on."""
    if RANKS == 1:
        return functional.cross_entropy(logits, labels)
    return _SplitCrossEntropy.apply(logits, labels)
