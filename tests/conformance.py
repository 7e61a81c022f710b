"""What becomes of each family of transformers: exact, exact of a named kind, or refused.

``python tests/conformance.py`` (``make families``) builds every family, writes the table that
``conwalk models --families`` prints, and the page of the documentation. With names it looks at
those families only and keeps the rest of the table as it is. It takes some minutes.
"""

import multiprocessing
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import family_inputs
from broken_sites import variants
from conwalk import tolerance
from conwalk.capture import CapturedLayer, Watch, watch
from conwalk.errors import CaptureError
from conwalk.families import Family, as_markdown, load
from conwalk.families.table import write
from conwalk.models import inference
from conwalk.models.interception.scores import SOFTMAX
from conwalk.models.sites import AttentionSite
from conwalk.models.unattended import ranges
from conwalk.pipeline.verification import LayerProof, prove
from conwalk.theorems import reconstruction
from family_build import build, model_class
from family_configs import tiny_config
from family_rows import CAVEATS

_ROOT = Path(__file__).parents[1]
_MOST_PARAMETERS = 5_000_000
_SECONDS = 30
_NOT_TOKEN_BY_TOKEN = (
    "its softmax weights meet the values in blocks or buckets, not token by token, so that there "
    "is no matrix of attention to read"
)
_ORDERS = ("swapped_output_heads", "transposed_output")
_NONE_FOUND = "no softmax attention was found"


@dataclass
class Seen:
    """What watching one model showed.

    Attributes:
        watched: its sites and refusals.
        proofs: one for each site.
        reach: index of a site to how far its queries reach, where that is limited.
        same_output: whether watching changed nothing but rounding.
        broken: residual with which each place was rebuilt under each broken reading of it.
    """

    watched: Watch
    proofs: list[LayerProof] = field(default_factory=list)
    reach: dict[int, int] = field(default_factory=dict)
    same_output: bool = True
    broken: dict[tuple[str, str], float] = field(default_factory=dict)


def look(model: nn.Module, inputs: dict[str, Any]) -> Seen:
    """Rebuild every layer of a model on some inputs, and under every broken reading as well."""
    seen = Seen(watch(model, inputs))
    limit = reconstruction.bound(inference.dtype_of(model))
    proofs = {s.index: LayerProof(s, limit) for s in seen.watched.sites}
    breaks = {s.index: _breaks(s) for s in seen.watched.sites}

    def proven(layer: CapturedLayer) -> None:
        prove(layer, proofs[layer.site.index])
        for name, site in breaks[layer.site.index].items():
            place = (layer.site.name, name)
            found = _misread(layer, site)
            seen.broken[place] = max(found, seen.broken.get(place, 0.0))
        if "input_ids" in inputs and (width := _reach(layer.attention)):
            seen.reach[layer.site.index] = max(width, seen.reach.get(layer.site.index, 0))

    returned = seen.watched.stream(inputs, proven)
    with inference.eager(model):
        unwatched = inference.forward(model, inputs)
    seen.proofs = list(proofs.values())
    seen.same_output = _same(returned, unwatched)
    return seen


def _breaks(site: AttentionSite) -> dict[str, AttentionSite]:
    """Broken readings that a rebuild can tell.

    A gate is read off the data, so that it makes up for any order in which W_O reads its
    channels; where there is one, that order is what the labelled passes show.
    """
    found = variants(site)
    return {k: v for k, v in found.items() if not (site.output.gated and k in _ORDERS)}


def _misread(layer: CapturedLayer, site: AttentionSite) -> float:
    """Residual of a layer captured again under another reading of its site."""
    heads, n, width = layer.read.shape
    whole = layer.read.new_zeros(n, heads * width)
    whole[:, layer.site.output.reads.flatten()] = layer.read.transpose(0, 1).reshape(n, -1)
    read = whole[:, site.output.reads].transpose(0, 1)
    again = replace(layer, site=site, read=read)
    return reconstruction.residual(again.walk(layer.value_input), layer.output)


def _reach(attention: Tensor) -> int:
    """Tokens from the farthest key that has weight to its query; 0 if that is not limited."""
    n, m = attention.shape[1:]
    if n != m:
        return 0
    used = (attention != 0).any(0).nonzero()
    farthest = int((used[:, 0] - used[:, 1]).abs().max()) + 1
    return farthest if farthest < n else 0


def _same(a: Any, b: Any) -> bool:
    """Whether two outputs are alike; convolutions round by where in memory their input lies."""
    if isinstance(a, Tensor) and a.is_floating_point():
        a, b = a.nan_to_num(), b.nan_to_num()
        return bool((a - b).abs().max() <= tolerance.rounding(a.dtype) * a.abs().max())
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return True


def family_of(name: str, model: Any, names: Sequence[str]) -> Family:
    """The row of one family.

    Args:
        name: its model type.
        model: built tiny.
        names: of the inputs it is given.
    """
    inputs = family_inputs.inputs_of(model, names)
    about: dict[str, Any] = {"name": name, "built": type(model).__name__, "inputs": tuple(names)}
    try:
        seen = look(model, inputs)
    except CaptureError as problem:
        if _NONE_FOUND in str(problem):
            if not _softmaxes(model, inputs):
                return Family(**about, outcome="no attention")
            return Family(**about, outcome="refused", reasons=(_NOT_TOKEN_BY_TOKEN,))
        return Family(**about, outcome="refused", reasons=(_stable(str(problem)),))
    exact = [p for p in seen.proofs if p.exact]
    reasons = {_stable(r.reason) for r in seen.watched.refused}
    reasons |= {"a head is not rebuilt within the limit" for p in seen.proofs if not p.exact}
    if not seen.same_output:
        reasons.add("watching changes what the model puts out")
    reasons |= {
        f"a broken rebuild was not noticed: {name}"
        for (_, name), residual in seen.broken.items()
        if residual <= reconstruction.bound(inference.dtype_of(model))
    }
    best = "partly exact" if exact else "refused"
    return Family(
        **about,
        outcome=best if reasons or not exact else "exact",
        kinds=tuple(sorted({k for p in exact for k in _kinds(p)})),
        sets=_sets(exact),
        without=_without(model, seen),
        windows={p.name: seen.reach[p.site.index] for p in exact if p.site.index in seen.reach},
        reasons=(*sorted(reasons), *([CAVEATS[name]] if name in CAVEATS else [])),
    )


def _softmaxes(model: nn.Module, inputs: dict[str, Any]) -> bool:
    """Whether a softmax over three axes or more is taken anywhere."""
    counter = _Softmaxes()
    with inference.eager(model), counter:
        inference.forward(model, inputs)
    return counter.seen


class _Softmaxes(TorchFunctionMode):
    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in SOFTMAX and out.dim() > 2:
            self.seen = True
        return out


def _kinds(proof: LayerProof) -> list[str]:
    site = proof.site
    found = {
        "cross": site.sides[0] != site.sides[1],
        "gated": site.output.gated,
        "input-dependent map": site.depends_on_input and not _only_gated(site),
        "leak": site.leaks or "leak" in proof.kind,
        "signed": site.subtracted is not None or proof.least_weight < 0,
        "windows": site.windows,
    }
    return [name for name, so in found.items() if so]


def _only_gated(site: AttentionSite) -> bool:
    return site.output.gated and not site.value.scaled and site.width_in == site.width_out


def _sets(proofs: Sequence[LayerProof]) -> dict[str, str]:
    numbers: dict[str, list[int]] = {}
    for proof in proofs:
        numbers.setdefault(proof.site.stack, []).append(proof.site.layer)
    return {stack: ranges(sorted(set(layers))) for stack, layers in numbers.items()}


def _without(model: Any, seen: Seen) -> str:
    """Layers of a model with a single run of layers in which nothing attends."""
    count = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    stacks = {p.site.stack for p in seen.proofs}
    if stacks != {"self"} or not isinstance(count, int) or seen.watched.refused:
        return ""
    return ranges(sorted(set(range(count)) - {p.site.layer for p in seen.proofs}))


def _stable(reason: str) -> str:
    """A reason without the numbers that rounding changes."""
    return re.sub(r"residual [^,]*, above \S+", "a residual above the limit", reason).strip()


def model_types() -> list[str]:
    """Every model type of the installed transformers."""
    from transformers import CONFIG_MAPPING

    return sorted(CONFIG_MAPPING.keys())


def _row(name: str) -> Family | None:
    """The row of one family, made from nothing; None for a type that is no model."""
    try:
        with _limited(_SECONDS):
            return _made(name)
    except LookupError as problem:
        if "no model class" in str(problem):
            return None
        return Family(name, reasons=(f"its inputs are not made here ({problem})",))
    except ImportError as problem:
        package = re.search(r"requires the (\S+) library", str(problem))
        needed = f"it needs the package {package[1]}" if package else "it needs another package"
        return Family(name, reasons=(needed,))
    except Exception as problem:  # noqa: BLE001 - whatever a family raises is its reason
        print(f"{name}: {type(problem).__name__}: {problem}"[:300], file=sys.stderr)  # noqa: T201
        return Family(name, reasons=("no tiny configuration of it is made here",))


def _made(name: str) -> Family:
    config = tiny_config(name)
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class(config)._from_config(config).parameters())
    if size > _MOST_PARAMETERS:
        return Family(name, reasons=("its smallest configuration made here is too large",))
    model = build(name)
    tried: list[str] = []
    for names in dict.fromkeys(family_inputs.candidates(model)):
        try:
            with inference.eager(model):
                inference.forward(model, family_inputs.inputs_of(model, names))
        except Exception as problem:  # noqa: BLE001 - the next candidate may do
            tried.append(f"{names}: {type(problem).__name__}: {problem}"[:200])
            continue
        return family_of(name, model, names)
    print(f"{name}: {' | '.join(tried)}", file=sys.stderr)  # noqa: T201
    return Family(name, built=type(model).__name__, reasons=("its inputs are not made here",))


@contextmanager
def _limited(seconds: int) -> Any:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def regenerate(names: Sequence[str]) -> None:
    """Make the table again, or the rows of some families, and the page with it."""
    import transformers

    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    target = _ROOT / "src/conwalk/families/families.json"
    kept = {f.name: f for f in load().families} if names and target.exists() else {}
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=25) as pool:
        for row in pool.imap_unordered(_row, names or model_types()):
            if row is not None:
                kept[row.name] = row
    write(transformers.__version__, list(kept.values()), target)
    page = _ROOT / "docs/FAMILIES.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(as_markdown(load()), encoding="utf-8")
    print(load().counts)  # noqa: T201


if __name__ == "__main__":
    regenerate(sys.argv[1:])
