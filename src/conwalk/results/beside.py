"""What stands beside a quantity: the null it is compared with, found by its names and its words."""

import re
from dataclasses import dataclass

import xarray as xr

SUFFIXES = ("chance", "chance_sd", "null_mean", "null_sd", "z", "q", "fresh")
_VARIANTS = ("_no_sink", "_value")
_NUMBERS = {"0": 0.0, "1": 1.0, "½": 0.5, "√2": 2**0.5}
_CONSTANT = re.compile(rf"({'|'.join(_NUMBERS)}) for [^,;]*")


@dataclass(frozen=True)
class Null:
    """What chance gives for a quantity.

    Attributes:
        words: which null it is, one phrase.
        mean: the variable that holds its mean or closed form, or None.
        sd: the variable that holds its standard deviation, or None.
        constant: its value where it is the same number everywhere, or None.
        fresh: the variable that holds the same quantity of the untrained model, or None.
    """

    words: str
    mean: str | None = None
    sd: str | None = None
    constant: float | None = None
    fresh: str | None = None


def null_of(dataset: xr.Dataset, name: str) -> Null | None:
    """Find what a quantity is compared with.

    Args:
        dataset: results.
        name: a variable in them.

    Returns:
        Its null, as far as the results hold it; None where it has none.
    """
    stated = str(dataset[name].attrs.get("null", ""))
    mean = _first(dataset, stated, _named(name, "chance"), _named(name, "null_mean"))
    sd = _first(dataset, _named(name, "null_sd"), _named(name, "chance_sd"))
    fresh = _first(dataset, _named(name, "fresh"))
    number = _CONSTANT.fullmatch(stated)
    constant = _NUMBERS[number[1]] if number and mean is None else None
    if mean is None and constant is None and fresh is None:
        return None
    return Null(_words(dataset, stated, mean), mean, sd, constant, fresh)


def siblings(dataset: xr.Dataset, name: str) -> list[str]:
    """Name the variables that stand beside a quantity: null, sd, z, q, fresh weights.

    Args:
        dataset: results.
        name: a variable in them.

    Returns:
        Those of them that the results hold.
    """
    stated = str(dataset[name].attrs.get("null", ""))
    names = [stated, *(_named(name, suffix) for suffix in SUFFIXES)]
    return [n for n in dict.fromkeys(names) if n in dataset.data_vars]


def _named(name: str, suffix: str) -> str:
    """Of depth_tv and of depth_tv_no_sink: depth_tv_z and depth_tv_z_no_sink."""
    for variant in _VARIANTS:
        if name.endswith(variant) and suffix != "fresh":
            return f"{name.removesuffix(variant)}_{suffix}{variant}"
    return f"{name}_{suffix}"


def _first(dataset: xr.Dataset, *names: str) -> str | None:
    return next((n for n in names if n in dataset.data_vars), None)


def _words(dataset: xr.Dataset, stated: str, mean: str | None) -> str:
    """A phrase for the null: what the record says, or what the variable it names says of itself."""
    if not stated:
        return "chance" if mean is not None else "fresh weights"
    if stated not in dataset.data_vars:
        return stated
    meaning = str(dataset[stated].attrs.get("long_name", stated))
    return re.split(r"[;,:]", re.sub(r"^the (same|spread) for ", "", meaning))[0]
