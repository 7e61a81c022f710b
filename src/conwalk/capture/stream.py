"""Watch one forward pass; hand each attention layer over as it happens, then let it go."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from torch import Tensor, nn

from conwalk.capture.layer import CapturedLayer
from conwalk.capture.prompts import Positions, batch_size, on, pick, rows
from conwalk.errors import CaptureError
from conwalk.models import inference
from conwalk.models.interception import Attended, AttentionCall, intercept
from conwalk.models.linear import Linear
from conwalk.models.sites import AttentionSite

Callback = Callable[[CapturedLayer], None]


def stream(
    module: nn.Module,
    inputs: dict[str, Any],
    sites: Sequence[AttentionSite],
    callback: Callback,
) -> Any:
    """Run the model once; call back for every site and prompt, in the order of the pass.

    Args:
        module: the model; in evaluation and eager mode during the pass, and as found after it.
        inputs: keyword arguments of its forward, right- or left-padded with a mask.
        sites: the sites to capture.
        callback: receives each :class:`CapturedLayer`; nothing is kept once it returns.

    Returns:
        What the model returned, bit for bit what an unwatched eager pass returns.

    Raises:
        CaptureError: the pass does not show the attention calls that discovery showed.
    """
    device = next((p.device for p in module.parameters()), None)
    if device is not None:
        inputs = on(device, inputs)
    tap = _Tap(inputs, sites, callback)
    functions = any(s.backend == "function" for s in sites)
    with (
        inference.eager(module),
        tap.hooked(),
        intercept(tap.attention, tap.batch, functions=functions) as quiet,
    ):
        tap.quiet = quiet
        returned = inference.forward(module, inputs)
    tap.finish()
    return returned


class _Tap:
    """What is in flight between a value projection and the output projection that follows."""

    quiet: Callable[[], AbstractContextManager[None]]

    def __init__(
        self, inputs: dict[str, Any], sites: Sequence[AttentionSite], callback: Callback
    ) -> None:
        self.batch = batch_size(inputs)
        self._positions = Positions(inputs)
        self._callback = callback
        self._sites = {(s.backend, s.event): s for s in sites}
        self._events = {"interface": 0, "function": 0}
        self._value_inputs: dict[Linear, Tensor] = {}
        self._pending: tuple[AttentionSite, Attended, Tensor] | None = None
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
        attended = call.run()
        if site is not None:
            self._expect_nothing_pending()
            if call.n_heads != site.n_heads:
                raise CaptureError(
                    f"{site.name}: {call.n_heads} heads in this pass, {site.n_heads} when its "
                    "layout was read; give one example of the real inputs for discovery"
                )
            self._pending = (site, attended, call.value)
        return attended.mixed

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
            raise CaptureError(f"{self._pending[0].name}: its output projection was not reached")

    def _value_read(self, linear: Linear, args: tuple[Any, ...]) -> None:
        self._value_inputs[linear] = args[0]

    def _put_out(self, linear: Linear, args: tuple[Any, ...], output: Tensor) -> None:
        if self._pending is None or self._pending[0].output.linear is not linear:
            return
        site, attended, value = self._pending
        self._pending = None
        value_input = self._value_inputs.pop(site.value.linear)
        with self.quiet():
            self._hand_over(site, attended, value, value_input, args[0], output)
        self._served += 1

    def _hand_over(
        self,
        site: AttentionSite,
        attended: Attended,
        value: Tensor,
        value_input: Tensor,
        read: Tensor,
        output: Tensor,
    ) -> None:
        batch, _, n, m = attended.attention.shape
        transports, bias = site.transports, site.output_bias()
        value_input = rows(value_input, batch, m)
        read, output = rows(read, batch, n), rows(output, batch, n)
        for prompt in range(batch):
            queries, keys = self._positions.of(site, prompt, (n, m))
            # a model may have repeated its value heads for the query heads
            repeats = value.shape[1] // site.n_kv_heads
            in_order = pick(read[prompt], 0, queries)[:, site.output.reads.to(read.device)]
            self._callback(
                CapturedLayer(
                    site=site,
                    prompt=prompt,
                    attention=pick(pick(attended.attention[prompt], 1, queries), 2, keys),
                    value_input=pick(value_input[prompt], 0, keys),
                    value=pick(value[prompt, ::repeats], 1, keys),
                    mixed=pick(attended.mixed[prompt], 0, queries).transpose(0, 1),
                    read=in_order.transpose(0, 1),
                    output=pick(output[prompt], 0, queries),
                    transports=transports,
                    output_bias=bias,
                )
            )
