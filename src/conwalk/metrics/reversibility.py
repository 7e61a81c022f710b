"""Could the scores be those of a reversible walk? (Theory §2)."""

import torch
from torch import Tensor

from conwalk.connection.reversibility import (
    ScoreSplit,
    curl_share_chance,
    irreversible_share_chance,
    split_scores,
)
from conwalk.metrics.metric import HEAD, LAYER, Arrays, LayerData, Metric, Quantity


def _compute(data: LayerData) -> Arrays:
    attention, n = data.walk.attention, data.walk.n_keys
    hidden = (data.matrix == 0).double().mean()
    if data.scores is None or data.walk.n_queries != n:
        undefined = attention.new_full((len(attention),), torch.nan)
        return _answer(ScoreSplit(undefined, undefined), torch.nan, torch.nan, hidden)
    return _answer(
        split_scores(data.scores), curl_share_chance(n), irreversible_share_chance(n), hidden
    )


def _answer(split: ScoreSplit, curl: float, irreversible: float, hidden: Tensor) -> Arrays:
    return {
        "curl_share": split.curl_share,
        "curl_share_chance": torch.tensor(curl, dtype=torch.float64),
        "irreversible_share": split.irreversible_share,
        "irreversible_share_chance": torch.tensor(irreversible, dtype=torch.float64),
        "counterfactual_scores": hidden,
    }


METRIC = Metric(
    name="reversibility",
    quantities=(
        Quantity(
            "curl_share", "κ = ‖C‖² / ‖N‖²", HEAD, "1", (0.0, 1.0),
            "share of the antisymmetric part of the scores that is no gradient; 0 if and only if "
            "the softmax of all scores is reversible",
            "Theory §2", better="lower", null="curl_share_chance", comparable=False,
        ),
        Quantity(
            "curl_share_chance", "(n − 2)/n", LAYER, "1", (0.0, 1.0),
            "the same for independent scores of one variance",
            "Theory §2", comparable=False,
        ),
        Quantity(
            "irreversible_share", "ι = ‖C‖² / ‖S − row means‖²", HEAD, "1", (0.0, 1.0),
            "share of all that the softmax sees of the scores that no reversible walk has",
            "Theory §2", better="lower", null="irreversible_share_chance", comparable=False,
        ),
        Quantity(
            "irreversible_share_chance", "(n − 2)/2n", LAYER, "1", (0.0, 0.5),
            "the same for independent scores of one variance",
            "Theory §2", comparable=False,
        ),
        Quantity(
            "counterfactual_scores", "share of A_ij = 0 in all heads", LAYER, "1", (0.0, 1.0),
            "share of the scores that the mask hides from the softmax: κ and ι read them too, as "
            "what the head would have scored",
            "Theory §2", comparable=False,
        ),
    ),
    needs="scores",
    compute=_compute,
)  # fmt: skip
