"""Two processes that analyse at once share the cache, and a killed one leaves no harm in it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conwalk.models import load
from conwalk.results import weights_cache
from tiny_sources import save_gguf, tiny_llama

ANALYSE = """
import hashlib, sys
from conwalk import analyze, load
found = analyze(load(sys.argv[1]), [[5, 6, 7, 8]])
digest = hashlib.sha256()
for name in sorted(found.data_vars):
    digest.update(name.encode() + found[name].values.tobytes())
print(digest.hexdigest())
"""
KILLED_WHILE_CONVERTING = """
import os, signal, sys
from safetensors import torch as files
import transformers
whole = transformers.PreTrainedModel.save_pretrained
def cut_short(self, place, **kwargs):
    whole(self, place, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
transformers.PreTrainedModel.save_pretrained = cut_short
from conwalk import load
load(sys.argv[1])
"""
KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
import numpy as np
from conwalk.results.weights_cache import Key, save
save(Path(sys.argv[1]), Key("sha256:abc", "0", "isometry"), {"rho": np.ones(3)})
"""


def start(script: str, argument: Path, cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "CONWALK_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", script, str(argument)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "model.gguf"
    save_gguf(file, tiny_llama())
    return file


def kept_files(cache: Path) -> list[Path]:
    return sorted((cache / "weights").rglob("*.cache"))


@pytest.mark.slow
def test_two_processes_on_an_empty_cache(gguf: Path, tmp_path: Path) -> None:
    both = [start(ANALYSE, gguf, tmp_path) for _ in range(2)]
    said = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1]
    (copy,) = (tmp_path / "gguf").iterdir()
    assert (copy / "conwalk.json").is_file()
    kept = kept_files(tmp_path)
    assert len(kept) == 2
    for file in kept:
        stored = file.read_bytes()
        assert weights_cache.hashlib.sha256(stored[32:]).digest() == stored[:32]
    assert not list(tmp_path.rglob("*draft*"))
    written = {file: file.stat().st_mtime_ns for file in (*kept, *copy.iterdir())}
    third = start(ANALYSE, gguf, tmp_path)
    assert third.communicate(timeout=240)[0] == said[0]
    assert {file: file.stat().st_mtime_ns for file in written} == written


@pytest.mark.slow
def test_a_copy_that_was_not_finished_is_not_used(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = start(KILLED_WHILE_CONVERTING, gguf, tmp_path)
    killed.communicate(timeout=240)
    assert killed.returncode == -signal.SIGKILL
    (draft,) = (tmp_path / "gguf").iterdir()
    assert draft.name.startswith(".draft-")
    assert (draft / "model.safetensors").is_file()
    model = load(gguf, cache_dir=tmp_path)
    assert not any(p.is_meta for p in model.module.parameters())
    assert sorted(p.name.startswith(".draft-") for p in (tmp_path / "gguf").iterdir()) == [
        False,
        True,
    ]


def test_numbers_that_were_not_finished_are_not_used(tmp_path: Path) -> None:
    killed = start(KILLED_WHILE_WRITING, tmp_path, tmp_path)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    (draft,) = (p for p in tmp_path.rglob("*") if p.is_file())
    assert draft.suffix == ".draft"
    assert weights_cache.load(tmp_path, weights_cache.Key("sha256:abc", "0", "isometry")) is None
