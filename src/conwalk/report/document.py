"""A report: one HTML file with everything in it."""

import xarray as xr

from conwalk.report import catalogue, tables, template
from conwalk.report.content import content
from conwalk.report.summary import Sentence, sentences

MOST_MEGABYTES = 15.0
"""Largest size of a report, unless asked for more."""
_FRAME = 3_500_000
"""Characters kept free for the page itself: Plotly, style, scripts, text."""
_SCRIPTS = (
    *template.SCRIPTS,
    "state.js",
    "curves.js",
    "depth.js",
    "heads.js",
    "layer.js",
    "tokens.js",
    "report.js",
)


def page(dataset: xr.Dataset, *, megabytes: float = MOST_MEGABYTES) -> str:
    """Write results as a page that opens from disk and loads nothing.

    Args:
        dataset: results of ``analyze``; whatever is missing from them, the page says so.
        megabytes: size that maps of layers may fill the page up to; those of the first prompts
            come first, and the page says how many were left out.

    Returns:
        HTML.
    """
    data, blocks = content(dataset, int(megabytes * 1_000_000) - _FRAME)
    head, rows = tables.layers(dataset)
    return template.render(
        "report.html.j2",
        model=data["model"] or "a model",
        topics=_topics(sentences(dataset)),
        overview=tables.overview(dataset),
        layer_head=head,
        layer_rows=rows,
        definitions=tables.definitions(dataset),
        provenance=tables.provenance(dataset),
        curves=catalogue.CURVES,
        groups={group["key"]: group["names"] for group in data["curves"]},
        data=template.as_json(data),
        blocks=blocks.texts,
        plotly=template.plotly(),
        scripts=_SCRIPTS,
    )


def _topics(told: list[Sentence]) -> dict[str, list[str]]:
    topics: dict[str, list[str]] = {}
    for sentence in told:
        topics.setdefault(sentence.topic, []).append(sentence.text)
    return topics
