"""Silence transformers while a model loads, and leave its settings as they were found."""

import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet() -> Generator[None, None, None]:
    """No progress bars, log lines or warnings of transformers while the context lasts.

    What the user needs to know of a load is said by conwalk instead: in ``Model.notes``
    and in errors.
    """
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    hub_bars = not are_progress_bars_disabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        _restore_bars(bars, hub_bars)


def _restore_bars(bars: bool, hub_bars: bool) -> None:
    """One switch of transformers sets both kinds of bar; each goes back to its own state."""
    from huggingface_hub.utils import disable_progress_bars
    from transformers.utils import logging

    if bars:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.enable_progress_bar()
    if bars and not hub_bars:
        disable_progress_bars()
