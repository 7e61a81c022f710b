"""What one pass shows, call by call: from a value projection to the output projection after it."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from conwalk.capture import differential
from conwalk.capture.alignment import (
    as_applied,
    by_group,
    expanded,
    once_each,
    tokens_first,
)
from conwalk.capture.layer import CapturedLayer, CapturedOutput, CapturedRows, proven_scores
from conwalk.capture.pending import Pending
from conwalk.capture.prompts import Positions, batch_size, pick
from conwalk.capture.row_blocks import RowBlocks, joined_rows, tokens_inside
from conwalk.capture.value_inputs import ValueInputs
from conwalk.errors import CaptureError
from conwalk.models.interception import (
    Attended,
    AttentionCall,
    ParameterFunctionMode,
    ParameterProduct,
    Parameters,
)
from conwalk.models.interception.contraction import Product
from conwalk.models.linear import Linear, module_of
from conwalk.models.sites import AttentionSite

Callback = Callable[[CapturedLayer], None]


class Tap:
    """What is in flight between a value projection and the output projection that follows."""

    quiets: Sequence[Callable[[], AbstractContextManager[None]]] = ()

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
        halves = [s for s in sites if s.subtracted is not None]
        self._second_halves = {(s.backend, s.event + 1): s for s in halves}
        self._first_halves: dict[AttentionSite, tuple[Attended, Tensor]] = {}
        self._events = {"interface": 0, "function": 0}
        self._value_inputs = ValueInputs(sites)
        self._pending: list[Pending] = []
        self._served = 0

    def quiet(self) -> ExitStack:
        """Nobody watches while the context lasts."""
        stack = ExitStack()
        for quiet in self.quiets:
            stack.enter_context(quiet())
        return stack

    def hooked(self) -> ExitStack:
        """The hooks of one pass; leaving the context removes them."""
        hooks = ExitStack()
        for linear, m in self._modules({s.value.linear for s in self._sites.values()}):
            read = partial(self._module_reads, linear)
            hooks.callback(m.register_forward_pre_hook(read).remove)
        for linear, m in self._modules({s.output.linear for s in self._sites.values()}):
            put_out = partial(self._module_puts_out, linear)
            hooks.callback(m.register_forward_hook(put_out).remove)
        return hooks

    @staticmethod
    def _modules(linears: Iterable[Linear]) -> list[tuple[Linear, nn.Module]]:
        modules = ((linear, module_of(linear)) for linear in linears)
        return [(linear, m) for linear, m in modules if m is not None]

    def _module_reads(self, linear: Linear, _: nn.Module, args: tuple[Any, ...]) -> None:
        self._value_read(linear, args)

    def _module_puts_out(
        self, linear: Linear, _: nn.Module, args: tuple[Any, ...], output: Tensor
    ) -> None:
        self._put_out(linear, args, output)

    @contextmanager
    def products(self, module: nn.Module) -> Generator[Callable[[], AbstractContextManager[None]]]:
        """Watch the maps that are products with parameters, if there are any."""
        linears = {x for s in self._sites.values() for x in (s.value.linear, s.output.linear)}
        wanted = [x for x in linears if isinstance(x, ParameterProduct)]
        if not wanted:
            yield nullcontext
            return
        with ParameterFunctionMode(self._product, Parameters(module), wanted) as mode:
            yield mode.quiet

    def _product(
        self, linear: ParameterProduct, seen: Product, run: Callable[[], Tensor]
    ) -> Tensor:
        read = (seen.contraction.read(seen.x),)
        self._value_read(linear, read)
        y = run()
        self._put_out(linear, read, seen.contraction.written(y))
        return y

    def attention(self, call: AttentionCall) -> Tensor:
        """Carry an attention call out, and keep what its layer needs until its output is there."""
        event = self._events[call.backend]
        self._events[call.backend] = event + 1
        site = self._sites.get((call.backend, event))
        if site is None:
            half = self._second_halves.get((call.backend, event))
            return self._passed_by(call) if half is None else self._second_half(half, call)
        if site.subtracted is not None:
            attended = call.run()
            self._first_halves[site] = attended, call.value
            return attended.mixed
        if call.n_heads != site.n_heads:
            raise CaptureError(
                f"{site.name}: {call.n_heads} heads in this pass, {site.n_heads} when its "
                "layout was read; give one example of the real inputs for discovery"
            )
        pending = self._begun(site, call, call.value)
        blocks = self._blocks_for(call)
        if blocks and call.run_rows and not site.output.gated and pending.windows == 1:
            mixed = joined_rows(self._in_rows(pending, call.run_rows, blocks), call)
            self._pending.append(pending)
            return mixed
        attended = as_applied(site, call.run(), call.value)
        scores = call.scores() if self._scores else None
        self._pending.append(
            replace(
                pending,
                attended=attended,
                scores=scores,
                scaling=call.scaling,
                softcap=call.softcap,
            )
        )
        return attended.mixed

    def _second_half(self, site: AttentionSite, call: AttentionCall) -> Tensor:
        """The second of the two calls of a differential attention."""
        (first, value), second = self._first_halves.pop(site), call.run()
        whole, values = differential.joined(site, (first, second), (value, call.value))
        self._pending.append(replace(self._begun(site, call, values), attended=whole))
        return second.mixed

    def _begun(self, site: AttentionSite, call: AttentionCall, value: Tensor) -> Pending:
        lengths = (call.n_queries, call.value.shape[2])
        windows, rest = divmod(call.value.shape[0], self.batch)
        if rest or not windows:
            raise CaptureError(
                f"{site.name}: attention counts {call.value.shape[0]} prompts, the inputs hold "
                f"{self.batch}"
            )
        value_input = self._value_inputs.of(site, call.value.shape[0], lengths[1])
        return Pending(site, lengths, windows, value, value_input, None, None)

    def _blocks_for(self, call: AttentionCall) -> RowBlocks | None:
        """The blocks asked for, if the call is long enough for them."""
        blocks = self._blocks
        return None if blocks is None or call.n_queries <= blocks.above else blocks

    def _passed_by(self, call: AttentionCall) -> Tensor:
        """A call that nobody asked for; in a long pass it goes in blocks of rows as well."""
        blocks = self._blocks_for(call)
        if blocks is None or call.run_rows is None:
            return call.run().mixed
        run_rows, cuts = call.run_rows, blocks.cuts(call.n_queries, call.value.shape[2])
        return joined_rows(((first, run_rows(first, last).mixed) for first, last in cuts), call)

    def _in_rows(
        self,
        pending: Pending,
        run_rows: Callable[[int, int], Attended],
        blocks: RowBlocks,
    ) -> Iterator[tuple[int, Tensor]]:
        """Carry a call out block by block, handing each block over before the next is made.

        Yields:
            First query and mixed values of each block.
        """
        site, (n, m) = pending.site, pending.lengths
        for first, last in blocks.cuts(n, m):
            attended = as_applied(site, run_rows(first, last), pending.value)
            yield first, attended.mixed
            for prompt in range(self.batch):
                queries, keys = self._positions.of(site, prompt, (n, m))
                chosen, before, count = tokens_inside(queries, first, last, n)
                if chosen is not None and not chosen.numel():
                    continue
                blocks.rows(
                    CapturedRows(
                        site=site,
                        prompt=prompt,
                        first=before,
                        n_rows=count,
                        attention=pick(pick(attended.attention[prompt], 1, chosen), 2, keys),
                        value_input=pick(pending.value_input[prompt], 0, keys),
                        value=pick(once_each(site, pending.value[prompt]), 1, keys),
                    )
                )

    def finish(self) -> None:
        """Every site must have been served.

        Raises:
            CaptureError: naming a site that was not.
        """
        if self._pending:
            raise CaptureError(
                f"{self._pending[0].site.name}: its output projection was not reached"
            )
        if self._served != len(self._sites):
            raise CaptureError(
                f"{len(self._sites) - self._served} of {len(self._sites)} attention layers made no "
                "call in this pass; give one example of the real inputs for discovery"
            )

    def _value_read(self, linear: Any, args: tuple[Any, ...]) -> None:
        self._value_inputs.note(linear, args[0])

    def _put_out(self, linear: Any, args: tuple[Any, ...], output: Tensor) -> None:
        waiting = (p for p in self._pending if p.site.output.linear == linear)
        pending = next(waiting, None)
        if pending is None:
            return
        self._pending.remove(pending)
        with self.quiet():
            if pending.attended is None:
                self._close_rows(pending, output)
            else:
                self._hand_over(pending, pending.attended, args[0], output)
        self._served += 1

    def _close_rows(self, pending: Pending, output: Tensor) -> None:
        if self._blocks is None:
            return
        site, (n, _) = pending.site, pending.lengths
        output = by_group(output, self.batch, n, turned=site.output.turned)
        for prompt in range(self.batch):
            queries, _ = self._positions.of(site, prompt, pending.lengths)
            self._blocks.output(CapturedOutput(site, prompt, pick(output[prompt], 0, queries)))

    def _hand_over(
        self, pending: Pending, attended: Attended, read: Tensor, output: Tensor
    ) -> None:
        site, n = pending.site, pending.lengths[0]
        turned = site.output.turned or tokens_first(site, read, attended.mixed)
        groups = len(attended.mixed)
        read = by_group(read, groups, n, turned=turned)
        output = by_group(output, groups, n, turned=turned)
        order = site.output.reads.to(read.device)
        if site.subtracted is not None:
            attended = differential.normalised(attended, read[..., order])
        for prompt in range(self.batch):
            mine = slice(prompt * pending.windows, (prompt + 1) * pending.windows)
            queries, keys = self._positions.of(site, prompt, pending.lengths)
            whole = expanded(attended.attention[mine])
            attention = pick(pick(whole, 1, queries), 2, keys)
            value = once_each(site, pending.value[mine].transpose(0, 1).flatten(1, 2))
            self._callback(
                CapturedLayer(
                    site=site,
                    prompt=prompt,
                    first=0,
                    n_rows=attention.shape[1],
                    attention=attention,
                    value_input=pick(pending.value_input[mine].flatten(0, 1), 0, keys),
                    value=pick(value, 1, keys),
                    mixed=pick(attended.mixed[mine].flatten(0, 1), 0, queries).transpose(0, 1),
                    read=pick(read[mine].flatten(0, 1), 0, queries)[:, order].transpose(0, 1),
                    output=pick(output[mine].flatten(0, 1), 0, queries),
                    scores=self._scores_of(pending, prompt, queries, keys, attention),
                    scaling=pending.scaling,
                    softcap=pending.softcap,
                )
            )

    def _scores_of(
        self,
        pending: Pending,
        prompt: int,
        queries: Tensor | None,
        keys: Tensor | None,
        attention: Tensor,
    ) -> Tensor | None:
        if pending.scores is None or pending.windows > 1:
            return None
        scores = pending.scores.expand(self.batch, *pending.scores.shape[1:])[prompt]
        return proven_scores(pick(pick(scores, 1, queries), 2, keys), attention)
