"""What a report draws besides the metrics: whole maps of every layer, spectra, token maps."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conwalk import dims
from conwalk.connection import ConnectionWalk, HeadTransports
from conwalk.metrics.details import (
    edge_maps,
    eigenvalue_cloud,
    operator_distances,
    singular_values,
    token_map,
)
from conwalk.metrics.metric import Quantity
from conwalk.nulls import gaussian
from conwalk.pipeline.collect import attributes
from conwalk.pipeline.layers import Place
from conwalk.results import Variable

PROMPTS = 8
"""Details are made for this many prompts: a report is read, and nobody reads the maps of more."""
_DRAWS = 128

_LEADS = {
    (dims.PROMPT, dims.LAYER): (
        *edge_maps.QUANTITIES,
        *eigenvalue_cloud.QUANTITIES,
        *token_map.QUANTITIES,
        *operator_distances.QUANTITIES,
    ),
    (dims.LAYER,): singular_values.QUANTITIES,
}


class DetailsPanel:
    """Gathers the maps of a run, layer by layer; of the walks it keeps those of one prompt.

    Args:
        stacks: the stack of every place, in the order of the places.
        n_prompts: how many prompts the run has.
        longest: tokens of the longest, as far as they are known before the pass.
        seed: of the null band.
    """

    def __init__(self, stacks: Sequence[str], n_prompts: int, longest: int, seed: int) -> None:
        self._stacks = stacks
        self._n_prompts = n_prompts
        self._seed = seed
        self._cell = edge_maps.tokens_per_cell(longest)
        self._found: dict[str, dict[tuple[int, ...], NDArray[np.float32]]] = {}
        self._rows: dict[Place, list[Mapping[str, Tensor]]] = {}
        self._walks: dict[int, dict[int, ConnectionWalk]] = {}
        self._grams: operator_distances.Grams = {}
        self._bands: dict[tuple[int, int, int], tuple[Tensor, Tensor]] = {}

    def measure(self, walk: ConnectionWalk, place: Place) -> None:
        """Draw a layer that is there as a whole."""
        if place[0] >= PROMPTS:
            return
        self._keep_maps([edge_maps.edge_rows(walk, self._cell)], place)
        cloud = eigenvalue_cloud.eigenvalue_cloud(walk)
        self._keep("spectrum_real", place, cloud.real)
        self._keep("spectrum_imag", place, cloud.imag)
        self._keep("spectrum_scale", place, eigenvalue_cloud.cloud_scale(walk))
        points = token_map.token_map(walk)
        if points is not None:
            self._keep("diffusion_map", place, points)
        if walk.n_queries <= edge_maps.CELLS:
            self._walks.setdefault(place[0], {})[place[1]] = walk

    def take_rows(self, walk: ConnectionWalk, place: Place) -> None:
        """Draw a block of query rows of a long text."""
        if place[0] < PROMPTS:
            self._rows.setdefault(place, []).append(edge_maps.edge_rows(walk, self._cell))

    def close(self, place: Place, *, proven: bool) -> None:
        """Join the blocks of a layer, if it was proven; let go of them."""
        blocks = self._rows.pop(place, None)
        if blocks and proven:
            self._keep_maps(blocks, place)

    def weigh(self, transports: HeadTransports, place: int) -> None:
        """Put the singular values of a layer's heads beside those of random ones. Theory §3."""
        shape = (transports.width_in, transports.width_out, transports.value_width)
        if shape not in self._bands:
            null = gaussian.singular_values(*shape, draws=_DRAWS, seed=self._seed)
            self._bands[shape] = singular_values.null_band(null)
        self._keep(singular_values.SIGMA.name, (place,), transports.singular_values())
        for quantity, edge in zip(singular_values.BAND, self._bands[shape], strict=True):
            self._keep(quantity.name, (place,), edge)

    def finish_prompt(self, prompt: int) -> None:
        """Compare the layers of a prompt of up to 256 tokens, and let go of them."""
        walks = self._walks.pop(prompt, {})
        by_stack: dict[str, dict[int, ConnectionWalk]] = {}
        for place, walk in walks.items():
            by_stack.setdefault(self._stacks[place], {})[place] = walk
        for chosen in by_stack.values():
            places, distances = operator_distances.operator_distances(chosen, self._grams)
            for place, row in zip(places, distances, strict=True):
                spread = row.new_full((len(self._stacks),), torch.nan)
                spread[torch.tensor(places)] = row
                self._keep("operator_distance", (prompt, place), spread)

    def variables(self) -> dict[str, Variable]:
        """All that was gathered, in single precision; NaN where there is nothing."""
        sizes = {dims.PROMPT: self._n_prompts, dims.LAYER: len(self._stacks)}
        return {
            quantity.name: self._joined(quantity, lead, tuple(sizes[axis] for axis in lead))
            for lead, quantities in _LEADS.items()
            for quantity in quantities
            if quantity.name in self._found
        }

    def _joined(
        self, quantity: Quantity, lead: tuple[str, ...], shape: tuple[int, ...]
    ) -> Variable:
        found = self._found[quantity.name]
        shapes = zip(*(numbers.shape for numbers in found.values()), strict=True)
        inner = tuple(max(sides) for sides in shapes)
        values = np.full((*shape, *inner), np.nan, dtype=np.float32)
        for place, numbers in found.items():
            values[(*place, *(slice(0, n) for n in numbers.shape))] = numbers
        attrs = attributes(quantity) | {"detail": 1, "prompts": PROMPTS}
        if dims.KEY in quantity.dims:
            attrs["tokens_per_cell"] = self._cell
        if quantity in eigenvalue_cloud.PARTS:
            attrs["of"] = eigenvalue_cloud.WHICH
        return Variable((*lead, *quantity.dims), values, attrs)

    def _keep(self, name: str, place: tuple[int, ...], numbers: Tensor) -> None:
        kept = numbers.detach().float().cpu().numpy()
        self._found.setdefault(name, {})[place] = kept

    def _keep_maps(self, blocks: Sequence[Mapping[str, Tensor]], place: Place) -> None:
        for name in blocks[0]:
            joined = torch.cat([block[name] for block in blocks])
            self._keep(name, place, edge_maps.in_cells(joined, self._cell))
