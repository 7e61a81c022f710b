"""Memory of long texts: attention comes in blocks of query rows, and no block outlives its turn."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel

from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.metrics import LayerData, Metric, flow, sink, stochasticity
from conwalk.pipeline import analyze
from conwalk.pipeline.selection import panel
from held_memory import numbers_held

WIDTH = 32
_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _model(n_heads: int, n_tokens: int) -> nn.Module:
    torch.manual_seed(0)
    return LlamaModel(
        LlamaConfig(
            vocab_size=100,
            hidden_size=WIDTH,
            intermediate_size=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=n_heads,
            max_position_embeddings=n_tokens,
        )
    )


def _ids(n_tokens: int) -> list[list[int]]:
    drawn = torch.randint(3, 100, (1, n_tokens), generator=torch.Generator().manual_seed(1))
    return drawn.tolist()


@pytest.mark.parametrize(
    ("chosen", "tables"), [([sink.METRIC], 2), (panel(None), 4)], ids=["a view", "default panel"]
)
def test_a_few_blocks_are_held_at_a_time(
    chosen: list[Metric], tables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, n, rows = 8, 1024, 32
    monkeypatch.setattr("conwalk.pipeline.analysis.BLOCK_ROWS", rows)
    # Tables of n² numbers: the mask and what it is made of, the walk matrix, what is asked of it.
    bound = tables * n**2 + 3 * heads * rows * n + 10 * n * WIDTH
    assert bound < heads * n**2
    model, ids = _model(heads, n), _ids(n)
    assert numbers_held(lambda: analyze(model, ids, panel=chosen)) <= bound


def _resident(entry: str) -> int:
    line = next(s for s in _STATUS.read_text(encoding="ascii").splitlines() if s.startswith(entry))
    return int(line.split()[1]) << 10


def _grown(work: Callable[[], object]) -> int:
    """Bytes of resident memory at the peak of some work, beyond those before it."""
    _REFS.write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    work()
    return _resident("VmHWM") - before


def by_analysis(n_heads: int, n_tokens: int) -> int:
    """What an analysis adds to what a short one leaves."""
    model, chosen = _model(n_heads, n_tokens), [stochasticity.METRIC, sink.METRIC, flow.METRIC]
    analyze(model, _ids(8), panel=chosen)
    return _grown(lambda: analyze(model, _ids(n_tokens), panel=chosen))


def by_flow(n_tokens: int) -> int:
    """What the flow of a walk adds to its walk matrix."""
    matrix = torch.rand(n_tokens, n_tokens).tril_()
    matrix /= matrix.sum(-1, keepdim=True)
    transports = HeadTransports(torch.ones(1, 2, 1), torch.ones(1, 1, 2))
    walk = ConnectionWalk.from_transports(matrix[None], transports)
    data = LayerData(walk, torch.ones(n_tokens, 2), given=matrix)
    flow.METRIC.compute(data)
    return _grown(lambda: flow.METRIC.compute(data))


def _elsewhere(call: str) -> int:
    """The answer of a function of this file in a process of its own, on one thread.

    Blocks go to the heap, where what is freed is used again only if it lies side by side; glibc
    would sooner or later do that by itself.
    """
    code = f"import test_long_text_memory as t; t.torch.set_num_threads(1); print(t.{call})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 25)},
    )
    return int(done.stdout)


needs_peak = pytest.mark.skipif(
    not _REFS.exists(), reason="needs the peak of resident memory, as Linux has it"
)


@pytest.mark.slow
@needs_peak
def test_the_heap_does_not_grow_block_by_block() -> None:
    heads, n, rows = 16, 4096, 64
    table, block = 4 * n**2, 4 * heads * rows * n
    # The mask, the walk matrix and what is asked of it; a layer goes in 64 blocks.
    bound = 3 * table + 16 * block
    assert bound < n // rows * block / 2
    assert _elsewhere(f"by_analysis({heads}, {n})") <= bound


@needs_peak
def test_flow_never_holds_a_walk_matrix_in_double_precision() -> None:
    n = 4096
    assert _elsewhere(f"by_flow({n})") <= 6 * n**2
