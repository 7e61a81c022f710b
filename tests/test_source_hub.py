"""The Hub: its cache when offline, quick and clear answers when it is out of reach."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tiny_sources
from conwalk import models
from conwalk.errors import SourceError
from conwalk.models import hub

REPO = "organisation/tiny"


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def _put_in_cache(hub_cache: Path) -> Path:
    commit = "0123456789" * 4
    storage = hub_cache / "models--organisation--tiny"
    (storage / "refs").mkdir(parents=True)
    (storage / "refs" / "main").write_text(commit)
    return tiny_sources.save_folder(storage / "snapshots" / commit)


def _unreachable() -> str:
    return "https://hub: no route to host"


def test_cached_models_load_offline(hub_cache: Path):
    _put_in_cache(hub_cache)
    model = models.load(REPO, offline=True)
    assert (model.kind, model.source, model.notes) == ("hub", REPO, ())
    assert model.tokenizer("w0")["input_ids"] == [4]


def test_the_environment_variable_is_respected(hub_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hub, "_out_of_reach", lambda: pytest.fail("asked the network"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    _put_in_cache(hub_cache)
    assert models.load(REPO).kind == "hub"


def test_the_cached_copy_serves_when_the_hub_is_out_of_reach(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hub, "_out_of_reach", _unreachable)
    _put_in_cache(hub_cache)
    assert models.load(REPO, offline=False).notes == (
        "the Hub is out of reach (https://hub: no route to host): the cached copy is used",
    )


@pytest.mark.parametrize("name", [REPO, "gpt2-of-nobody"])
def test_offline_and_not_cached(name: str, hub_cache: Path):
    with pytest.raises(SourceError) as caught:
        models.load(name, offline=True)
    assert str(caught.value) == (
        f"{name}: offline mode is on (HF_HUB_OFFLINE or offline=True) and the model is not in the "
        f"local Hub cache ({hub_cache}), nor is there a folder of that name; connect once to "
        "download it, or give a local folder, a .gguf file or pkg:package/path"
    )


def test_out_of_reach_and_not_cached(hub_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hub, "_out_of_reach", _unreachable)
    with pytest.raises(SourceError, match=r"^organisation/tiny: the Hub is out of reach \(https:"):
        models.load(REPO, offline=False)


def test_an_incomplete_cache_names_what_lacks(hub_cache: Path):
    (_put_in_cache(hub_cache) / "model.safetensors").unlink()
    with pytest.raises(SourceError, match="has no weights"):
        models.load(REPO, offline=True)


def test_a_revision_that_is_not_cached(hub_cache: Path):
    _put_in_cache(hub_cache)
    with pytest.raises(SourceError, match="not in the local Hub cache"):
        models.load(REPO, offline=True, revision="v2")


@pytest.mark.parametrize("name", ["-tiny", "a..b", "organisation/tiny.git"])
def test_names_that_the_hub_does_not_allow(name: str, hub_cache: Path):
    with pytest.raises(SourceError, match=rf"^{name}: no valid Hub id \(.*\); check it$"):
        models.load(name, offline=True)


LISTING = [
    ".gitattributes",
    "README.md",
    "config.json",
    "model.py",
    "model.safetensors",
    "onnx/config.json",
    "onnx/model.onnx",
    "original/consolidated.00.pth",
    "pytorch_model.bin",
    "tf_model.h5",
    "tokenizer.json",
    "vocab.txt",
]


def test_one_set_of_weights_is_chosen():
    chosen = hub.choose(LISTING, trust_remote_code=False)
    assert chosen == ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt"]


def test_code_is_chosen_only_when_trusted():
    assert "model.py" in hub.choose(LISTING, trust_remote_code=True)


def test_shards_are_chosen_with_their_index():
    names = [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "pytorch_model-00001-of-00001.bin",
        "pytorch_model.bin.index.json",
    ]
    chosen = hub.choose(names, trust_remote_code=False)
    assert [n for n in chosen if n.endswith((".safetensors", ".bin"))] == names[1:3]


def test_old_weights_are_chosen_if_there_are_no_others():
    names = ["config.json", "pytorch_model.bin"]
    assert hub.choose(names, trust_remote_code=False) == names


def _run(code: str, **environment: str) -> tuple[str, float]:
    """Run code in a process of its own, which may open sockets; its output and seconds."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HTTP"))}
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=inherited | environment | {"NO_PROXY": "*"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout, time.monotonic() - started


TRY = """
import time
from conwalk import models
from conwalk.errors import SourceError
def say(source, **options):
    started = time.monotonic()
    try:
        print(models.load(source, **options).notes)
    except SourceError as error:
        print(error)
    assert time.monotonic() - started < 6
"""


@pytest.mark.slow
def test_a_hub_that_refuses_connections_is_noticed_at_once(tmp_path: Path):
    said, _ = _run(f"{TRY}say('{REPO}')", HF_HOME=str(tmp_path), HF_ENDPOINT="http://127.0.0.1:9")
    assert said.startswith(f"{REPO}: the Hub is out of reach (http://127.0.0.1:9: ")
    assert "Connection refused" in said


SERVER = """
import http.server, json, os, pathlib, threading
FOLDER = pathlib.Path(os.environ["FOLDER"])
COMMIT = "0123456789" * 4
class Hub(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_HEAD(self): self.do_GET()
    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
    def do_GET(self):
        path = self.path.split("?")[0]
        if "/gated/" in path and "resolve" in path:
            self.answer(403, X_Error_Code="GatedRepo", X_Error_Message="gated")
        elif "/revision/nope" in path:
            self.answer(404, X_Error_Code="RevisionNotFound")
        elif path.startswith("/api/models/"):
            repo = "/".join(path.split("/")[3:5])
            if repo == "organisation/absent":
                return self.answer(401, X_Error_Code="RepoNotFound")
            sizes = {f.name: f.stat().st_size for f in FOLDER.iterdir()} | {"big.onnx": 1 << 40}
            told = {"id": repo, "sha": COMMIT, "siblings": [{"rfilename": n} for n in sizes]}
            if "/tree/" in path:
                told = [
                    {"type": "file", "path": n, "size": s, "oid": "0"} for n, s in sizes.items()
                ]
            self.answer(200, json.dumps(told).encode(), Content_Type="application/json")
        elif "/resolve/" in path:
            body = (FOLDER / path.split("/")[-1]).read_bytes()
            self.answer(200, body, ETag='"%d"' % hash(path), X_Repo_Commit=COMMIT)
        else:
            self.answer(405)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:%d" % server.server_port
"""


@pytest.mark.slow
def test_a_hub_within_reach(tmp_path: Path):
    folder = tiny_sources.save_folder(tmp_path / "files")
    calls = (
        f"say('{REPO}')",
        "say('organisation/absent')",
        "say('gated/model')",
        f"say('{REPO}', revision='nope')",
        f"say('{REPO}', offline=True)",
    )
    said, _ = _run(
        SERVER + TRY + "\n".join(calls),
        HF_HOME=str(tmp_path / "home"),
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        FOLDER=str(folder),
    )
    got, absent, gated, revision, again = said.splitlines()
    assert got == again == "()"
    assert absent.startswith("organisation/absent: no such model on the Hub (or it is private)")
    assert gated.startswith("gated/model: the model is gated on the Hub; accept its terms")
    assert "has the model but no revision 'nope'; check" in revision
    fetched = {p.name for p in (tmp_path / "home").rglob("snapshots/*/*")}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= fetched
    assert "big.onnx" not in fetched
    assert json.loads((folder / "config.json").read_text())["model_type"] == "bert"
