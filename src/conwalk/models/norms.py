"""The gain of the norm that feeds a value projection, found by watching, never by name."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from conwalk import tolerance
from conwalk.models import inference, offload
from conwalk.models.interception import ParameterProduct
from conwalk.models.linear import Linear, dtype_of, module_of
from conwalk.models.sites import AttentionSite
from conwalk.operators.fields import working_dtype

_PROBES = 4
# large enough that what a norm adds to the variance is lost in rounding, small enough to square
_SIZE = 2.0**16


def value_gains(
    module: nn.Module, sites: Sequence[AttentionSite], inputs: dict[str, Any]
) -> list[Float[Tensor, " width_in"] | None]:
    """Find what the norm before each value projection multiplies the channels by.

    A norm feeds a site if what it puts out is what the value projection reads. Its gain is
    measured by sending vectors through it: for ``weight`` and ``1 + weight`` alike.

    Args:
        module: the model; left as it was found.
        sites: attention sites of the model.
        inputs: keyword arguments of one small forward pass.

    Returns:
        For each site the gain, in the dtype of the value weights; None where no norm feeds it,
        or where what feeds it is not a norm with a constant gain. Theory §0.
    """
    read_by = [_reader(s.value.linear) for s in sites]
    sources = _feeding_norms(module, {m for m in read_by if m is not None}, inputs)
    gains = {norm: gain(norm) for norm in set(sources.values())}
    found = [gains[sources[m]] if m in sources else None for m in read_by]
    return [
        None if g is None else g.to(dtype_of(s.value.linear))
        for g, s in zip(found, sites, strict=True)
    ]


def _reader(linear: Linear) -> nn.Module | None:
    """The module that is given what a map reads; also one that multiplies in its own way."""
    if not isinstance(linear, ParameterProduct):
        return module_of(linear)
    owner = linear.place.owner()
    return owner if isinstance(owner, nn.Linear) else None


@torch.no_grad()
def gain(norm: nn.Module) -> Float[Tensor, " width"] | None:
    """Measure what a norm multiplies its normalised channels by.

    Args:
        norm: a module with one weight along the channels and at most a bias.

    Returns:
        The gain in float32 or float64, whether the norm centres its input or not; None if it
        does not act as a norm with a constant gain.
    """
    if _weight(norm) is None:
        return None
    norm = offload.present(norm)
    weight = next(p for name, p in norm.named_parameters() if name != "bias")
    precision = working_dtype(weight.dtype)
    seeded = torch.Generator().manual_seed(0)
    drawn = torch.randn(_PROBES, len(weight), generator=seeded, dtype=precision)
    x = _SIZE * drawn.to(weight.device)
    parameters = {name: p.to(precision) for name, p in norm.named_parameters()}
    try:
        # half precision would blur what is measured
        there, back = (functional_call(norm, parameters, v[None]) for v in (x, -x))
    except (TypeError, RuntimeError, ValueError):
        # it takes more than vectors
        return None
    if not isinstance(there, Tensor) or there.shape != x[None].shape:
        return None
    # the bias is even, the rest is odd
    odd, even = (there - back)[0] / 2, (there + back)[0] / 2
    if not _negligible(even - even.mean(0), there):
        return None
    candidates = (_constant_gain(odd, normalised) for normalised in _normalised(x))
    return next((found for found in candidates if found is not None), None)


def _normalised(x: Float[Tensor, "probe width"]) -> tuple[Tensor, Tensor]:
    """Over the root mean square, as it is and centred."""
    centred = x - x.mean(-1, keepdim=True)
    return x / _root_mean_square(x), centred / _root_mean_square(centred)


def _root_mean_square(x: Float[Tensor, "probe width"]) -> Float[Tensor, "probe 1"]:
    return x.square().mean(-1, keepdim=True).sqrt()


def _constant_gain(
    output: Float[Tensor, "probe width"], x: Float[Tensor, "probe width"]
) -> Float[Tensor, " width"] | None:
    """The factor of each channel, if it is the same for every probe."""
    factor = (output * x).sum(0) / x.square().sum(0)
    return factor if _negligible(output - factor * x, output) else None


def _negligible(error: Tensor, output: Tensor) -> bool:
    """Whether an error is rounding; norms compute in float32 whatever they are given."""
    size = output.abs().max()
    fits = error.abs().max() <= tolerance.rounding(torch.float32) * size
    return bool(fits & torch.isfinite(size))


def _weight(module: nn.Module) -> Tensor | None:
    """The one parameter of a norm-like module, beside its bias."""
    named = dict(module.named_parameters())
    bias = named.pop("bias", None)
    if len(named) != 1:
        return None
    weight = next(iter(named.values()))
    alike = bias is None or bias.shape == weight.shape
    return weight if weight.dim() == 1 and weight.is_floating_point() and alike else None


class _Flow:
    """What norms put out and which of it a linear reads, in one pass."""

    def __init__(self) -> None:
        self.feeding: dict[nn.Module | None, nn.Module] = {}
        self._put_out: list[tuple[nn.Module, Tensor]] = []

    def after_norm(self, norm: nn.Module, _args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            self._put_out.append((norm, output))

    def before_linear(self, linear: nn.Module, args: tuple[Any, ...]) -> None:
        read = args[0]
        for norm, output in reversed(self._put_out):
            if output.numel() == read.numel() and torch.equal(
                output.flatten(), read.flatten().to(output.dtype)
            ):
                self.feeding[linear] = norm
                return


def _feeding_norms(
    module: nn.Module, linears: set[nn.Module], inputs: dict[str, Any]
) -> dict[nn.Module | None, nn.Module]:
    flow = _Flow()
    with ExitStack() as hooks, inference.eager(module):
        for m in module.modules():
            if _weight(m) is not None:
                hooks.callback(m.register_forward_hook(flow.after_norm).remove)
        for linear in linears:
            hooks.callback(linear.register_forward_pre_hook(flow.before_linear).remove)
        inference.forward(module, inputs)
    return flow.feeding
