"""From what tagged passes showed to attention sites.

Four or five tiny passes answer every question: labels at full size say where a value comes
from, at size 0 what is added to it, at a very small size whether anything bends it (a gate
saturates on large labels and hides), and random labels whether it is rescaled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.models.linear import Linear
from conwalk.models.sites import AttentionSite, OutputMap, Refusal, Side, ValueMap, numbered
from conwalk.models.tagging import LinearCall, Observation, TaggedPass, Tagger
from conwalk.tolerance import label

_SMALL = 2.0**-14


@dataclass(frozen=True)
class Layout:
    """The attention sites of a model, and the places that could not be read."""

    sites: tuple[AttentionSite, ...]
    refused: tuple[Refusal, ...]


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
    return reader.read()


def _integers(labels: Tensor) -> bool:
    return bool(((labels.round() - labels).abs() <= label(labels)).all())


def _straight(full: Tensor, small: Tensor) -> bool:
    """Whether labels came through in proportion: nothing but linear maps on their way."""
    return bool((small / _SMALL - full).abs().max() <= label(full).max())


def _locate(labels: Tensor, calls: Sequence[LinearCall]) -> tuple[Linear, Tensor] | None:
    if not _integers(labels):
        return None
    channels = labels.round().long()
    for call in calls:
        inside = channels - call.base
        if inside.min() >= 0 and inside.max() < len(call.labels):
            return call.linear, inside
    return None


def _grouped(columns: Tensor, n_heads: int) -> Tensor:
    """Value heads that the model repeated for its query heads, once each."""
    n_values = columns.shape[0]
    for group in range(n_values, 1, -1):
        if n_values % group == 0 and n_heads % (n_values // group) == 0:
            blocks = columns.reshape(n_values // group, group, -1)
            if bool((blocks == blocks[:, :1]).all()):
                return blocks[:, 0]
    return columns


class _Reader:
    """Reads the sites of one model; holds the passes that answer its questions."""

    def __init__(self, module: nn.Module, inputs: dict[str, Any], lengths: dict[int, Side]) -> None:
        self._paths = {m: path for path, m in module.named_modules()}
        self._tagger = Tagger(module, inputs)
        self._lengths = lengths
        self._full = self._tagger.run()
        self._zero = self._tagger.run(scale=0.0)
        self._small = self._tagger.run(scale=_SMALL)
        self._rescaled: tuple[TaggedPass, TaggedPass] | None = None

    def read(self) -> Layout:
        sites: list[AttentionSite] = []
        refused: list[Refusal] = []
        events = {"interface": 0, "function": 0}
        calls: dict[str, int] = {}
        for index, seen in enumerate(self._full.observations):
            call = calls[seen.path] = calls.get(seen.path, -1) + 1
            try:
                sites.append(self._site(index, seen, events[seen.backend], call))
            except _Refused as problem:
                refused.append(Refusal(f"attention call {index} ({seen.path})", str(problem)))
            events[seen.backend] += 1
        return Layout(tuple(numbered(sites)), tuple(refused))

    def _site(self, index: int, seen: Observation, event: int, call: int) -> AttentionSite:
        value = self._value(index, seen)
        output = self._output(index, seen, value.columns.shape[1])
        queries: Side = self._lengths.get(seen.lengths[0], "other")
        keys: Side = self._lengths.get(seen.lengths[1], "other")
        return AttentionSite(
            index=index,
            stack="self",
            layer=0,
            call=call,
            path=seen.path,
            backend=seen.backend,
            event=event,
            n_heads=seen.n_heads,
            sides=(queries, keys),
            value=value,
            output=output,
        )

    def _value(self, index: int, seen: Observation) -> ValueMap:
        offset = self._zero.observations[index].value
        labels = seen.value - offset
        small = self._small.observations[index].value - offset
        straight = _straight(labels, small)
        found = _locate(labels, self._full.calls) if straight else None
        scaled = found is None
        if found is None:
            found = self._rescaled_value(index)
        if found is None:
            raise _Refused("its values are not channels of one linear layer")
        linear, columns = found
        columns = _grouped(columns, seen.n_heads)
        if seen.n_heads % columns.shape[0]:
            raise _Refused(
                f"{seen.n_heads} query heads cannot share {columns.shape[0]} value heads evenly"
            )
        group = offset.shape[0] // columns.shape[0]
        added = offset[::group] if bool(offset.any()) and not scaled else None
        return ValueMap(linear, self._paths[linear], columns, added, scaled)

    def _rescaled_value(self, index: int) -> tuple[Linear, Tensor] | None:
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
                if error <= label(random).max():
                    return call.linear, columns
        return None

    def _output(self, index: int, seen: Observation, width: int) -> OutputMap:
        if seen.output is None or seen.mixed is None:
            raise _Refused("no linear layer reads its heads before the next attention call")
        if self._reused(index, seen):
            raise _Refused("its output linear also reads another attention call of the same pass")
        mixed, zero, small = (
            p.observations[index].mixed for p in (self._full, self._zero, self._small)
        )
        if mixed is None or zero is None or small is None:
            raise _Refused("its output linear changes from pass to pass")
        labels = mixed - zero
        natural = torch.arange(labels.numel())
        read = labels.round().long() - 1
        pure = (
            not bool(zero.any())
            and _straight(labels, small)
            and _integers(labels)
            and bool((read.sort().values == natural).all())
        )
        reads = (read.argsort() if pure else natural).reshape(seen.n_heads, width)
        return OutputMap(seen.output, self._paths[seen.output], reads, gated=not pure)

    def _reused(self, index: int, seen: Observation) -> bool:
        """Two attention calls feed one use of a linear (differential attention): not this walk."""
        others = self._full.observations
        before = others[index - 1] if index else None
        return before is not None and before.output is None and before.path == seen.path
