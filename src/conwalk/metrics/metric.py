"""What a metric is: records that say how its numbers are read, and one function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor

from conwalk import dims
from conwalk.connection import ConnectionWalk
from conwalk.markup import card, grid

Arrays = Mapping[str, Tensor]
Needs = Literal[
    "singular values", "weights", "rows", "matrix", "heads", "scores", "depth", "prompts"
]
Direction = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Quantity:
    """One named array of a metric, and all a reader needs to know about it.

    Attributes:
        name: variable name in results.
        symbol: how formulas write it.
        dims: axes besides prompt and layer: ``head``, ``token``, ``layer_to``; maps have others.
        unit: ``"1"`` for pure numbers.
        bounds: smallest and largest value it can take; None where there is none.
        meaning: one sentence.
        section: where the formula comes from.
        better: which direction is closer to a connection Laplacian.
        null: what it is compared with, in words, or None.
        comparable: whether values at different numbers of tokens may be compared.
    """

    name: str
    symbol: str
    dims: tuple[str, ...]
    unit: str
    bounds: tuple[float | None, float | None]
    meaning: str
    section: str
    better: Direction = "neither"
    null: str | None = None
    comparable: bool = True

    @property
    def range_words(self) -> str:
        """Smallest and largest value, and the unit if there is one."""
        low, high = ("…" if bound is None else f"{bound:g}" for bound in self.bounds)
        return f"[{low}, {high}]{'' if self.unit == '1' else f' {self.unit}'}"

    def _repr_html_(self) -> str:
        """Describe it to a notebook."""
        facts = {
            "symbol": self.symbol,
            "range": self.range_words,
            "meaning": self.meaning,
            "from": self.section,
            "null": self.null or "–",
        }
        return card(self.name, facts)


@dataclass(frozen=True, eq=False)
class LayerData:
    """One layer of one prompt as metrics see it, all of it or a block of query rows.

    Attributes:
        walk: the connection walk of these rows.
        value_input: X, ``(key, d)``.
        output: Y of these rows, ``(query, d)``; None where it is not known yet.
        first: index of the first of these rows.
        scores: scaled scores before mask and softmax, where the metric asked for them.
        given: P, where it is there already.
    """

    walk: ConnectionWalk
    value_input: Float[Tensor, "key d_in"]
    output: Float[Tensor, "query d_out"] | None = None
    first: int = 0
    scores: Float[Tensor, "head query key"] | None = None
    given: Float[Tensor, "query key"] | None = None

    @cached_property
    def matrix(self) -> Float[Tensor, "query key"]:
        """P, made once for all metrics that read it; they must leave it as it is."""
        return self.walk.walk_matrix() if self.given is None else self.given


Compute = Callable[[Any], Arrays]
"""Reads a :class:`LayerData`, a ``HeadTransports``, or singular values ``(head, k)``."""


def _as_is(arrays: Arrays) -> Arrays:
    return arrays


@dataclass(frozen=True)
class Metric:
    """A question asked of a layer.

    Attributes:
        name: how it is chosen on the command line.
        quantities: the arrays it answers with.
        needs: what it reads, which also says how it can be computed: ``singular values`` of the
            heads, and so beside the same of a null, and ``weights``, both once a model;
            ``rows`` by blocks of query rows; ``matrix`` the walk matrix; ``heads`` every head's
            matrix; ``scores`` the scores before the softmax; ``depth`` what it keeps of every layer
            of a prompt; ``prompts`` what it keeps of one layer for prompts of equal length.
        compute: the function; with ``rows`` its arrays end in a query axis, and those of
            consecutive blocks are joined along it; with ``depth`` and ``prompts`` what to keep.
        finish: for ``rows``: from the joined arrays to the quantities; for ``depth``: from what
            was kept, stacked along the layers, to quantities whose first axis is the layer; for
            ``prompts``: from what was kept, stacked along the prompts, to the quantities.
        default: whether it is part of the panel that runs unasked.
        chance: name of the null model (``conwalk.nulls.ALL``) that layers are drawn from when nulls
            are asked for; None where there is none, or a closed form stands beside it.
        folded: of metrics of the weights, whether the gain of the norm that feeds the value
            projection is multiplied into the maps first.
    """

    name: str
    quantities: tuple[Quantity, ...]
    needs: Needs
    compute: Compute
    finish: Callable[[Arrays], Arrays] = _as_is
    default: bool = True
    chance: str | None = None
    folded: bool = False

    def _repr_html_(self) -> str:
        """Describe it and its quantities to a notebook."""
        rows = [
            (q.name, q.symbol, q.range_words, q.meaning, q.null or "–") for q in self.quantities
        ]
        head = ("quantity", "symbol", "range", "meaning", "null")
        asked = "runs unasked" if self.default else "only when asked for"
        return card(f"metric {self.name}", {"reads": self.needs, "runs": asked}, grid(head, rows))

    @property
    def of_weights(self) -> bool:
        """Whether it depends on the weights alone, and so is the same for every prompt."""
        return self.needs in ("singular values", "weights")


HEAD = (dims.HEAD,)
LAYER: tuple[str, ...] = ()
