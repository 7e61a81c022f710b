"""``--dry-run``: what a job is going to take, from the model's outline."""

from collections.abc import Sequence

from conwalk.cli import console


def forecast(
    job: str,
    source: str,
    texts: Sequence[str],
    max_length: int | None,
    *,
    dtype: str,
    remote: bool,
) -> None:
    """Print the memory and time a job is expected to take; nothing is loaded or downloaded.

    Args:
        job: ``analyze`` or ``verify``.
        source: the model.
        texts: what it is going to read.
        max_length: how far texts are cut.
        dtype: what weights are converted to.
        remote: whether code that comes with the model may run.
    """
    from conwalk.models.shards import open_weights
    from conwalk.pipeline import forecast as forecasts

    opened = open_weights(source, dtype=dtype, offline=True, trust_remote_code=remote)
    work = forecasts.Work.of(texts, max_length)
    told = forecasts.analysis if job == "analyze" else forecasts.verification
    console.echo(f"{job} {source}: {len(opened.sites)} layers, about {sum(work.lengths)} tokens")
    console.echo(str(told(opened, work)))
