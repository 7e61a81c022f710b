"""Results to draw: every variable that figures, tables and comparisons read, of random numbers."""

import numpy as np
import xarray as xr

from conwalk.results import Variable, assemble

PROMPTS = ("story", '<script>alert(1)</script> 你好 "q"')
TOKENS = (
    ["The", " old", " light", " $x$", " 你好", "|", "<b>", "\n"],
    [" a", "b", "🙂", " c", "d"],
)


def figure_dataset(
    layers: int = 4, heads: int = 3, seed: int = 0, *, causal: bool = True, details: bool = True
) -> xr.Dataset:
    """Make results of a model that never was; prompts of 8 and of 5 tokens."""
    rng = np.random.default_rng(seed)
    found = {
        **_metrics(rng, layers, heads),
        **(_details(rng, layers, heads, causal) if details else {}),
    }
    found["refused_by_nobody"] = Variable(("layer",), rng.random(layers), {"unit": "1"})
    return assemble(
        found,
        layers={
            "layer": list(range(layers)),
            "stack": ["self"] * layers,
            "verdict": [f"stochastic; irreversible (κ .{i}1, chance .98)" for i in range(layers)],
        },
        prompts=PROMPTS,
        tokens=TOKENS,
        refused=[{"name": "text 3", "reason": "it is empty"}],
        provenance={"model": f"tiny-{seed}", "dtype": "float32", "seed": seed},
    )  # fmt: skip


def _attrs(
    symbol: str, meaning: str, low: float | None, high: float | None, **more: object
) -> dict:
    return {
        "symbol": symbol, "unit": "1", "range": (low, high), "long_name": meaning,
        "section": "Theory §3", "better": "neither", "comparable_across_length": 1, **more,
    }  # fmt: skip


def _metrics(rng: np.random.Generator, layers: int, heads: int) -> dict[str, Variable]:
    of_layer, of_head = ("prompt", "layer"), ("layer", "head")
    found = {
        "rho": Variable(of_head, rng.uniform(0.9, 1, (layers, heads)), _attrs(
            "‖M‖_* / (√k ‖M‖_F)", "isometry score; 1 is a scaled isometry", 0.0, 1.0,
            null="Gaussian factors of the same shape", better="higher")),
        "rho_null_mean": Variable(of_head, np.full((layers, heads), 0.97), {"unit": "1"}),
        "rho_null_sd": Variable(of_head, np.full((layers, heads), 0.01), {"unit": "1"}),
        "rho_z": Variable(of_head, rng.normal(size=(layers, heads)), {
            "unit": "1", "long_name": "(rho − null mean) / null sd"}),
        "edge_rank": Variable(of_layer, rng.uniform(20, 40, (2, layers)), _attrs(
            "r_eff", "participation rank of an edge", 1.0, None, null="edge_rank_chance")),
        "edge_rank_chance": Variable(of_layer, rng.uniform(40, 50, (2, layers)), _attrs(
            "1/(1/(k H₂) + 2/d)", "the same for Gaussian heads, mixed alike", 0.0, None)),
        "curl_share": Variable((*of_layer, "head"), rng.random((2, layers, heads)), _attrs(
            "κ = ‖C‖² / ‖N‖²", "share that is no gradient", 0.0, 1.0, null="curl_share_chance",
            comparable_across_length=0)),
        "curl_share_chance": Variable(of_layer, np.full((2, layers), 0.75), _attrs(
            "(n − 2)/n", "the same for independent scores", 0.0, 1.0)),
        "inverse_defect": Variable(of_layer, rng.random((2, layers)), _attrs(
            "‖T_ji − T_ijᵀ‖²", "distance from the transpose", 0.0, 2.0,
            null="1 for independent random head maps")),
        "entropy": Variable((*of_layer, "head"), rng.random((2, layers, heads)), {
            **_attrs("−Σ A log A", "entropy of a query", 0.0, None), "unit": "nat"}),
        "residual": Variable(of_layer, rng.random((2, layers)) * 1e-7, {"over_prompts": "worst"}),
        "sink_fraction": Variable(of_layer, rng.random((2, layers)), _attrs(
            "mean_h [A > 0.3]", "share of sink heads", 0.0, 1.0, comparable_across_length=0)),
        "token_energy_dirichlet": Variable((*of_layer, "token"), rng.random((2, layers, 8)), _attrs(
            "½ Σ W ‖x − xT‖²", "Dirichlet energy of a receiver", 0.0, None)),
    }  # fmt: skip
    for term in ("dirichlet", "stationarity", "compatibility", "leak", "total"):
        found[f"energy_{term}"] = Variable(of_layer, rng.normal(size=(2, layers)), _attrs(
            term, f"{term} energy", None, None))  # fmt: skip
    for suffix, graph in {"": "walk", "_no_sink": "no sink", "_value": "values"}.items():
        steps = rng.random((2, layers))
        steps[:, -1] = np.nan
        found[f"depth_tv{suffix}"] = Variable(of_layer, steps, _attrs(
            "mean ½ Σ |P − P'|", f"distance to the next layer: {graph}", 0.0, 1.0,
            null="layers in random order", comparable_across_length=0))  # fmt: skip
        found[f"depth_tv_null_mean{suffix}"] = Variable(of_layer, np.full((2, layers), 0.5))
        found[f"depth_tv_null_sd{suffix}"] = Variable(of_layer, np.full((2, layers), 0.1))
    return found


def _details(
    rng: np.random.Generator, layers: int, heads: int, causal: bool
) -> dict[str, Variable]:
    walks = rng.random((2, layers, 8, 8)).astype(np.float32)
    if causal:
        walks *= np.tril(np.ones((8, 8), dtype=np.float32))
    walks /= walks.sum(-1, keepdims=True)
    walks[1, :, 5:] = np.nan
    walks[1, :, :, 5:] = np.nan
    edges = ("prompt", "layer", "query", "key")
    there = np.where(walks > 0, walks, np.nan)
    sigma = -np.sort(-rng.random((layers, heads, 6)), axis=-1).astype(np.float32)
    steps = rng.random((2, layers, layers)).astype(np.float32)
    circle = ("prompt", "layer", "eigenvalue")
    band = ("layer", "coordinate")
    whole = {"tokens_per_cell": 1}
    of = {"of": "eigenvalues of the diagonal blocks of 8 tokens"}
    rows = {
        "walk_matrix": (edges, walks, "P_ij", whole),
        "edge_norm": (edges, 3 * there, "‖T_ij‖", whole),
        "edge_effective_rank": (edges, 9 * there, "r_eff", whole),
        "singular_values": (("layer", "head", "coordinate"), sigma, "σ", {}),
        "singular_values_null_low": (band, np.full((layers, 6), 0.8), "5 %", {}),
        "singular_values_null_high": (band, np.full((layers, 6), 1.2), "95 %", {}),
        "spectrum_real": (circle, rng.normal(size=(2, layers, 10)), "Re λ", of),
        "spectrum_imag": (circle, rng.normal(size=(2, layers, 10)), "Im λ", of),
        "operator_distance": (
            ("prompt", "layer", "layer_to"), steps + steps.swapaxes(1, 2), "‖𝒲 − 𝒲'‖", {},
        ),
        "diffusion_map": (
            ("prompt", "layer", "token", "axis"), rng.normal(size=(2, layers, 8, 2)), "φ", {},
        ),
    }  # fmt: skip
    return {
        name: Variable(axes, values, {**_attrs(symbol, f"{name} in words", None, None), **more})
        for name, (axes, values, symbol, more) in rows.items()
    }
