"""Labelled results: schema, storage, tables. Knows nothing of torch."""

from conwalk.results.dataset import assemble, refused
from conwalk.results.store import prepare, read, save
from conwalk.results.table import layer_records, layer_table
from conwalk.results.variable import Variable, empty
from conwalk.results.verdicts import grouped

__all__ = [
    "Variable",
    "assemble",
    "empty",
    "grouped",
    "layer_records",
    "layer_table",
    "prepare",
    "read",
    "refused",
    "save",
]
