"""What can be compared between results, and what cannot, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from conwalk import results
from conwalk.report.quantities import primary
from conwalk.report.readings import over_prompts

FRESH = "_fresh"
_DEFINING = ("symbol", "unit", "long_name", "range")
_WORDS = {"symbol": "formula", "unit": "unit", "long_name": "meaning", "range": "range"}
_DRAWN = {"prompt", "layer", "head", "token"}


@dataclass(frozen=True, eq=False)
class Course:
    """One quantity of one model along its depth.

    Attributes:
        depth: of every layer, from 0 to 1.
        layers: their labels.
        values: median over heads, mean over prompts; over chance where that was needed.
        chance: of every layer, or None; 1 where the values are over chance.
        sd: of chance, or None.
        heads: one number a head of every layer, ``(layer, head)``, or None.
    """

    depth: NDArray[np.float64]
    layers: tuple[str, ...]
    values: NDArray[np.float64]
    chance: NDArray[np.float64] | None
    sd: NDArray[np.float64] | None
    heads: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class Compared:
    """A quantity that may be set side by side.

    Attributes:
        name: of the variable.
        relative: whether it is shown over chance, because it depends on the length of the texts.
        courses: one for each of the results; None where they do not hold it.
    """

    name: str
    relative: bool
    courses: tuple[Course | None, ...]


@dataclass(frozen=True)
class LeftOut:
    """A quantity that may not, and why."""

    name: str
    reason: str


def compared(datasets: Sequence[xr.Dataset]) -> tuple[list[Compared], list[LeftOut]]:
    """Set side by side what at least two results hold and may be compared.

    Definitions must agree. A quantity that depends on the length of the texts is compared as it
    is if the lengths agree, and else as a share of its null, if it has one.

    Args:
        datasets: results.

    Returns:
        What can be compared, in alphabetical order, and what cannot.
    """
    holders: dict[str, list[int]] = {}
    for place, dataset in enumerate(datasets):
        for name in primary(dataset):
            if set(dataset[name].dims) <= _DRAWN:
                holders.setdefault(name, []).append(place)
    shown: list[Compared] = []
    left: list[LeftOut] = []
    for name in sorted(holders):
        held = [datasets[place] for place in holders[name]]
        reason, relative = _judged(name, held) if len(held) > 1 else ("only one holds it", False)
        if reason:
            left.append(LeftOut(name, reason))
            continue
        courses = tuple(
            course(d, name, relative=relative) if place in holders[name] else None
            for place, d in enumerate(datasets)
        )
        if sum(c is not None and bool(np.isfinite(c.values).any()) for c in courses) < 2:
            left.append(LeftOut(name, "fewer than two have a number for it"))
        else:
            shown.append(Compared(name, relative, courses))
    return shown, left


def _judged(name: str, held: Sequence[xr.Dataset]) -> tuple[str, bool]:
    """Why a quantity may not be compared, or nothing, and whether only over its null."""
    first = held[0][name].attrs
    for part in _DEFINING:
        if any(d[name].attrs.get(part) != first.get(part) for d in held[1:]):
            return f"defined differently: not the same {_WORDS[part]}", False
    by_length = any(not int(d[name].attrs.get("comparable_across_length", 1)) for d in held)
    if not by_length or len({lengths(d) for d in held}) == 1:
        return "", False
    if all(_has_positive_null(d, name) for d in held):
        return "", True
    return "depends on the number of tokens, which differ, and has no null to divide by", False


def lengths(dataset: xr.Dataset) -> tuple[int, ...]:
    """Count the tokens of every prompt.

    Args:
        dataset: results.

    Returns:
        The numbers in order of size.
    """
    return tuple(sorted(int(n) for n in dataset["n_tokens"].values))


def _has_positive_null(dataset: xr.Dataset, name: str) -> bool:
    chance = _chance(dataset, name)[0]
    return chance is not None and bool((chance[np.isfinite(chance)] > 0).all())


def course(dataset: xr.Dataset, name: str, *, relative: bool) -> Course:
    """Read one quantity along the depth.

    Args:
        dataset: results.
        name: a variable in them.
        relative: whether to divide by its null.

    Returns:
        Its numbers.
    """
    values = _per_layer(dataset, name)
    chance, sd = _chance(dataset, name)
    heads = None
    if "head" in dataset[name].dims:
        per_head = over_prompts(dataset[name])
        inner = [d for d in per_head.dims if d not in ("layer", "head")]
        heads = per_head.median(inner).transpose("layer", "head").to_numpy().astype(float)
    if relative and chance is not None:
        values, heads = values / chance, None if heads is None else heads / chance[:, None]
        sd = None if sd is None else sd / chance
        chance = np.ones_like(chance)
    labels = tuple(results.layer_labels(dataset))
    return Course(results.relative_depth(dataset), labels, values, chance, sd, heads)


def _per_layer(dataset: xr.Dataset, name: str) -> NDArray[np.float64]:
    return over_prompts(dataset[name], over_heads=True).to_numpy().astype(float)


def _chance(
    dataset: xr.Dataset, name: str
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    null = results.null_of(dataset, name)
    if null is None:
        return None, None
    if null.mean is not None:
        sd = None if null.sd is None else _per_layer(dataset, null.sd)
        return _per_layer(dataset, null.mean), sd
    if null.constant is not None:
        return np.full(dataset.sizes["layer"], null.constant), None
    return None, None


def fresh_of(dataset: xr.Dataset) -> xr.Dataset | None:
    """Take the untrained model out of results that hold it beside the trained one.

    Args:
        dataset: results of ``analyze --fresh``.

    Returns:
        Results of the fresh weights alone; None if there are none.
    """
    names = [str(n) for n in dataset.data_vars if str(n).endswith(FRESH)]
    if not names:
        return None
    renamed = dataset[names].rename({n: n.removesuffix(FRESH) for n in names})
    return renamed.assign_attrs(model=f"{results.model_name(dataset)}, fresh weights")


def without_fresh(dataset: xr.Dataset) -> xr.Dataset:
    """Leave the untrained model out.

    Args:
        dataset: results.

    Returns:
        Those of the model as it is.
    """
    return dataset.drop_vars([n for n in dataset.data_vars if str(n).endswith(FRESH)])


def facts(dataset: xr.Dataset) -> dict[str, Any]:
    """Say what was analysed.

    Args:
        dataset: results.

    Returns:
        Words by what they are of.
    """
    tokens = lengths(dataset)
    return {
        "Model": str(dataset.attrs.get("model", "–")),
        "Layers": str(dataset.sizes["layer"]),
        "Heads": str(dataset.sizes.get("head", "–")),
        "Prompts": ", ".join(str(p) for p in dataset["prompt"].values),
        "Tokens": ", ".join(map(str, tokens)),
        "Dtype": str(dataset.attrs.get("dtype", "–")),
        "Weights": str(dataset.attrs.get("weights_hash", "–"))[:19],
        "Refused": str(len(results.refused(dataset)) or "nothing"),
    }
