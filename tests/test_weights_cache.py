"""The cache of what depends on the weights alone can save time, and do nothing else."""

import io
from pathlib import Path

import numpy as np
import pytest

from conwalk.results import weights_cache
from conwalk.results.weights_cache import Key, load, remembered, save

KEY = Key("sha256:abc", "encoder.3", "isometry", "heads=0,2 dtype=float32")
ARRAYS = {"rho": np.array([0.25, np.nan, 1.0]), "file": np.array(3.5), "key": np.zeros((2, 0))}


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return ARRAYS


def files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file()]


def assert_same(found: object) -> None:
    assert isinstance(found, dict)
    assert found.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(found[name], values, strict=True)


def test_what_was_computed_once_is_not_computed_again(tmp_path: Path) -> None:
    compute = Counted()
    for _ in range(3):
        assert_same(remembered(tmp_path, KEY, compute))
    assert compute.calls == 1


@pytest.mark.parametrize(
    "other",
    [
        Key("sha256:abd", "encoder.3", "isometry", KEY.variant),
        Key("sha256:abc", "decoder.3", "isometry", KEY.variant),
        Key("sha256:abc", "encoder.3", "composition", KEY.variant),
        Key("sha256:abc", "encoder.3", "isometry"),
    ],
)
def test_every_part_of_the_key_counts(tmp_path: Path, other: Key) -> None:
    save(tmp_path, KEY, ARRAYS)
    assert load(tmp_path, other) is None


def test_numbers_of_other_code_are_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, KEY, ARRAYS)
    monkeypatch.setattr(weights_cache, "_code", lambda: "0.0.0 other")
    assert load(tmp_path, KEY) is None


def test_without_a_fingerprint_nothing_is_kept(tmp_path: Path) -> None:
    compute = Counted()
    nameless = Key("", "3", "isometry")
    for _ in range(2):
        assert_same(remembered(tmp_path, nameless, compute))
    assert compute.calls == 2
    assert not files(tmp_path)


def test_a_file_damaged_anywhere_is_computed_anew_and_mended(tmp_path: Path) -> None:
    save(tmp_path, KEY, ARRAYS)
    (place,) = files(tmp_path)
    whole = place.read_bytes()
    flipped = [
        whole[:i] + bytes([whole[i] ^ 0x55]) + whole[i + 1 :]
        for i in range(0, len(whole), max(1, len(whole) // 40))
    ]
    cut = [whole[:n] for n in (0, 1, 31, 32, 33, len(whole) // 2, len(whole) - 1)]
    for damaged in (*flipped, *cut, whole + b"x", b"not an archive" * 9):
        place.write_bytes(damaged)
        compute = Counted()
        assert_same(remembered(tmp_path, KEY, compute))
        assert compute.calls == 1
        assert place.read_bytes()[:32] == whole[:32]
        assert_same(load(tmp_path, KEY))


def test_a_write_that_breaks_off_leaves_the_old_numbers_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, KEY, ARRAYS)

    def no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    class Full:
        def __init__(self, path: Path) -> None:
            self.name = str(path)
            path.touch()
            self.write = no_space

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            return None

    with monkeypatch.context() as patch:
        patch.setattr(
            weights_cache.tempfile,
            "NamedTemporaryFile",
            lambda dir, **_: Full(Path(dir) / "half.draft"),
        )
        save(tmp_path, KEY, {"rho": np.zeros(3)})
    assert len(files(tmp_path)) == 1
    assert_same(load(tmp_path, KEY))


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    compute = Counted()
    assert_same(remembered(blocked, KEY, compute))
    assert compute.calls == 1


def test_the_archive_says_what_it_is(tmp_path: Path) -> None:
    save(tmp_path, KEY, ARRAYS)
    (place,) = files(tmp_path)
    with np.load(io.BytesIO(place.read_bytes()[32:]), allow_pickle=False) as archive:
        assert str(archive["key"]) == KEY.text()
