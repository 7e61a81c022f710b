"""Labelled results: schema, storage, tables. Knows nothing of torch."""

from conwalk.results.accessor import Results
from conwalk.results.beside import Null, null_of, siblings
from conwalk.results.dataset import assemble, refused
from conwalk.results.edges import edge_table
from conwalk.results.labels import (
    labels_in,
    labels_of,
    layer_labels,
    model_name,
    place_of_head,
    place_of_layer,
    place_of_prompt,
    relative_depth,
    stacks_of,
    text_of,
)
from conwalk.results.store import prepare, read, save
from conwalk.results.table import (
    head_table,
    layer_records,
    layer_table,
    require,
    tidy,
    token_table,
)
from conwalk.results.variable import Variable, empty
from conwalk.results.verdicts import grouped

__all__ = [
    "Null",
    "Results",
    "Variable",
    "assemble",
    "edge_table",
    "empty",
    "grouped",
    "head_table",
    "labels_in",
    "labels_of",
    "layer_labels",
    "layer_records",
    "layer_table",
    "model_name",
    "null_of",
    "place_of_head",
    "place_of_layer",
    "place_of_prompt",
    "prepare",
    "read",
    "refused",
    "relative_depth",
    "require",
    "save",
    "siblings",
    "stacks_of",
    "text_of",
    "tidy",
    "token_table",
]
