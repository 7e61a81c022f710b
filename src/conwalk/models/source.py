"""Load a model from wherever it lies."""

import os
from dataclasses import replace
from typing import Any

import torch

from conwalk.errors import SourceError
from conwalk.models import checks, folder, gguf, live, tokenizer
from conwalk.models.location import locate, locate_model
from conwalk.models.model import Model
from conwalk.models.source_options import Options, parse_device, parse_dtype, parse_size

Source = object
"""The name of a source, a loaded module, or an object of another tool that holds one."""


def load(
    source: Source,
    *,
    tokenizer: Any = None,
    processor: Any = None,
    dtype: str | torch.dtype = "float32",
    device: str | torch.device = "cpu",
    offline: bool | None = None,
    trust_remote_code: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    max_memory: str | int | None = None,
    offload: str | os.PathLike[str] | None = None,
) -> Model:
    """Load a trained transformer, ready to be analysed.

    Args:
        source: a Hub id (``"HuggingFaceTB/SmolLM2-135M"``), a folder, a ``.gguf`` file,
            ``"pkg:package/path"`` for a model inside an installed package (which is not
            imported), a loaded module, or an object of another tool that holds one (compiled,
            parallel, with adapters, a pipeline, a bridge; :mod:`conwalk.models.unwrap`).
        tokenizer: a tokenizer, or the folder or Hub id of one; None takes the model's own.
        processor: what makes images or audio into inputs; None takes the model's own.
        dtype: ``"float32"``, ``"float64"``, ``"bfloat16"``, ``"float16"``, a torch dtype, or
            ``"auto"`` for that of the checkpoint. A loaded module keeps its own.
        device: where the module goes. A loaded module stays where it is.
        offline: True never touches the network; None leaves it to ``HF_HUB_OFFLINE``.
        trust_remote_code: let code that comes with the model run.
        cache_dir: where dense copies of GGUF files are kept; None for ``$CONWALK_CACHE`` or
            the user's cache folder. Hub downloads lie under ``HF_HOME``.
        revision: branch, tag or commit of a Hub id.
        max_memory: how much of the weights is kept in memory, in bytes or like ``"2GB"``; the rest
            stays on disk and is read layer by layer. None keeps all.
        offload: a folder for weights that have to be written out for that; naming one keeps in
            memory what there is room for. None for one in the cache.

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
        max_memory=parse_size(max_memory),
        offload=offload,
    )
    reader = _given_tokenizer(tokenizer, options)
    model = (
        _load_named(source, options, reader)
        if isinstance(source, str | os.PathLike)
        else live.wrap(source, reader)
    )
    if model is None:
        raise SourceError(
            f"{type(source).__name__} is no model: conwalk takes a torch module, an object of "
            "another tool that holds one, or the name of a source"
        )
    checks.refuse_nonfinite(model)
    return model if processor is None else _with_processor(model, processor)


def _with_processor(model: Model, given: Any) -> Model:
    reader = model.tokenizer
    return replace(
        model,
        tokenizer=getattr(given, "tokenizer", None) if reader is None else reader,
        find_processor=lambda: (given, ""),
    )


def _load_named(source: str | os.PathLike[str], options: Options, given_tokenizer: Any) -> Model:
    kind, place, notes = locate_model(source, options)
    read = gguf.load if place.is_file() else folder.load
    return read(place, os.fspath(source), kind, options, given_tokenizer).noting(*notes)


def _given_tokenizer(given: Any, options: Options) -> Any:
    """The tokenizer the user gave, read from where it lies if it was named."""
    if not isinstance(given, str | os.PathLike):
        return given
    _, place, _ = locate(given, options)
    found, lack = tokenizer.read(place, trust_remote_code=options.trust_remote_code)
    if found is None:
        raise SourceError(f"tokenizer {os.fspath(given)}: {lack}; name a folder that holds one")
    return found
