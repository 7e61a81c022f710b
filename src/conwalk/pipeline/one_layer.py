"""One exact operator out of a running model."""

from conwalk import tolerance
from conwalk.capture import CapturedLayer, watch
from conwalk.connection import ConnectionWalk
from conwalk.errors import ExactnessError, SelectionError
from conwalk.models import inference
from conwalk.pipeline.source import Batches, Given, Prompts, model_of
from conwalk.theorems import reconstruction


@inference.settled()
def capture_layer(
    model: Given,
    prompt: Prompts,
    layer: int,
    *,
    stack: str | None = None,
    max_length: int | None = None,
) -> CapturedLayer:
    """What one attention layer did with one prompt, proven.

    Args:
        model: a loaded model, a live module, or anything :func:`conwalk.load` takes.
        prompt: one text, one token id sequence in a list, or ready inputs (the first is taken).
        layer: its number.
        stack: which stack of layers, for models with several (``encoder``, ``decoder``, ``cross``).
        max_length: cut the text to this many tokens.

    Returns:
        The layer: walk, value input, output, attention.

    Raises:
        SelectionError: there is no such layer, or it takes ``stack`` to say which.
        ExactnessError: the layer was not rebuilt to the dtype's tolerance.
    """
    model = model_of(model)
    batches = Batches(model, prompt, max_length=max_length)
    watched = watch(model.module, batches.example)
    sites = [s for s in watched.layers([layer]) if stack is None or s.stack == stack]
    if len(sites) != 1:
        stacks = ", ".join(sorted({s.stack for s in watched.sites}))
        raise SelectionError(
            f"layer {layer} names {len(sites)} attention layers: choose a stack of {stacks}"
        )
    caught: list[CapturedLayer] = []
    inputs, _ = next(iter(batches))
    watched.stream(inputs, caught.append, sites)
    found = caught[0]
    residual = reconstruction.residual(found.walk(found.value_input), found.output)
    limit = tolerance.reconstruction(model.dtype)
    if not residual <= limit:
        raise ExactnessError(
            f"{found.site.name}: {reconstruction.shortfall(residual, limit)}; "
            "its walk is not the layer"
        )
    return found


def walk(
    model: Given,
    prompt: Prompts,
    layer: int,
    *,
    stack: str | None = None,
    max_length: int | None = None,
) -> ConnectionWalk:
    """One attention layer on one prompt as an exact connection walk; see :func:`capture_layer`."""
    return capture_layer(model, prompt, layer, stack=stack, max_length=max_length).walk
