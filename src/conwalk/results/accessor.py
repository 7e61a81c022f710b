"""``dataset.conwalk``: what can be done with results, on the results themselves."""

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pandas as pd
import xarray as xr

from conwalk import dims
from conwalk.markup import card, grid
from conwalk.results.dataset import refused
from conwalk.results.labels import layer_labels, model_name
from conwalk.results.table import layer_table, tidy
from conwalk.results.verdicts import grouped

_SHOWN = (
    "first_token_attention", "curl_share", "curl_share_chance", "rho", "rho_null_mean",
    "edge_rank", "edge_rank_chance", "depth_tv",
)  # fmt: skip


@xr.register_dataset_accessor("conwalk")
class Results:
    """Tables, words and pages of the results of ``analyze``.

    Args:
        dataset: the results.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def table(self, by: str = "layer", names: Sequence[str] | None = None) -> pd.DataFrame:
        """Give the numbers as a table.

        Args:
            by: ``layer``, ``head``, ``token`` or ``edge``.
            names: variables; all by default.

        Returns:
            One row a layer, head, token or edge.

        Raises:
            SelectionError: no such table, or no such variable.
        """
        return tidy(self._dataset, by, names)

    @property
    def refused(self) -> list[dict[str, str]]:
        """What could not be analysed, each with its ``name`` and ``reason``."""
        return refused(self._dataset)

    def summary(self) -> str:
        """Say what was analysed, what the layers are, and what was refused.

        Returns:
            A few lines.
        """
        lines = [self._title(), *self._verdicts()]
        lines += [f"refused: {entry['name']}: {entry['reason']}" for entry in self.refused]
        return "\n".join(lines)

    def report(self, path: Path | str) -> Path:
        """Write the results as a page that opens from disk and loads nothing.

        Args:
            path: the file.

        Returns:
            The path.

        Raises:
            OutputError: it cannot be written.
        """
        # pages are made above results; they are asked for by name, when they are wanted
        return import_module("conwalk.report").write(self._dataset, path)

    def _repr_html_(self) -> str:
        """Describe them to a notebook."""
        facts = {f"verdict {i}": line for i, line in enumerate(self._verdicts(), 1)}
        facts |= {f"refused: {e['name']}": e["reason"] for e in self.refused}
        names = [name for name in _SHOWN if name in self._dataset]
        table = layer_table(self._dataset)[names]
        rows = [
            [label, *(_short(value) for value in row)]
            for label, row in zip(
                layer_labels(self._dataset), table.itertuples(index=False), strict=True
            )
        ]
        head = ["layer", *(name.replace("_", " ") for name in names)]
        more = (
            "<p>.table(by), .summary(), .report(path); conwalk.show(dataset) shows the report</p>"
        )
        return card(self._title(), facts, grid(head, rows) if names else "", more)

    def _title(self) -> str:
        found = self._dataset
        prompts, layers = found.sizes[dims.PROMPT], found.sizes[dims.LAYER]
        tokens = int(found["n_tokens"].sum())
        return f"{model_name(found)}: {layers} layers, {prompts} prompts, {tokens} tokens"

    def _verdicts(self) -> list[str]:
        if "verdict" not in self._dataset.coords:
            return []
        return grouped(layer_labels(self._dataset), [str(v) for v in self._dataset.verdict.values])


def _short(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"
