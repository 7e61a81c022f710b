"""Watch one forward pass; hand each attention layer over as it happens, then let it go."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from conwalk.capture.prompts import on
from conwalk.capture.row_blocks import RowBlocks
from conwalk.capture.tap import Callback, Tap
from conwalk.models import inference, offload
from conwalk.models.interception import intercept
from conwalk.models.sites import AttentionSite


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
    inputs = on(offload.device(module), inputs)
    tap = Tap(inputs, sites, callback, scores, blocks)
    functions = any(s.backend == "function" for s in sites)
    with (
        inference.eager(module),
        tap.hooked(),
        intercept(tap.attention, tap.batch, functions=functions, scores=scores) as quiet,
        tap.products(module) as without_products,
    ):
        tap.quiets = (quiet, without_products)
        returned = inference.forward(module, inputs, logits=logits)
    tap.finish()
    return returned
