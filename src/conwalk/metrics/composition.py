"""Can heads read what heads write: subspaces within a layer and from layer to layer (Theory §3)."""

import torch

from conwalk.connection import HeadTransports
from conwalk.connection.composition import composition, composition_by_chance, shared_subspace
from conwalk.connection.subspaces import principal_bases
from conwalk.metrics.metric import HEAD, LAYER, Arrays, LayerData, Metric, Quantity


def _within(transports: HeadTransports) -> Arrays:
    if transports.width_in != transports.width_out:
        undefined = transports.W_O.new_full((transports.n_heads,), torch.nan)
        return {
            "self_composition": undefined,
            "layer_composition": undefined,
            "composition_chance": undefined[0],
        }
    shares = composition(transports, transports)
    return {
        "self_composition": shares.diagonal(),
        "layer_composition": shares.mean(-1),
        "composition_chance": shares.new_tensor(
            composition_by_chance(transports.width_in, transports.value_width)
        ),
    }


def _keep(data: LayerData) -> Arrays:
    bases = principal_bases(data.walk.transports)
    return {"inputs": bases.inputs, "outputs": bases.outputs, "rank": bases.rank}


def _across(layers: Arrays) -> Arrays:
    inputs, outputs, rank = layers["inputs"], layers["outputs"], layers["rank"]
    # (layer, head); what the last layer writes nobody reads
    mean = outputs.new_full(outputs.shape[:2], torch.nan)
    best = mean.clone()
    if inputs.shape[2] == outputs.shape[2]:
        for layer in range(len(outputs) - 1):
            shares = shared_subspace(outputs[layer], inputs[layer + 1], rank[layer])
            mean[layer], best[layer] = shares.mean(-1), shares.amax(-1)
    return {"next_composition": mean, "next_composition_best": best}


_CHANCE = "k/d for random subspaces"

WITHIN = Metric(
    name="composition",
    quantities=(
        Quantity(
            "self_composition", "‖U_hᵀV_h‖_F² / k", HEAD, "1", (0.0, 1.0),
            "share of the subspace a head writes that lies inside the one it reads itself",
            "Theory §3", null="composition_chance",
        ),
        Quantity(
            "layer_composition", "mean_g ‖U_hᵀV_g‖_F² / k", HEAD, "1", (0.0, 1.0),
            "the same for what the heads of its layer read, mean over them",
            "Theory §3", null="composition_chance",
        ),
        Quantity(
            "composition_chance", "k/d", LAYER, "1", (0.0, 1.0),
            "the same for random subspaces",
            "Theory §3",
        ),
    ),
    needs="weights",
    compute=_within,
)  # fmt: skip

ACROSS = Metric(
    name="next_composition",
    quantities=(
        Quantity(
            "next_composition", "mean_g ‖U_hᵀV_g‖_F² / k", HEAD, "1", (0.0, 1.0),
            "share of the subspace a head writes that lies inside the ones the heads of the next "
            "layer read, mean over them",
            "Theory §3", null=_CHANCE,
        ),
        Quantity(
            "next_composition_best", "max_g ‖U_hᵀV_g‖_F² / k", HEAD, "1", (0.0, 1.0),
            "the same for the head of the next layer that reads most of it",
            "Theory §3", null=_CHANCE,
        ),
    ),
    needs="depth",
    compute=_keep,
    finish=_across,
    default=False,
)  # fmt: skip

METRICS = (WITHIN, ACROSS)
