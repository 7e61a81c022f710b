"""What a job is going to take in memory and time, told from a model's outline alone."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from conwalk.models.shards import WeightsOnly
from conwalk.models.sites import AttentionSite
from conwalk.pipeline.analysis import BLOCK_ABOVE

_CHARACTERS_A_TOKEN = 4.5
_SIZE = 512
_MEGABYTE = 2**20


@dataclass(frozen=True)
class Forecast:
    """What a job is expected to take; meant to hold within a factor of 2.

    Attributes:
        memory: peak resident memory of the process, bytes.
        seconds: of one core.
    """

    memory: float
    seconds: float

    def __str__(self) -> str:
        """Both in words."""
        gigabytes = self.memory / 2**30
        return f"expected: {gigabytes:.1f} GB of memory at its peak, {_time(self.seconds)}"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@dataclass(frozen=True)
class Work:
    """The texts of a job.

    Attributes:
        lengths: expected number of tokens of every text.
    """

    lengths: tuple[int, ...]

    @classmethod
    def of(cls, texts: Sequence[str], max_length: int | None) -> "Work":
        """Guess the tokens of texts from their characters; no tokenizer is loaded."""
        guessed = (max(1, round(len(t) / _CHARACTERS_A_TOKEN)) for t in texts)
        return cls(tuple(n if max_length is None else min(n, max_length) for n in guessed))


def verification(opened: WeightsOnly, work: Work, speed: float | None = None) -> Forecast:
    """Forecast :func:`conwalk.verify`.

    Args:
        opened: the model's outline.
        work: the texts.
        speed: floating point operations a second; measured if None.
    """
    speed = speed or machine_speed()
    weights = _parameters(opened) * opened.dtype.itemsize
    passes = 4 * _pass(opened, work) + _heads_alone(opened, work)
    return Forecast(
        memory=_here() + 1.2 * weights + 24 * _attention(opened, work) + 50 * _MEGABYTE,
        seconds=2 * _so_far() + weights / 0.5e9 + passes / speed + 0.1 * len(opened.sites),
    )


def analysis(opened: WeightsOnly, work: Work, speed: float | None = None) -> Forecast:
    """Forecast :func:`conwalk.analyze` with the metrics that run unasked.

    Args:
        opened: the model's outline.
        work: the texts.
        speed: floating point operations a second; measured if None.
    """
    speed = speed or machine_speed()
    weights = _parameters(opened) * opened.dtype.itemsize
    # the closed forms over all edges go by pairs of heads
    edges = sum(s.n_heads**2 * n**2 for s in opened.sites for n in work.lengths)
    edges *= 0.5 if _is_causal(opened) else 1.0
    flops = 3 * _pass(opened, work) + 8e3 * edges + sum(map(_layer_flops, opened.sites))
    return Forecast(
        memory=_here() + 2 * weights + 48 * _attention(opened, work) + 400 * _MEGABYTE,
        seconds=2 * _so_far() + weights / 0.5e9 + flops / speed + 0.1 * len(opened.sites),
    )


def weights_alone(
    opened: WeightsOnly, sites: Sequence[AttentionSite], speed: float | None = None
) -> Forecast:
    """Forecast :func:`conwalk.pipeline.analyze_weights`.

    Args:
        opened: the model's outline.
        sites: the layers that are asked for.
        speed: floating point operations a second; measured if None.
    """
    speed = speed or machine_speed()
    largest = max(_head_maps(s) for s in sites) * 4
    return Forecast(
        memory=_here() + 4 * largest + 20 * _MEGABYTE,
        seconds=_so_far() + sum(map(_layer_flops, sites)) / speed + 0.03 * len(sites),
    )


def machine_speed() -> float:
    """Floating point operations a second of this machine in one timed product: the best of five."""
    a = torch.ones(_SIZE, _SIZE)
    taken: list[float] = []
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(a, a)
        taken.append(time.perf_counter() - start)
    return 2 * _SIZE**3 / min(taken[1:])


def _parameters(opened: WeightsOnly) -> int:
    tied = bool(getattr(getattr(opened.model.module, "config", None), "tie_word_embeddings", False))
    named = opened.model.module.named_parameters()
    return sum(p.numel() for name, p in named if not (tied and name.startswith("lm_head")))


def _pass(opened: WeightsOnly, work: Work) -> float:
    """Operations of one forward pass over all texts."""
    products = 2.0 * _parameters(opened) * sum(work.lengths)
    scores = sum(4.0 * s.n_heads * s.value_width * n**2 for s in opened.sites for n in work.lengths)
    return products + scores


def _heads_alone(opened: WeightsOnly, work: Work) -> float:
    """Operations of every head run alone through the whole output projection."""
    tokens = sum(work.lengths)
    return sum(
        2.0 * s.n_heads * tokens * s.n_heads * s.value_width * s.width_out for s in opened.sites
    )


def _attention(opened: WeightsOnly, work: Work) -> float:
    """Bytes of the attention of one layer on the longest text that is not cut into blocks."""
    longest = min(max(work.lengths, default=0), BLOCK_ABOVE)
    return 4.0 * max(s.n_heads for s in opened.sites) * longest**2


def _head_maps(site: AttentionSite) -> int:
    value = site.n_kv_heads * site.width_in
    return (value + site.n_heads * site.width_out) * site.value_width


def _layer_flops(site: AttentionSite) -> float:
    """Operations of the metrics of the weights: factors, bases, and all pairs of subspaces."""
    k = site.value_width
    factors = 16.0 * _head_maps(site) * k
    pairs = 2.0 * site.n_heads * site.n_kv_heads * k**2 * site.width_in
    # factorisations of tall matrices run at a fraction of the speed of a product
    return 6 * factors + 3 * pairs


def _is_causal(opened: WeightsOnly) -> bool:
    name = type(opened.model.module).__name__
    return name.endswith(("CausalLM", "LMHeadModel"))


def _here() -> float:
    """Resident memory of this process, which has imported all that the job needs, bytes."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s*(\d+)", status.read_text()) if status.exists() else None
    return 1024.0 * int(found[1]) if found else 500.0 * _MEGABYTE


def _so_far() -> float:
    """Processor seconds of this process up to now: imports, and finding the layout once."""
    return time.process_time()
