"""Results on disk and as tables."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from conwalk.errors import OutputError
from conwalk.results import Variable, assemble, layer_records, layer_table, read, refused, save


@pytest.fixture
def found() -> xr.Dataset:
    depth = np.arange(2.0)
    return assemble(
        {
            "residual": Variable(
                ("prompt", "layer"), np.array([[1e-7, 3e-7], [2e-7, np.nan]]),
                {"over_prompts": "worst", "range": (0.0, None)},
            ),
            "entropy": Variable(
                ("prompt", "layer", "head"), np.stack([np.stack([depth, depth + 3])] * 2)
            ),
            "rho": Variable(("layer", "head"), np.array([[0.1, 0.3], [0.5, 0.9]])),
        },
        layers={"layer": [4, 7], "stack": ["self", "self"]},
        prompts=["ein „Text“ <b>", "שלום 🙂"],
        tokens=[["a", "b"], ["c"]],
        refused=[{"name": "text 3", "reason": "it is empty"}],
        provenance={"model": "tiny", "seed": 3, "notes": ["one", "two"]},
    )  # fmt: skip


def test_what_was_saved_is_what_is_read(found: xr.Dataset, tmp_path: Path) -> None:
    save(found, tmp_path / "new" / "folder")
    back = read(tmp_path / "new" / "folder")
    xr.testing.assert_identical(found, back.astype(found.dtypes))
    assert refused(back) == [{"name": "text 3", "reason": "it is empty"}]
    assert list(back.prompt.values) == ["ein „Text“ <b>", "שלום 🙂"]


def test_saving_again_replaces_and_leaves_no_scraps(found: xr.Dataset, tmp_path: Path) -> None:
    save(found, tmp_path)
    save(found.assign_attrs(seed=4), tmp_path)
    assert read(tmp_path).attrs["seed"] == 4
    assert [p.name for p in tmp_path.iterdir()] == ["results.zarr"]


def test_a_folder_of_somebody_elses_is_never_replaced(found: xr.Dataset, tmp_path: Path) -> None:
    theirs = tmp_path / "results.zarr"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(OutputError, match="is not a result of conwalk: move it away"):
        save(found, tmp_path)
    assert (theirs / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_a_place_that_cannot_be_written_is_named(found: xr.Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match=r"cannot write to .*file/out: .*choose another --out"):
        save(found, tmp_path / "file" / "out")


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_reading_what_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="holds no conwalk results"):
        read(tmp_path / name)


def test_the_layer_table_takes_the_worst_the_mean_and_the_median(found: xr.Dataset) -> None:
    table = layer_table(found)
    assert list(table.index) == [4, 7]
    assert table.residual.tolist() == [2e-7, 3e-7]
    assert table.rho.tolist() == [0.2, 0.7]
    assert table.entropy.tolist() == [0.5, 3.5]
    assert layer_records(found)[1]["layer"] == 7
