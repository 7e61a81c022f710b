"""Watch one forward pass; hand each attention layer over as it happens, then let it go."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from conwalk.capture.layer import CapturedLayer, CapturedOutput, CapturedRows, proven_scores
from conwalk.capture.prompts import Positions, batch_size, on, pick, rows
from conwalk.errors import CaptureError
from conwalk.models import inference
from conwalk.models.interception import Attended, AttentionCall, intercept
from conwalk.models.linear import Linear
from conwalk.models.sites import AttentionSite

Callback = Callable[[CapturedLayer], None]

_FULL_KEYS = 2048


@dataclass(frozen=True)
class RowBlocks:
    """Have attention computed and handed over in blocks of query rows, never whole.

    Sites whose calls cannot be split, and passes that are short, go to the plain callback.

    Attributes:
        size: query rows in a block; fewer where there are more than 2048 keys, so that a block
            holds no more numbers than that.
        above: passes with at most this many queries are not split.
        rows: receives each block.
        output: receives the layer's output once all its blocks have been handed over.
    """

    size: int
    above: int
    rows: Callable[[CapturedRows], None]
    output: Callable[[CapturedOutput], None]

    def cuts(self, n_queries: int, n_keys: int) -> list[tuple[int, int]]:
        """First and last (excluded) query of every block."""
        size = max(1, min(self.size, self.size * _FULL_KEYS // n_keys))
        return [(f, min(f + size, n_queries)) for f in range(0, n_queries, size)]


def stream(
    module: nn.Module,
    inputs: dict[str, Any],
    sites: Sequence[AttentionSite],
    callback: Callback,
    *,
    scores: bool = False,
    blocks: RowBlocks | None = None,
    logits: bool = True,
) -> Any:
    """Run the model once; call back for every site and prompt, in the order of the pass.

    Args:
        module: the model; in evaluation and eager mode during the pass, and as found after it.
        inputs: keyword arguments of its forward, right- or left-padded with a mask.
        sites: the sites to capture.
        callback: receives each :class:`CapturedLayer`; nothing is kept once it returns.
        scores: also capture the scores before mask and softmax.
        blocks: hand long passes over in blocks of query rows.
        logits: whether the logits of all tokens are wanted; a model may be spared them.

    Returns:
        What the model returned; bit for bit what an unwatched eager pass returns unless rows
        were handed over in blocks, whose products are rounded otherwise.

    Raises:
        CaptureError: the pass does not show the attention calls that discovery showed.
    """
    device = next((p.device for p in module.parameters()), None)
    if device is not None:
        inputs = on(device, inputs)
    tap = _Tap(inputs, sites, callback, scores, blocks)
    functions = any(s.backend == "function" for s in sites)
    with (
        inference.eager(module),
        tap.hooked(),
        intercept(tap.attention, tap.batch, functions=functions, scores=scores) as quiet,
    ):
        tap.quiet = quiet
        returned = inference.forward(module, inputs, logits=logits)
    tap.finish()
    return returned


@dataclass(frozen=True)
class _Pending:
    """A call whose output projection has not been reached; no attention if it went in rows."""

    site: AttentionSite
    lengths: tuple[int, int]
    value: Tensor
    attended: Attended | None
    scores: Tensor | None
    scaling: float | None = None
    softcap: float | None = None


class _Tap:
    """What is in flight between a value projection and the output projection that follows."""

    quiet: Callable[[], AbstractContextManager[None]]

    def __init__(
        self,
        inputs: dict[str, Any],
        sites: Sequence[AttentionSite],
        callback: Callback,
        scores: bool,
        blocks: RowBlocks | None,
    ) -> None:
        self.batch = batch_size(inputs)
        self._positions = Positions(inputs)
        self._callback = callback
        self._scores = scores
        self._blocks = blocks
        self._sites = {(s.backend, s.event): s for s in sites}
        self._events = {"interface": 0, "function": 0}
        self._value_inputs: dict[Linear, Tensor] = {}
        self._pending: _Pending | None = None
        self._served = 0

    def hooked(self) -> ExitStack:
        """The hooks of one pass; leaving the context removes them."""
        hooks = ExitStack()
        for linear in {s.value.linear for s in self._sites.values()}:
            hooks.callback(linear.register_forward_pre_hook(self._value_read).remove)
        for linear in {s.output.linear for s in self._sites.values()}:
            hooks.callback(linear.register_forward_hook(self._put_out).remove)
        return hooks

    def attention(self, call: AttentionCall) -> Tensor:
        event = self._events[call.backend]
        self._events[call.backend] = event + 1
        site = self._sites.get((call.backend, event))
        if site is None:
            return self._passed_by(call)
        self._expect_nothing_pending()
        if call.n_heads != site.n_heads:
            raise CaptureError(
                f"{site.name}: {call.n_heads} heads in this pass, {site.n_heads} when its "
                "layout was read; give one example of the real inputs for discovery"
            )
        lengths = (call.n_queries, call.value.shape[2])
        blocks = self._blocks_for(call)
        if blocks and call.run_rows and not site.output.gated:
            mixed = self._in_rows(site, call, call.run_rows, blocks)
            self._pending = _Pending(site, lengths, call.value, None, None)
            return mixed
        attended = call.run()
        scores = call.scores() if self._scores else None
        self._pending = _Pending(
            site, lengths, call.value, attended, scores, call.scaling, call.softcap
        )
        return attended.mixed

    def _blocks_for(self, call: AttentionCall) -> RowBlocks | None:
        """The blocks asked for, if the call is long enough for them."""
        blocks = self._blocks
        return None if blocks is None or call.n_queries <= blocks.above else blocks

    def _passed_by(self, call: AttentionCall) -> Tensor:
        """A call that nobody asked for; in a long pass it goes in blocks of rows as well."""
        blocks = self._blocks_for(call)
        if blocks is None or call.run_rows is None:
            return call.run().mixed
        cuts = blocks.cuts(call.n_queries, call.value.shape[2])
        return torch.cat([call.run_rows(first, last).mixed for first, last in cuts], 1)

    def _in_rows(
        self,
        site: AttentionSite,
        call: AttentionCall,
        run_rows: Callable[[int, int], Attended],
        blocks: RowBlocks,
    ) -> Tensor:
        """Carry a call out block by block, handing each block over before the next is made."""
        n, m = call.n_queries, call.value.shape[2]
        value_input = rows(self._value_inputs[site.value.linear], self.batch, m)
        mixed: list[Tensor] = []
        for first, last in blocks.cuts(n, m):
            attended = run_rows(first, last)
            mixed.append(attended.mixed)
            for prompt in range(self.batch):
                queries, keys = self._positions.of(site, prompt, (n, m))
                chosen, before, count = _inside(queries, first, last, n)
                if chosen is not None and not chosen.numel():
                    continue
                blocks.rows(
                    CapturedRows(
                        site=site,
                        prompt=prompt,
                        first=before,
                        n_rows=count,
                        attention=pick(pick(attended.attention[prompt], 1, chosen), 2, keys),
                        value_input=pick(value_input[prompt], 0, keys),
                        value=_value_of(site, call.value[prompt], keys),
                    )
                )
        return torch.cat(mixed, 1)

    def finish(self) -> None:
        """Every site must have been served.

        Raises:
            CaptureError: naming a site that was not.
        """
        self._expect_nothing_pending()
        if self._served != len(self._sites):
            raise CaptureError(
                f"{len(self._sites) - self._served} of {len(self._sites)} attention layers made no "
                "call in this pass; give one example of the real inputs for discovery"
            )

    def _expect_nothing_pending(self) -> None:
        if self._pending is not None:
            raise CaptureError(f"{self._pending.site.name}: its output projection was not reached")

    def _value_read(self, linear: Linear, args: tuple[Any, ...]) -> None:
        self._value_inputs[linear] = args[0]

    def _put_out(self, linear: Linear, args: tuple[Any, ...], output: Tensor) -> None:
        pending = self._pending
        if pending is None or pending.site.output.linear is not linear:
            return
        self._pending = None
        value_input = self._value_inputs.pop(pending.site.value.linear)
        with self.quiet():
            if pending.attended is None:
                self._close_rows(pending, output)
            else:
                self._hand_over(pending, pending.attended, value_input, args[0], output)
        self._served += 1

    def _close_rows(self, pending: _Pending, output: Tensor) -> None:
        if self._blocks is None:
            return
        output = rows(output, self.batch, pending.lengths[0])
        for prompt in range(self.batch):
            queries, _ = self._positions.of(pending.site, prompt, pending.lengths)
            self._blocks.output(
                CapturedOutput(pending.site, prompt, pick(output[prompt], 0, queries))
            )

    def _hand_over(
        self,
        pending: _Pending,
        attended: Attended,
        value_input: Tensor,
        read: Tensor,
        output: Tensor,
    ) -> None:
        site, (n, m) = pending.site, pending.lengths
        value_input = rows(value_input, self.batch, m)
        read, output = rows(read, self.batch, n), rows(output, self.batch, n)
        order = site.output.reads.to(read.device)
        for prompt in range(self.batch):
            queries, keys = self._positions.of(site, prompt, (n, m))
            attention = pick(pick(attended.attention[prompt], 1, queries), 2, keys)
            self._callback(
                CapturedLayer(
                    site=site,
                    prompt=prompt,
                    first=0,
                    n_rows=attention.shape[1],
                    attention=attention,
                    value_input=pick(value_input[prompt], 0, keys),
                    value=_value_of(site, pending.value[prompt], keys),
                    mixed=pick(attended.mixed[prompt], 0, queries).transpose(0, 1),
                    read=pick(read[prompt], 0, queries)[:, order].transpose(0, 1),
                    output=pick(output[prompt], 0, queries),
                    scores=self._scores_of(pending, prompt, queries, keys, attention),
                    scaling=pending.scaling,
                    softcap=pending.softcap,
                )
            )

    def _scores_of(
        self,
        pending: _Pending,
        prompt: int,
        queries: Tensor | None,
        keys: Tensor | None,
        attention: Tensor,
    ) -> Tensor | None:
        if pending.scores is None:
            return None
        scores = pending.scores.expand(self.batch, *pending.scores.shape[1:])[prompt]
        return proven_scores(pick(pick(scores, 1, queries), 2, keys), attention)


def _value_of(site: AttentionSite, value: Tensor, keys: Tensor | None) -> Tensor:
    """Values of the given keys, once for each value head also where the model repeated them."""
    return pick(value[:: value.shape[0] // site.n_kv_heads], 1, keys)


def _inside(
    positions: Tensor | None, first: int, last: int, n: int
) -> tuple[Tensor | None, int, int]:
    """Which rows of a block are tokens, how many tokens came before, and how many there are."""
    if positions is None:
        return None, first, n
    inside = (positions >= first) & (positions < last)
    return positions[inside] - first, int((positions < first).sum()), positions.numel()
