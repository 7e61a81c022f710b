"""Load a model from wherever it lies."""

import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from conwalk.errors import SourceError
from conwalk.models import checks, folder, gguf, hub, live, package, tokenizer
from conwalk.models.model import Kind, Model
from conwalk.models.source_options import Options, parse_device, parse_dtype

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def load(
    source: str | os.PathLike[str] | nn.Module,
    *,
    tokenizer: Any = None,
    dtype: str | torch.dtype = "float32",
    device: str | torch.device = "cpu",
    offline: bool | None = None,
    trust_remote_code: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    revision: str | None = None,
) -> Model:
    """Load a trained transformer, ready to be analysed.

    Args:
        source: a Hub id (``"HuggingFaceTB/SmolLM2-135M"``), a folder, a ``.gguf`` file,
            ``"pkg:package/path"`` for a model inside an installed package (which is not
            imported), or a loaded module.
        tokenizer: a tokenizer, or the folder or Hub id of one; None takes the model's own.
        dtype: ``"float32"``, ``"float64"``, ``"bfloat16"``, ``"float16"``, a torch dtype, or
            ``"auto"`` for that of the checkpoint. A loaded module keeps its own.
        device: where the module goes. A loaded module stays where it is.
        offline: True never touches the network; None leaves it to ``HF_HUB_OFFLINE``.
        trust_remote_code: let code that comes with the model run.
        cache_dir: where dense copies of GGUF files are kept; None for ``$CONWALK_CACHE`` or
            the user's cache folder. Hub downloads lie under ``HF_HOME``.
        revision: branch, tag or commit of a Hub id.

    Returns:
        The model, its tokenizer, and notes worth showing.

    Raises:
        SourceError: the model cannot be found, read or used; one line says why.
        OutputError: the dense copy of a GGUF file cannot be kept.
    """
    options = Options(
        dtype=parse_dtype(dtype),
        device=parse_device(device),
        offline=offline,
        trust_remote_code=trust_remote_code,
        cache_dir=cache_dir,
        revision=revision,
    )
    reader = _given_tokenizer(tokenizer, options)
    model = (
        live.wrap(source, reader)
        if isinstance(source, nn.Module)
        else _load_named(source, options, reader)
    )
    checks.refuse_nonfinite(model)
    return model


def _load_named(source: str | os.PathLike[str], options: Options, given_tokenizer: Any) -> Model:
    name = os.fspath(source)
    kind, place, notes = _locate(source, options)
    if options.revision and kind != "hub":
        notes += ("revision is ignored: it belongs to Hub ids",)
    if alone := _only_gguf(place):
        place = alone
    read = gguf.load if place.is_file() else folder.load
    kind = "gguf" if place.is_file() and kind == "folder" else kind
    return read(place, name, kind, options, given_tokenizer).noting(*notes)


def _locate(source: str | os.PathLike[str], options: Options) -> tuple[Kind, Path, tuple[str, ...]]:
    """The kind of a source, the existing folder or file it names, and notes."""
    name = os.fspath(source)
    if name.startswith(package.PREFIX):
        return "package", package.locate(name), ()
    place = Path(name).expanduser()
    if name and place.exists():
        return "folder", place, ()
    if _is_path(source) and "://" not in name:
        raise SourceError(
            f"{name}: there is no such {'file' if place.suffix else 'folder'} "
            f"(looked for {place.absolute()}); check the path"
        )
    if not _HUB_ID.fullmatch(name):
        raise SourceError(
            f"{name!r} is no model source; give a Hub id (organisation/name), a folder, a .gguf "
            "file, pkg:package/path or a loaded module"
        )
    found, notes = hub.fetch(name, options)
    return "hub", found, notes


def _is_path(source: str | os.PathLike[str]) -> bool:
    """Whether something that does not exist was meant as a path, not as a Hub id."""
    name = os.fspath(source)
    return (
        not isinstance(source, str)
        or name.startswith((".", "~", "/", os.sep))
        or name.endswith(".gguf")
        or max(name.count("/"), name.count(os.sep)) > 1
    )


def _only_gguf(place: Path) -> Path | None:
    """The GGUF file of a folder that holds nothing else to load."""
    if not place.is_dir() or (place / "config.json").exists():
        return None
    files = list(place.glob("*.gguf"))
    return files[0] if len(files) == 1 else None


def _given_tokenizer(given: Any, options: Options) -> Any:
    """The tokenizer the user gave, read from where it lies if it was named."""
    if not isinstance(given, str | os.PathLike):
        return given
    _, place, _ = _locate(given, options)
    found, lack = tokenizer.read(place, trust_remote_code=options.trust_remote_code)
    if found is None:
        raise SourceError(f"tokenizer {os.fspath(given)}: {lack}; name a folder that holds one")
    return found
