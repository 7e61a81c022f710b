"""Every family comes out as the table says, and a broken rebuild of it is refused."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

from broken_sites import variants
from conformance import family_of, model_types
from conwalk.capture import CapturedLayer
from conwalk.capture.watching import watch
from conwalk.families import Family, as_markdown, load
from conwalk.families.table import as_json
from conwalk.models import inference
from conwalk.theorems import reconstruction
from family_build import build
from family_inputs import inputs_of

TABLE = load()
BUILT = [f for f in TABLE.families if f.outcome != "not built"]
EXACT = {f.name: f for f in TABLE.families if f.outcome == "exact"}
ROOT = Path(__file__).parents[1]
MADE_OF_IT = pytest.mark.skipif(
    transformers.__version__ != TABLE.transformers,
    reason=f"the table is that of transformers {TABLE.transformers}",
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Families warn about their tiny configurations."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    transformers.logging.set_verbosity(before)


@MADE_OF_IT
@pytest.mark.parametrize("family", BUILT, ids=lambda f: f.name)
def test_a_family_comes_out_as_the_table_says(family: Family) -> None:
    model: Any = build(family.name)
    assert family_of(family.name, model, family.inputs) == family
    if family.kinds or family.outcome in ("exact", "partly exact"):
        _refuses_every_break(model, inputs_of(model, family.inputs))


def _refuses_every_break(model: Any, inputs: dict[str, Any]) -> None:
    """The gate, given each broken reading of each site, must not let it pass."""
    watched = watch(model, inputs)
    limit = reconstruction.bound(inference.dtype_of(model))
    broken = [(name, v) for s in watched.sites for name, v in variants(s).items()]
    for name in {name for name, _ in broken}:
        sites = tuple(v for n, v in broken if n == name)
        caught: dict[str, float] = {}

        def rebuild(layer: CapturedLayer, caught: dict[str, float] = caught) -> None:
            found = reconstruction.residual(layer.walk(layer.value_input), layer.output)
            caught[layer.site.name] = max(found, caught.get(layer.site.name, 0.0))

        watched.stream(inputs, rebuild, sites)
        passed = [place for place, residual in caught.items() if residual <= limit]
        assert not passed, f"{name} passed at {passed[0]}"


@MADE_OF_IT
def test_the_table_names_every_family_and_no_other() -> None:
    known = set(model_types())
    listed = {f.name for f in TABLE.families}
    assert listed <= known
    # what is missing has no model class of its own
    assert len(listed) >= len(known) - 40


NAMED = (
    "bart t5 whisper gpt_oss deepseek_v3 qwen3_next clip dinov2 siglip mixtral granite cohere "
    "stablelm starcoder2 olmo smollm3 xglm xlm-roberta deberta roformer funnel megatron-bert esm "
    "albert gpt2 bert roberta distilbert electra modernbert opt gpt_neo gptj gpt_neox bloom falcon "
    "mpt phi llama mistral qwen2 qwen3 gemma gemma2 gemma3_text olmo2 vit mpnet deberta-v2"
).split()


def test_at_least_120_families_are_exact_and_these_among_them() -> None:
    assert len(EXACT) >= 120
    assert [name for name in NAMED if name not in EXACT] == []


@pytest.mark.parametrize("name", ["bart", "t5", "whisper"])
def test_encoder_decoders_have_three_named_sets(name: str) -> None:
    family = EXACT[name]
    assert set(family.sets) == {"encoder", "decoder", "cross"}
    assert "cross" in family.kinds


def test_the_page_of_the_documentation_is_the_table() -> None:
    page = (ROOT / "docs/FAMILIES.md").read_text(encoding="utf-8")
    assert page == as_markdown(TABLE)


def test_the_data_file_is_what_writing_the_table_gives() -> None:
    file = ROOT / "src/conwalk/families/families.json"
    assert file.read_text(encoding="utf-8") == as_json(TABLE)


def test_a_changed_outcome_changes_the_page() -> None:
    changed = replace(TABLE.families[0], reasons=("another",))
    assert as_markdown(replace(TABLE, families=(changed, *TABLE.families[1:]))) != as_markdown(
        TABLE
    )
