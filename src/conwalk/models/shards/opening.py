"""Open a model for its weights alone: find its layout, and leave the weights in their files."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.errors import ConwalkError, SourceError
from conwalk.models import folder, gguf, offload, probe, weight_files
from conwalk.models.layout import Layout, discover
from conwalk.models.linear import dtype_of
from conwalk.models.location import locate_model
from conwalk.models.model import Model
from conwalk.models.norms import value_gains
from conwalk.models.quiet import quiet
from conwalk.models.shards import skeleton
from conwalk.models.shards.checkpoint import Checkpoint, Safetensors
from conwalk.models.shards.gguf_file import GGUFCheckpoint, GGUFHeader
from conwalk.models.sites import AttentionSite, Refusal
from conwalk.models.source_options import AUTO, Options, parse_dtype
from conwalk.models.tagging import labelled
from conwalk.models.tokenizer import one_line

# Two numbers that stand for weights that are not read: a layout that hangs on them shows.
_STAND_INS = (0.0, 0.5)


@dataclass(frozen=True, eq=False)
class WeightsOnly:
    """A model of which nothing but the head maps is going to be read.

    Attributes:
        model: a module on the meta device, where it came from, and the fingerprint of its files.
        sites: where it attends; their transports are read when they are asked for.
        refused: places that attend but cannot be read as a walk.
        gains: for each site the gain of the norm that feeds it, or None.
        dtype: the dtype that weights are converted to.
        n_bytes: size of the weight files.
    """

    model: Model
    sites: tuple[AttentionSite, ...]
    refused: tuple[Refusal, ...]
    gains: tuple[Tensor | None, ...]
    dtype: torch.dtype
    n_bytes: int


@dataclass(frozen=True, eq=False)
class _Opened:
    """A skeleton, the checkpoint it belongs to, and what is known of them."""

    module: nn.Module
    checkpoint: Checkpoint
    quantized: bool = False
    notes: tuple[str, ...] = ()


def open_weights(
    source: str | os.PathLike[str],
    *,
    dtype: str | torch.dtype = "float32",
    offline: bool | None = None,
    trust_remote_code: bool = False,
    revision: str | None = None,
) -> WeightsOnly:
    """Find where a model attends from its configuration, without loading its weights.

    The model is built on the meta device and labels are sent through it, once with each of two
    numbers in place of embeddings and the like. What is read is vectors: gains of norms, and
    biases that are added to values.

    Args:
        source: a Hub id, a folder, a ``.gguf`` file, or ``"pkg:package/path"``.
        dtype: what weights are converted to; ``"auto"`` is float32.
        offline: True never touches the network; None leaves it to ``HF_HUB_OFFLINE``.
        trust_remote_code: let code that comes with the model run.
        revision: branch, tag or commit of a Hub id.

    Raises:
        SourceError: the model cannot be found or read, or its layout cannot be found without its
            weights; one line says why.
    """
    wanted = parse_dtype(dtype)
    options = Options(
        dtype=torch.float32 if wanted == AUTO else wanted,
        device=torch.device("cpu"),
        offline=offline,
        trust_remote_code=trust_remote_code,
        revision=revision,
    )
    name = os.fspath(source)
    kind, place, notes = locate_model(source, options)
    opened = (_open_gguf if place.is_file() else _open_folder)(place, name, options)
    inputs, layout = _layout(opened, name)
    _attach(opened, layout.sites, name, dtype=options.dtype)
    with labelled(opened.module):
        gains = value_gains(opened.module, layout.sites, inputs)
    model = Model(
        module=opened.module,
        tokenizer=None,
        source=name,
        kind=kind,
        quantized=opened.quantized,
        notes=(*opened.notes, *notes),
        hash_weights=lambda: opened.checkpoint.fingerprint,
    )
    return WeightsOnly(
        model,
        layout.sites,
        layout.refused,
        tuple(gains),
        dtype_of(layout.sites[0].value.linear),
        opened.checkpoint.n_bytes,
    )


def _open_folder(place: Path, source: str, options: Options) -> _Opened:
    import transformers

    values = folder.checked_config(place, source, options)
    method = values.get("quantization_config", {}).get("quant_method")
    if method:
        raise SourceError(
            f"{source}: the weights are quantized ({method}) and cannot be read by themselves; "
            "conwalk analyze loads the model"
        )
    files = weight_files.find(place, source)
    if files[0].suffix != ".safetensors":
        raise SourceError(
            f"{source}: {files[0].name} cannot be read one layer at a time; load the model once "
            "and save it as safetensors (save_pretrained), or use conwalk analyze"
        )
    with quiet(), _explained(source):
        config = transformers.AutoConfig.from_pretrained(
            str(place), local_files_only=True, trust_remote_code=options.trust_remote_code
        )
        module = skeleton.build(
            folder.model_class(values, options),
            config,
            trust_remote_code=options.trust_remote_code,
        )
    return _Opened(module, Safetensors(files, module, source))


def _open_gguf(place: Path, source: str, _options: Options) -> _Opened:
    header = GGUFHeader(place, source)
    with _explained(source):
        module = skeleton.build(gguf.model_class(header.config), header.config)
    types = ", ".join(f"{n} × {t}" for t, n in header.types.most_common())
    note = f"dequantised from GGUF ({types})"
    return _Opened(module, GGUFCheckpoint(header, module), header.quantized, (note,))


@contextmanager
def _explained(source: str) -> Generator[None]:
    """Whatever goes wrong in a model without weights is no reason to stop with a traceback."""
    try:
        yield
    except ConwalkError:
        raise
    except Exception as error:
        raise SourceError(
            f"{source}: the layout of its attention cannot be found without its weights "
            f"({type(error).__name__}: {one_line(error)}); conwalk analyze loads the model"
        ) from error


def _layout(opened: _Opened, source: str) -> tuple[dict[str, Any], Layout]:
    """The layout that labels show, if it hangs on nothing that is not read, and their pass.

    Raises:
        SourceError: it does, or there is no attention, or none that can be read as a walk.
    """
    with _explained(source):
        inputs, first = _found(opened, _STAND_INS[0])
        _, second = _found(opened, _STAND_INS[1])
    if not first.sites and not first.refused:
        raise SourceError(f"{source}: no softmax attention was found in {_class(opened)}")
    if not first.sites:
        reason = f"{first.refused[0].name}: {first.refused[0].reason}"
        raise SourceError(f"{source}: no attention layer can be read as a walk; {reason}")
    if not all(map(_alike, first.sites, second.sites)) or len(first.sites) != len(second.sites):
        raise SourceError(
            f"{source}: what {_class(opened)} does to its values hangs on weights that are not "
            "read; conwalk analyze loads the model"
        )
    return inputs, first


def _found(opened: _Opened, stand_in: float) -> tuple[dict[str, Any], Layout]:
    """The layout, from the shortest inputs on which the model runs."""
    checkpoint = opened.checkpoint

    def vector(parameter: str) -> Tensor | None:
        return checkpoint.read(parameter).float() if parameter in checkpoint else None

    skeleton.fill(opened.module, vector, stand_in)
    problems: list[Exception] = []
    for inputs in probe.candidates(opened.module):
        try:
            return inputs, discover(opened.module, inputs, probe.lengths(inputs))
        except Exception as problem:  # noqa: BLE001 - whatever a model raises on too short a text
            problems.append(problem)
    raise problems[0]


def _class(opened: _Opened) -> str:
    return type(opened.module).__name__


def _alike(one: AttentionSite, other: AttentionSite) -> bool:
    """Whether two sites are read from the same channels of the same layers in the same way."""
    return (one.path, one.kind) == (other.path, other.kind) and all(
        _same(getattr(mine, f.name), getattr(theirs, f.name))
        for mine, theirs in ((one.value, other.value), (one.output, other.output))
        for f in fields(mine)
    )


def _same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return one is other or (not isinstance(one, Tensor | nn.Module) and one == other)


def _attach(
    opened: _Opened, sites: Sequence[AttentionSite], source: str, *, dtype: torch.dtype | str
) -> None:
    """Say where the weights of the sites are, after checking that the files have them."""
    for path, linear in {p.path: p.linear for s in sites for p in (s.value, s.output)}.items():
        if not isinstance(linear, nn.Module):
            raise SourceError(
                f"{source}: {path} is no linear layer but a product with a parameter, which cannot "
                "be read by itself; conwalk analyze loads the model"
            )
        for name, parameter in linear.named_parameters(recurse=False):
            _check(opened.checkpoint, f"{path}.{name}", tuple(parameter.shape), source)
            if isinstance(dtype, torch.dtype):
                setattr(linear, name, nn.Parameter(parameter.to(dtype), requires_grad=False))
        offload.keep_elsewhere(linear, _Weights(opened.checkpoint, path))


def _check(checkpoint: Checkpoint, parameter: str, shape: tuple[int, ...], source: str) -> None:
    if parameter not in checkpoint:
        raise SourceError(
            f"{source}: the checkpoint lacks the attention weight {parameter}; its weights do not "
            "belong to its config.json"
        )
    stored = checkpoint.shape(parameter)
    if stored is not None and stored != shape:
        raise SourceError(
            f"{source}: {parameter} is stored with shape {stored}, where config.json describes "
            f"{shape}; the weights are quantized or belong to another model"
        )


class _Weights:
    """The parameters of one linear layer, read from their files each time they are asked for."""

    def __init__(self, checkpoint: Checkpoint, path: str) -> None:
        self._checkpoint = checkpoint
        self._path = path

    def __getitem__(self, name: str) -> Tensor:
        return self._checkpoint.read(f"{self._path}.{name}")
