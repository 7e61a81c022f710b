"""The variant of a metric of the weights that reads them with the norm gain folded in."""

from dataclasses import replace
from typing import Any

from conwalk.errors import SelectionError
from conwalk.metrics.metric import Arrays, Metric, Quantity

SUFFIX = "_folded"


def folded(metric: Metric) -> Metric:
    """Name the variant of a metric that is given folded head maps (Theory §0, §3).

    The numbers are the metric's own; whoever computes it hands over what
    :func:`conwalk.connection.fold.fold` makes of the head maps.

    Args:
        metric: a metric of the weights alone.

    Returns:
        The same with ``_folded`` after every name.

    Raises:
        SelectionError: the metric reads more than the weights.
    """
    if not metric.of_weights:
        raise SelectionError(
            f"metric {metric.name} reads {metric.needs}: only metrics of the weights alone have a "
            "folded variant"
        )

    def compute(given: Any) -> Arrays:
        return {f"{name}{SUFFIX}": value for name, value in metric.compute(given).items()}

    return replace(
        metric,
        name=f"{metric.name}{SUFFIX}",
        quantities=tuple(_renamed(q) for q in metric.quantities),
        compute=compute,
        folded=True,
    )


def _renamed(quantity: Quantity) -> Quantity:
    null = quantity.null
    return replace(
        quantity,
        name=f"{quantity.name}{SUFFIX}",
        meaning=f"{quantity.meaning}, with the gain of the norm before it folded in",
        null=f"{null}{SUFFIX}" if null is not None and null.isidentifier() else null,
    )
