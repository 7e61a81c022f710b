"""Every family comes out as the table says, and a broken rebuild of it is refused."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest
import transformers

from conformance import family_of, model_types
from conwalk.families import Family, as_markdown, load
from conwalk.families.table import as_json
from family_build import build
from tiny_models import FAMILIES

TABLE = load()
BUILT = [f for f in TABLE.families if f.outcome != "not built"]
EXACT = {f.name: f for f in TABLE.families if f.outcome == "exact"}
ROOT = Path(__file__).parents[1]
MADE_OF_IT = pytest.mark.skipif(
    transformers.__version__ != TABLE.transformers,
    reason=f"the table is that of transformers {TABLE.transformers}",
)


@pytest.fixture(autouse=True)
def _quiet_and_fast() -> Iterator[None]:
    """Families warn about their tiny configurations.

    Shapes are checked in all other tests; in hundreds of families that would take most of the time.
    """
    checked = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    transformers.logging.set_verbosity(before)
    jaxtyping.config.update("jaxtyping_disable", checked)


@MADE_OF_IT
@pytest.mark.parametrize("family", BUILT, ids=lambda f: f.name)
def test_a_family_comes_out_as_the_table_says(family: Family) -> None:
    assert family_of(family.name, build(family.name), family.inputs) == family


def test_a_rebuild_that_a_broken_reading_passes_is_not_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = EXACT["llama"]
    monkeypatch.setattr("conformance.variants", lambda site: {"nothing changed": site})
    found = family_of(family.name, build(family.name), family.inputs)
    assert found.outcome != "exact"
    assert found.reasons == ("a broken rebuild was not noticed: nothing changed",)


@MADE_OF_IT
def test_the_table_names_every_family_and_no_other() -> None:
    known = set(model_types())
    listed = {f.name for f in TABLE.families}
    assert listed <= known
    # what is missing has no model class of its own
    assert len(listed) >= len(known) - 40


NAMED = [
    "bart",
    "t5",
    "whisper",
    "gpt_oss",
    "deepseek_v3",
    "qwen3_next",
    "diffllama",
    "clip",
    "dinov2",
    "siglip",
    "mixtral",
    "granite",
    "cohere",
    "stablelm",
    "starcoder2",
    "olmo",
    "smollm3",
    "xglm",
    "xlm-roberta",
    "deberta",
    "roformer",
    "funnel",
    "megatron-bert",
    "esm",
    "albert",
]


def test_at_least_120_families_are_exact_and_these_among_them() -> None:
    assert len(EXACT) >= 120
    built = {row.model_type or name for name, row in FAMILIES.items()}
    assert [name for name in (*NAMED, *sorted(built)) if name not in EXACT] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gpt_oss", "leak"),
        ("deepseek_v3", "input-dependent map"),
        ("diffllama", "signed"),
        ("qwen3_next", "gated"),
        ("swin", "windows"),
    ],
)
def test_what_sets_a_family_apart_is_named(name: str, kind: str) -> None:
    assert kind in EXACT[name].kinds


def test_layers_without_attention_are_listed_and_numbers_stay_true() -> None:
    assert EXACT["qwen3_next"].sets == {"self": "3"}
    assert EXACT["qwen3_next"].without == "0-2"


def test_windows_are_told_layer_by_layer() -> None:
    assert EXACT["gemma3_text"].windows == {str(layer): 4 for layer in range(5)}
    assert EXACT["mistral"].windows == {"0": 4, "1": 4}
    assert EXACT["llama"].windows == {}


def test_both_towers_of_clip_have_sets_of_their_own() -> None:
    assert EXACT["clip"].sets == {"vision_model": "0-1", "text_model": "0-1"}


@pytest.mark.parametrize("name", ["longformer", "nystromformer"])
def test_a_family_that_cannot_be_read_is_refused_with_a_reason(name: str) -> None:
    (family,) = (f for f in TABLE.families if f.name == name)
    assert family.outcome == "refused"
    assert family.reasons


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
