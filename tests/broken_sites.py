"""Deliberately broken readings of a proven site, each of which the gate must refuse."""

from collections.abc import Callable
from dataclasses import replace

import torch

from conwalk.models.sites import AttentionSite

Break = Callable[[AttentionSite], AttentionSite]

_SHIFT = 0.1


def swapped_value_heads(site: AttentionSite) -> AttentionSite:
    return replace(site, value=replace(site.value, columns=site.value.columns.flip(0)))


def shuffled_value_channels(site: AttentionSite) -> AttentionSite:
    return replace(site, value=replace(site.value, columns=site.value.columns.roll(1, 1)))


def swapped_output_heads(site: AttentionSite) -> AttentionSite:
    return replace(site, output=replace(site.output, reads=site.output.reads.flip(0)))


def transposed_output(site: AttentionSite) -> AttentionSite:
    heads, width = site.output.reads.shape
    reads = site.output.reads.reshape(width, heads).t().contiguous()
    return replace(site, output=replace(site.output, reads=reads))


def wrong_grouping(site: AttentionSite) -> AttentionSite:
    columns = site.value.columns[:1].expand_as(site.value.columns).contiguous()
    return replace(site, value=replace(site.value, columns=columns))


def added_bias(site: AttentionSite) -> AttentionSite:
    shift = torch.full(site.value.columns.shape, _SHIFT)
    added = shift if site.value.added is None else site.value.added + shift
    return replace(site, value=replace(site.value, added=added))


def dropped_bias(site: AttentionSite) -> AttentionSite:
    """The biases of the values taken away again: what a rebuild without them would be."""
    bias = site.transports.b_V
    if bias is None:
        return site
    own = site.value.added
    added = -bias.cpu() if own is None else own - bias.cpu()
    return replace(site, value=replace(site.value, added=added))


BREAKS: tuple[Break, ...] = (
    swapped_value_heads,
    shuffled_value_channels,
    swapped_output_heads,
    transposed_output,
    wrong_grouping,
    added_bias,
    dropped_bias,
)


def variants(site: AttentionSite) -> dict[str, AttentionSite]:
    """Broken readings of a site by name; those that leave its operator as it is are left out.

    Args:
        site: a site whose layer was rebuilt.

    Returns:
        Sites that claim another operator than the layer has. One value head cannot be swapped, a
        bias that is not there cannot be dropped; what is lost is whatever the name says.
    """
    broken = {f.__name__: f(site) for f in BREAKS}
    return {name: b for name, b in broken.items() if _differs(site, b)}


def _differs(site: AttentionSite, broken: AttentionSite) -> bool:
    """Whether a broken reading changes any part of the operator."""
    mine, other = site.transports, broken.transports
    return not (
        torch.equal(mine.W_V, other.W_V)
        and torch.equal(mine.W_O, other.W_O)
        and _same(mine.b_V, other.b_V)
    )


def _same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return all(t is None or not bool(t.any()) for t in (a, b))
    return torch.equal(a, b)
