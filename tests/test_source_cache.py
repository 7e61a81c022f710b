"""Folders of the cache appear whole or not at all, whoever else is writing."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conwalk.errors import OutputError
from conwalk.models import cache


def _fill(content: str) -> Callable[[Path], None]:
    def fill(draft: Path) -> None:
        (draft / "file").write_text(content)

    return fill


def test_stored(tmp_path: Path):
    cache.store(tmp_path / "a" / "b", _fill("x"))
    assert (tmp_path / "a" / "b" / "file").read_text() == "x"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b"]


def test_nothing_is_there_before_it_is_whole(tmp_path: Path):
    place = tmp_path / "a"
    seen = []

    def fill(draft: Path) -> None:
        _fill("x")(draft)
        seen.append(place.exists())

    cache.store(place, fill)
    assert seen == [False]


def test_the_first_to_finish_wins(tmp_path: Path):
    place = tmp_path / "a"

    def overtaken(draft: Path) -> None:
        cache.store(place, _fill("first"))
        _fill("second")(draft)

    cache.store(place, overtaken)
    assert (place / "file").read_text() == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_failure_leaves_nothing(tmp_path: Path):
    def fail(draft: Path) -> None:
        _fill("half")(draft)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.store(tmp_path / "a", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_place_taken_by_a_file(tmp_path: Path):
    (tmp_path / "a").touch()
    with pytest.raises(OutputError, match="set CONWALK_CACHE or pass cache_dir="):
        cache.store(tmp_path / "a", _fill("x"))
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_drafts_of_the_killed_are_removed_after_a_day(tmp_path: Path):
    old, new = tmp_path / ".draft-old", tmp_path / ".draft-new"
    for draft in (old, new):
        draft.mkdir()
    yesterday = time.time() - 2 * 24 * 3600
    os.utime(old, (yesterday, yesterday))
    cache.store(tmp_path / "a", _fill("x"))
    assert sorted(p.name for p in tmp_path.iterdir()) == [".draft-new", "a"]


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("CONWALK_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.root() == tmp_path / ".cache" / "conwalk"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache.root() == Path("/xdg/conwalk")
    monkeypatch.setenv("CONWALK_CACHE", "~/chosen")
    assert cache.root() == tmp_path / "chosen"
    assert cache.root("/given") == Path("/given")
