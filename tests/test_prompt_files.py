"""Prompts from files and flags: names, order, and one line for what cannot be used."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conwalk.cli import texts
from conwalk.cli.texts import Named, gather
from conwalk.errors import TextError
from conwalk.results import read
from test_command_line import Run, assert_refused, run  # noqa: F401
from tiny_media import picture, save_vit, save_whisper, tone, write_wav
from tiny_models import make_tiny
from tiny_sources import save_folder


def lines(tmp_path: Path, *entries: Any) -> str:
    """A file of one JSON a line; texts go in as they are."""
    file = tmp_path / "many.jsonl"
    written = [e if isinstance(e, str) else json.dumps(e, ensure_ascii=False) for e in entries]
    file.write_text("\n".join(written) + "\n", encoding="utf-8")
    return str(file)


def pairs(found: list[Named]) -> list[tuple[str, Any]]:
    return [(one.name, one.prompt) for one in found]


def test_ids_names_pairs_and_order_of_jsonl_are_kept(tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        {"text": "b", "id": "z", "source": "a book"},
        {"ids": [1, 2], "id": 7},
        '"a text"',
        {"text": "b", "pair": "c", "id": None},
    )
    assert pairs(gather([file], None)) == [
        ("z", {"text": "b"}),
        ("7", {"ids": [1, 2]}),
        (f"{file}:3", "a text"),
        (f"{file}:4", {"text": "b", "pair": "c"}),
    ]


@pytest.mark.parametrize("between", ["\u2028", "\x85", "\x0b", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, between: str) -> None:
    file = lines(tmp_path, json.dumps(f"a{between}b", ensure_ascii=between == "\r"), {"text": "c"})
    assert [one.prompt for one in gather([file], None)] == [f"a{between}b", {"text": "c"}]


def test_a_mark_before_the_text_and_windows_lines_are_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone two")
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n{"text": "two"}\r\n')
    assert pairs(gather([str(tmp_path / "a.txt")], None)) == [("a.txt", "one two")]
    found = gather([str(tmp_path / "a.jsonl")], None)
    assert [one.prompt for one in found] == [{"text": "one"}, {"text": "two"}]


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    files = [tmp_path / folder / "x.txt" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text("one")
    other = tmp_path / "y.txt"
    other.write_text("two")
    names = [one.name for one in gather([*map(str, files), str(other)], None)]
    assert names == [*map(str, files), "y.txt"]
    with pytest.raises(TextError, match=r"two prompts are called 'y.txt': --text .* and --text"):
        gather([str(other), str(other)], None)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{", "line 2 is not JSON"),
        ({"txt": "b"}, 'line 2: give {"text": "…"}, {"ids": [1, 2]} or a string'),
        ([1, 2], 'line 2: give {"text": "…"}'),
        ({"text": 5}, "line 2: its text is no text"),
        ({"text": "b", "pair": 5}, "line 2: its pair is no text"),
        ({"ids": "12"}, "line 2: its ids are no list of whole numbers"),
        ({"ids": [1, 2.5]}, "line 2: its ids are no list of whole numbers"),
        ({"ids": [True]}, "line 2: its ids are no list of whole numbers"),
        ({"ids": [1], "text": "b"}, "line 2 has both a text and ids"),
        ({"pair": "b"}, "line 2 has a pair and no text that it goes with"),
        ({"ids": [1], "pair": "b"}, "line 2 has both a text and ids"),
        ({"text": "b", "id": [1]}, "line 2: its id is neither a text nor a whole number"),
        ({"text": "b", "id": "first"}, "many.jsonl, line 1 and"),
        ("[" * 100000, "line 2 is not JSON"),
    ],
)
def test_a_line_that_is_no_prompt_is_named_by_its_number(
    run: Run,  # noqa: F811
    tmp_path: Path,
    entry: Any,
    message: str,
) -> None:
    file = lines(tmp_path, {"text": "b", "id": "first"}, entry, {"text": "b"})
    assert_refused(run("analyze", "nowhere", "--text", file, "--dry-run"), message)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--text", "none.txt"], "cannot read text file none.txt: No such file"),
        (["--image", "none.png"], "cannot read image file none.png: No such file"),
        (["--audio", "none.wav"], "cannot read audio file none.wav: no such file"),
        (["--image", "a.png", "--text", "b.txt"], "--text cannot be given here"),
        (["--image", "a.png", "--audio", "b.wav"], "--audio with --image cannot be given here"),
        (
            ["--image", "a", "--image", "b", "--image", "c", "--prompt", "x", "--prompt", "y"],
            "2 --prompt for 3 --image: give one for all, or one for each",
        ),
    ],
)
def test_flags_that_cannot_be_used_exit_2(
    run: Run,  # noqa: F811
    flags: list[str],
    message: str,
) -> None:
    assert_refused(run("analyze", "nowhere", *flags, "--dry-run"), message)


def test_text_that_is_not_utf_8_exits_2(run: Run, tmp_path: Path, monkeypatch: Any) -> None:  # noqa: F811
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    refused = run("analyze", "nowhere", "--text", str(tmp_path / "a.txt"), "--dry-run")
    assert_refused(refused, "is not UTF-8 text")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8"))
    with pytest.raises(TextError, match="text file - is not UTF-8 text"):
        texts.gather(["-"], None)


def test_names_come_through_to_the_dataset(run: Run, tmp_path: Path) -> None:  # noqa: F811
    model = str(save_folder(tmp_path / "model", make_tiny("bert")))
    file = lines(tmp_path, {"text": "w1 w2", "id": "b"}, {"ids": [5, 6, 7], "id": "a"}, "")
    found = run("analyze", model, "--text", file, "--batch-size", "2", "--out", str(tmp_path / "r"))
    assert found.code == 0
    assert f"refused:text{file}:3:itisempty" in "".join(found.out.split())
    dataset = read(tmp_path / "r")
    assert list(dataset.prompt.values) == ["b", "a"]
    assert list(dataset.token_text.values[1]) == ["w1", "w2", "w3"]
    assert json.loads(dataset.attrs["texts"]) == ["w1 w2", None]


def test_special_tokens_left_out_are_said(run: Run, tmp_path: Path) -> None:  # noqa: F811
    model = str(save_folder(tmp_path / "model", make_tiny("bert")))
    asked = ("--prompt", "w1 </s> w2", "--exclude-special", "--out", str(tmp_path / "r"))
    found = run("analyze", model, *asked)
    assert found.code == 0
    share = float(read(tmp_path / "r").special_share.mean())
    line = f"special tokens excluded, rows renormalised: {share:.0%} of attention was theirs"
    assert line in found.out.splitlines()
    assert share > 0.05


def test_an_image_and_sound_from_the_command_line(run: Run, tmp_path: Path) -> None:  # noqa: F811
    picture().save(tmp_path / "a.png")
    write_wav(tmp_path / "a.wav", tone(0.25, 8000), 8000)
    vit, whisper = str(save_vit(tmp_path / "v")), str(save_whisper(tmp_path / "w"))
    seen = run("analyze", vit, "--image", str(tmp_path / "a.png"), "--out", str(tmp_path / "i"))
    assert seen.code == 0
    assert list(read(tmp_path / "i").token_text.values[0, :2]) == ["CLS", "patch 0,0"]
    audio = ("--audio", str(tmp_path / "a.wav"), "--prompt", "w1")
    heard = run("analyze", whisper, *audio, "--out", str(tmp_path / "a"))
    assert heard.code == 0
    assert "note: prompt a.wav: resampled from 8000 to 16000 Hz" in heard.err
    found = read(tmp_path / "a")
    assert list(found.prompt.values) == ["a.wav"]
    assert list(found.token_text_target.values[0, :2]) == ["<s>", "w1"]
    assert run("verify", whisper, *audio).code == 0
    assert_refused(run("verify", vit, *audio), "ViTModel reads no audio")
