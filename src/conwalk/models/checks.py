"""What must hold of weights before they are analysed: present in the checkpoint, and finite."""

import re
from collections.abc import Iterable

import torch
from torch import Tensor

from conwalk.errors import SourceError
from conwalk.models.model import Model

_ATTENTION = re.compile(
    r"attn|attention|(^|\.)(q|k|v|query|key|value|qkv|wqkv)(_proj|_lin)?(\.|$)", re.IGNORECASE
)


@torch.no_grad()
def refuse_nonfinite(model: Model) -> None:
    """Refuse a model with a weight that is infinite or not a number.

    One sum a tensor; a tensor is looked at entry by entry only if its sum is not finite.

    Raises:
        SourceError: names the first such tensor.
    """
    for name, parameter in model.module.named_parameters():
        if not parameter.is_meta and not _finite(parameter):
            bad = int((~torch.isfinite(parameter)).sum())
            raise SourceError(
                f"{model.source}: the weight {name} has {bad} of {parameter.numel()} entries that "
                "are infinite or not a number; the checkpoint is damaged or was saved after the "
                "training diverged"
            )


def _finite(values: Tensor) -> bool:
    if not values.dtype.is_floating_point:
        return True
    # The sum of finite entries may overflow in half precision, seldom in single.
    total = values.sum(dtype=max(values.dtype, torch.float32, key=lambda d: d.itemsize))
    return bool(torch.isfinite(total)) or bool(torch.isfinite(values).all())


def refuse_missing_attention(source: str, missing: Iterable[str]) -> tuple[str, ...]:
    """Judge the weights that the checkpoint did not have and that are random therefore.

    Args:
        source: the model, as the user named it.
        missing: names of these weights.

    Returns:
        A note on them, if there are any.

    Raises:
        SourceError: weights of attention are among them.
    """
    names = sorted(missing)
    attention = [name for name in names if _ATTENTION.search(name)]
    if attention:
        raise SourceError(
            f"{source}: the checkpoint lacks {len(attention)} attention weights (the first is "
            f"{attention[0]}), which would be random; its weights do not belong to its config.json"
        )
    if not names:
        return ()
    return (f"{len(names)} weights are not in the checkpoint and are random: {_some(names)}",)


def note_unused_attention(unexpected: Iterable[str]) -> tuple[str, ...]:
    """A note on attention weights in the checkpoint that the model has no place for, if any."""
    names = sorted(name for name in unexpected if _ATTENTION.search(name))
    if not names:
        return ()
    return (f"{len(names)} attention weights of the checkpoint are not used: {_some(names)}",)


def _some(names: list[str], most: int = 3) -> str:
    more = ", …" if len(names) > most else ""
    return ", ".join(names[:most]) + more
