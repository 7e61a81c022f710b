"""Nothing but its output projection may read what a layer's heads put out.

A layer whose heads also go another way, through a branch beside the output projection or around
it, is more than the walk that is read from that projection. In labelled passes linear layers put
out the same whatever they are given, so nothing else may change when attention puts out zeros.
"""

from collections.abc import Sequence

import torch

from conwalk.models.observations import TaggedPass
from conwalk.models.sites import AttentionSite, Refusal
from conwalk.models.tagging import Tagger

_REASON = (
    "its heads are read by more than the output projection that was found: something beside it or "
    "around it is part of the layer"
)


def refuse_bypassed(
    sites: Sequence[AttentionSite], full: TaggedPass, tagger: Tagger
) -> tuple[list[AttentionSite], list[Refusal]]:
    """Sort out the sites whose heads go another way as well.

    Args:
        sites: in the order of the pass.
        full: what a pass with labels showed.
        tagger: makes more passes of that kind.

    Returns:
        The sites that remain, and the others with the reason.
    """
    kept, refused = list(sites), list[Refusal]()
    while kept:
        silent = tagger.silenced(frozenset(i for s in kept for i in _calls_of(s)))
        changed = _first_changed(kept, full, silent)
        if changed is None:
            break
        # what goes round an earlier layer is seen again once this one is no longer suspected
        before = [s for s in kept if full.observations[s.index].value_linears <= changed]
        culprit = (before or kept)[-1]
        kept.remove(culprit)
        refused.append(Refusal(culprit.name, _REASON, culprit.path))
    return kept, refused[::-1]


def _calls_of(site: AttentionSite) -> tuple[int, ...]:
    return (site.index,) if site.subtracted is None else (site.index, site.index + 1)


def _first_changed(
    sites: Sequence[AttentionSite], full: TaggedPass, silent: TaggedPass
) -> int | None:
    """The first use of a linear layer that reads something else now; one more for the output."""
    allowed = {_output_call(s, full) for s in sites}
    for place, (one, other) in enumerate(zip(full.calls, silent.calls, strict=True)):
        if place not in allowed and not torch.equal(one.read, other.read):
            return place
    one, other = full.returned, silent.returned
    same = one is None or other is None or torch.equal(one, other)
    return None if same else len(full.calls)


def _output_call(site: AttentionSite, seen: TaggedPass) -> int:
    """Which use of a linear layer is the site's output projection."""
    first = seen.observations[_calls_of(site)[-1]].value_linears
    later = range(first, len(seen.calls))
    return next((c for c in later if seen.calls[c].linear == site.output.linear), -1)
