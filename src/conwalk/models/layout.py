"""From what tagged passes showed to attention sites.

Four or five tiny passes answer every question: labels at full size say where a value comes
from, at size 0 what is added to it, at a very small size whether anything bends it (a gate
saturates on large labels and hides), and random labels whether it is rescaled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.models import inference
from conwalk.models.bypass import refuse_bypassed
from conwalk.models.differential import joined_halves, ratio
from conwalk.models.label_reading import (
    PATTERNS,
    SMALL,
    are_integers,
    came_straight,
    for_each_query_head,
    located,
    once_each,
    patterns_put_out,
    tokens_first,
)
from conwalk.models.linear import label
from conwalk.models.observations import Arrival, LinearCall, Observation, TaggedPass
from conwalk.models.sites import AttentionSite, OutputMap, Refusal, Side, ValueMap, numbered
from conwalk.models.tagging import Tagger
from conwalk.tolerance import label as label_error
from conwalk.tolerance import rounding

_UNSTEADY = "its values are mixed across tokens between their projection and attention"


@dataclass(frozen=True)
class Layout:
    """The attention sites of a model, and the places that could not be read.

    Attributes:
        sites: in the order of the pass.
        refused: the others.
        pieces: paths of modules whose attention may be no walk (computed in pieces, values mixed
            across tokens), and why; a site that cannot be rebuilt is refused for that.
        rebuilt: whether the model put other parts into itself for these inputs, and so may be
            another model for longer ones.
    """

    sites: tuple[AttentionSite, ...]
    refused: tuple[Refusal, ...]
    pieces: Mapping[str, str] = field(default_factory=dict[str, str])
    rebuilt: bool = False


class _Refused(Exception):
    """A place that cannot be read, with the reason."""


def discover(module: nn.Module, inputs: dict[str, Any], lengths: dict[int, Side]) -> Layout:
    """Find every place at which a model attends.

    Args:
        module: the model.
        inputs: keyword arguments of one tiny forward pass, batch of 1.
        lengths: which token sequence has which length in that pass.

    Returns:
        The sites in the order of the pass, and what was refused.
    """
    reader = _Reader(module, inputs, lengths)
    return reader.proven(reader.read())


class _Reader:
    """Reads the sites of one model; holds the passes that answer its questions."""

    def __init__(self, module: nn.Module, inputs: dict[str, Any], lengths: dict[int, Side]) -> None:
        self._paths = {m: path for path, m in module.named_modules()}
        self._tagger = Tagger(module, inputs)
        self._lengths = lengths
        self._full = self._tagger.run()
        self._zero = self._tagger.run(scale=0.0)
        self._small = self._tagger.run(scale=SMALL)
        self._rescaled: tuple[TaggedPass, TaggedPass] | None = None
        self._patterns: tuple[TaggedPass, ...] | None = None
        self._dtype = inference.dtype_of(module)

    def read(self) -> Layout:
        sites: list[AttentionSite] = []
        refused: list[Refusal] = []
        events = {"interface": 0, "function": 0}
        calls: dict[str, int] = {}
        pieces = self._pieces()
        partner = -1
        for index, seen in enumerate(self._full.observations):
            call = calls[seen.path] = calls.get(seen.path, -1) + 1
            event = events[seen.backend]
            events[seen.backend] += 1
            if index == partner:
                continue
            try:
                sites.append(self._site(index, seen, event, call))
            except _Refused as problem:
                pair = self._pair(index, event, call)
                if pair is not None:
                    sites.append(pair)
                    partner = index + 1
                else:
                    if seen.path in pieces and any(r.path == seen.path for r in refused):
                        continue
                    reason = pieces.get(seen.path, str(problem))
                    name = f"attention call {index} ({seen.path})"
                    refused.append(Refusal(name, reason, seen.path))
        named = {o.path for o in self._full.observations}
        refused += [Refusal(path, why, path) for path, why in pieces.items() if path not in named]
        unsteady = {o.path: _UNSTEADY for o in self._full.observations if not o.steady}
        return Layout(tuple(numbered(sites)), tuple(refused), unsteady | pieces, self._full.rebuilt)

    def _pieces(self) -> dict[str, str]:
        """Where attention is computed piece by piece, if any is outside the interface."""
        seen = self._full
        interface = seen.observations and not seen.softmaxes
        return {} if interface else self._tagger.pieces()

    def proven(self, layout: Layout) -> Layout:
        """The layout without the sites whose heads go another way as well."""
        sites, bypassed = refuse_bypassed(layout.sites, self._full, self._tagger)
        return replace(layout, sites=tuple(sites), refused=(*layout.refused, *bypassed))

    def _site(self, index: int, seen: Observation, event: int, call: int) -> AttentionSite:
        value = self._value(index, seen)
        output = self._output(index, seen, value.columns.shape[1])
        return self._made(index, event, call, value, output)

    def _made(
        self, index: int, event: int, call: int, value: ValueMap, output: OutputMap
    ) -> AttentionSite:
        seen = self._full.observations[index]
        queries: Side = self._lengths.get(seen.lengths[0], "other")
        keys: Side = self._lengths.get(seen.lengths[1], "other")
        if queries == keys == "other" and seen.lengths[0] != seen.lengths[1]:
            keys = "source"
        return AttentionSite(
            index=index,
            stack="self",
            layer=0,
            call=call,
            path=seen.path,
            backend=seen.backend,
            event=event,
            n_heads=output.reads.shape[0],
            sides=(queries, keys),
            value=value,
            output=output,
            windows=seen.groups > 1,
            reach=seen.reach,
        )

    def _pair(self, index: int, event: int, call: int) -> AttentionSite | None:
        """A call and the next as one differential attention, if that is what they are."""
        first, *rest = self._full.observations[index : index + 2]
        if not rest or not self._alike(first, rest[0]):
            return None
        try:
            values = [self._value(i, o) for i, o in ((index, first), (index + 1, rest[0]))]
        except _Refused:
            return None
        one = values[0]
        columns = joined_halves(*(for_each_query_head(v.columns, first.n_heads) for v in values))
        plain = all(v.added is None and not v.scaled and v.linear == one.linear for v in values)
        if columns is None or not plain:
            return None
        shape = (first.n_heads, one.columns.shape[1])
        for place in range(len(rest[0].arrivals)):
            arrived = self._arrived(self._passes(), index + 1, place)
            limit = rounding(self._dtype)
            if arrived is None or bool(arrived[0].any()):
                continue
            found = ratio(
                arrived[1:],
                patterns_put_out(index, shape),
                patterns_put_out(index + 1, shape),
                limit,
            )
            if found is not None:
                reads = torch.arange(arrived[0].numel()).reshape(shape[0] // 2, -1)
                output = self._output_map(rest[0].arrivals[place], reads, gated=False)
                value = replace(one, columns=once_each(columns, len(columns)))
                site = self._made(index, event, call, value, output)
                return replace(site, subtracted=found)
        return None

    @staticmethod
    def _alike(first: Observation, second: Observation) -> bool:
        """Whether two calls could be the halves of one attention."""
        return (first.path, first.n_heads, first.lengths, first.value.shape) == (
            second.path, second.n_heads, second.lengths, second.value.shape,
        )  # fmt: skip

    def _value(self, index: int, seen: Observation) -> ValueMap:
        offset = self._zero.observations[index].value
        labels = seen.value - offset
        small = self._small.observations[index].value - offset
        straight = came_straight(labels, small)
        found = located(labels, self._full.calls) if straight else None
        scaled = found is None
        if found is None:
            found = self._rescaled_value(index)
        if found is None:
            raise _Refused(
                "its values are not channels of one linear layer" if seen.steady else _UNSTEADY
            )
        call, columns = found
        linear = call.linear
        columns = once_each(columns, seen.n_heads)
        if seen.n_heads % columns.shape[0]:
            raise _Refused(
                f"{seen.n_heads} query heads cannot share {columns.shape[0]} value heads evenly"
            )
        group = offset.shape[0] // columns.shape[0]
        added = offset[::group] if bool(offset.any()) and not scaled else None
        return ValueMap(
            linear, label(linear, self._paths), columns, added, scaled, tokens_first(call.places)
        )

    def _rescaled_value(self, index: int) -> tuple[LinearCall, Tensor] | None:
        """Values that are channels of one linear times a factor for each token and head."""
        if self._rescaled is None:
            self._rescaled = (self._tagger.run("local"), self._tagger.run("random"))
        local, random = (p.observations[index].value for p in self._rescaled)
        low, high = local.min(-1, keepdim=True).values, local.max(-1, keepdim=True).values
        step = (high - low) / max(local.shape[-1] - 1, 1)
        if not bool((step > 0).all()):
            return None
        columns = (local / step).round().long() - 1
        before = self._full.observations[index].value_linears
        for call in self._rescaled[1].calls[:before]:
            if columns.min() >= 0 and columns.max() < len(call.labels):
                expected = call.labels[columns]
                factor = (random * expected).sum(-1, keepdim=True) / expected.square().sum(
                    -1, keepdim=True
                )
                error = (random - factor * expected).abs().max()
                if error <= label_error(random).max():
                    return call, columns
        return None

    def _output(self, index: int, seen: Observation, width: int) -> OutputMap:
        if not seen.arrivals:
            raise _Refused("no linear layer reads its heads before the next attention call")
        shape = (seen.n_heads, width)
        for place in range(len(seen.arrivals)):
            reads = self._pure(index, place)
            if reads is not None:
                return self._output_map(seen.arrivals[place], reads.view(shape), gated=False)
        for place in range(len(seen.arrivals)):
            reads = self._gated(index, place, shape)
            if reads is not None:
                return self._output_map(seen.arrivals[place], reads, gated=True)
        raise _Refused(
            "what its output linear reads is not its heads, each channel times a factor: something "
            "is added to them, or mixes them, on the way"
        )

    def _output_map(self, arrival: Arrival, reads: Tensor, *, gated: bool) -> OutputMap:
        path = label(arrival.linear, self._paths)
        return OutputMap(arrival.linear, path, reads, gated, tokens_first(arrival.places))

    def _arrived(self, passes: Sequence[TaggedPass], index: int, place: int) -> list[Tensor] | None:
        """What one linear read in several passes; None if it was not the same in all."""
        linear = self._full.observations[index].arrivals[place].linear
        found = [p.observations[index].arrivals[place : place + 1] for p in passes]
        if any(not f or f[0].linear != linear for f in found):
            return None
        return [f[0].labels for f in found]

    def _pure(self, index: int, place: int) -> Tensor | None:
        """The channels that hold the heads' coordinates, if they came through unchanged."""
        arrived = self._arrived((self._full, self._zero, self._small), index, place)
        if arrived is None:
            return None
        full, zero, small = arrived
        read = full.round().long() - self._full.observations[index].base
        natural = torch.arange(full.numel())
        whole = not bool(zero.any()) and came_straight(full, small) and are_integers(full)
        return read.argsort() if whole and bool((read.sort().values == natural).all()) else None

    def _passes(self) -> tuple[TaggedPass, ...]:
        """Passes in which attention puts out nothing, and then each of several patterns."""
        if self._patterns is None:
            self._patterns = tuple(self._tagger.pattern(n) for n in range(PATTERNS + 1))
        return self._patterns

    def _gated(self, index: int, place: int, shape: tuple[int, int]) -> Tensor | None:
        """The same where every coordinate is multiplied on its way, whatever the factor.

        With the linears' labels held, factors do not change from pass to pass except by what is
        common to a head (a norm of it), so what arrives over what was put out must be of rank one.
        """
        arrived = self._arrived(self._passes(), index, place)
        if arrived is None:
            return None
        nothing, *several = arrived
        size = torch.stack(several).abs().max()
        limit = rounding(self._dtype)
        if not bool(nothing.abs().max() <= limit * size) or not bool(size > 0):
            return None
        natural = torch.arange(shape[0] * shape[1])
        put_out = patterns_put_out(index, shape)
        for reads in (natural.view(shape), natural.view(shape[::-1]).t().contiguous()):
            read = torch.stack(several)[:, reads]
            factors = read / put_out
            # a gate that is shut lets nothing through to tell an order by
            shut = (read.abs() <= limit * size).all(0)
            change = torch.where(shut, torch.nan, factors / factors[:1])
            off = (change - change.nanmedian(-1, keepdim=True).values).abs()
            if bool((shut | (off <= limit)).all()):
                return reads
        return None
