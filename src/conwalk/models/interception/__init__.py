"""Notice every application of attention weights to values while a model runs."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from conwalk.models.interception.calls import Attended, AttentionCall, Backend, Handler
from conwalk.models.interception.function_mode import AttentionFunctionMode
from conwalk.models.interception.interface import watch_interface
from conwalk.models.interception.parameters import (
    ParameterFunctionMode,
    ParameterProduct,
    Parameters,
)

__all__ = [
    "Attended",
    "AttentionCall",
    "Backend",
    "Handler",
    "ParameterFunctionMode",
    "ParameterProduct",
    "Parameters",
    "intercept",
]


@contextmanager
def intercept(
    handler: Handler,
    batch: int,
    *,
    functions: bool = True,
    scores: bool = False,
    on_softmax: Callable[[], None] = lambda: None,
) -> Generator[Callable[[], AbstractContextManager[None]]]:
    """Hand every attention call of models run inside to ``handler``.

    Args:
        handler: receives each call; what it returns is what the model goes on with.
        batch: batch size of the pass (flattened head axes are split by it).
        functions: also follow torch functions, for models that bypass the attention interface.
        scores: keep what it takes to give scores before the mask for those as well.
        on_softmax: called for every softmax that could be attention outside of the interface.

    Yields:
        A context in which torch functions are not watched, for work of the handler's own.
    """
    if not functions:
        with watch_interface(handler):
            yield nullcontext
        return
    mode = AttentionFunctionMode(handler, batch, scores=scores, on_softmax=on_softmax)
    with mode, watch_interface(handler, mode.quiet):
        yield mode.quiet
