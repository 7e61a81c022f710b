"""Results to make reports of: random numbers in every shape that results come in."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from conwalk.results import Variable, assemble

PLAIN = (
    ["The", " old", " keeper", " climbed", " the", " stairs", ".", "\n", "He"],
    ["A", " letter", " came", " from", " town"],
)
HOSTILE = (
    [
        "<script>window.hurt=1</script>", '"quoted"', "'", "&amp;", "</script>", "🙂👩‍🚀", "你好",
        "שלום", " مرحبا", "<b>bold</b>", '<a href="javascript:hurt()">', "\u2028", "\t", " ", "",
        "%{x}", "\x1b[31m", "=1+1",
    ],
    ["<img src=x onerror=window.hurt=1>", "--!>", "\\u003c"],
)  # fmt: skip

LAYER, WEIGHTS, HEAD, TOKEN = (
    ("prompt", "layer"), ("layer", "head"), ("prompt", "layer", "head"),
    ("prompt", "layer", "token"),
)  # fmt: skip


class Maker:
    """Fills variables with random numbers of one seed."""

    def __init__(self, tokens: Sequence[Sequence[str]], layers: int, heads: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.lengths = [len(row) for row in tokens]
        self.sizes = {
            "prompt": len(tokens), "layer": layers, "head": heads, "layer_to": layers,
            "token": max(self.lengths),
        }  # fmt: skip
        self.found: dict[str, Variable] = {}

    def put(
        self, name: str, dims: tuple[str, ...], low: float, high: float, **attrs: object
    ) -> None:
        shape = tuple(self.sizes[d] for d in dims)
        values = self.random.uniform(low, high, shape)
        if "token" in dims:
            for prompt, length in enumerate(self.lengths):
                values[prompt, ..., length:] = np.nan
        self.keep(name, dims, values, **attrs)

    def keep(self, name: str, dims: tuple[str, ...], values: np.ndarray, **attrs: object) -> None:
        known = {
            "symbol": f"s({name})", "unit": "1", "range": (None, None), "section": "Theory §2",
            "long_name": f"meaning of {name}", "better": "neither", "comparable_across_length": 1,
        }  # fmt: skip
        self.found[name] = Variable(dims, values, {**known, **attrs})


def report_dataset(
    *,
    tokens: Sequence[Sequence[str]] = PLAIN,
    layers: int = 4,
    heads: int = 3,
    causal: bool = True,
    metrics: bool = True,
    details: bool = True,
    stacks: Sequence[str] | None = None,
    refused: Sequence[dict[str, str]] = (),
    names: Sequence[str] | None = None,
    model: str = "tiny",
    seed: int = 0,
) -> xr.Dataset:
    """Make results of a model that never was."""
    maker = Maker(tokens, layers, heads, seed)
    _always(maker)
    if metrics:
        _asked_for(maker)
    if details:
        _details(maker, causal)
    numbers = [sum(s == stacks[i] for s in stacks[:i]) for i in range(layers)] if stacks else []
    return assemble(
        maker.found,
        layers={
            "layer": [f"{s}.{n}" for s, n in zip(stacks, numbers, strict=True)]
            if stacks
            else list(range(layers)),
            "stack": list(stacks or ["self"] * layers),
            "kind": ["plain"] * layers,
            "verdict": [f"stochastic; irreversible (κ .{i}1, chance .98)" for i in range(layers)],
        },
        prompts=list(names or (f"text{i}" for i in range(len(tokens)))),
        tokens=tokens,
        refused=refused,
        provenance={
            "model": model, "model_class": "Tiny", "model_notes": ["a note"], "dtype": "float32",
            "device": "cpu", "seed": seed, "command": "conwalk analyze tiny",
        },
    )  # fmt: skip


def _always(maker: Maker) -> None:
    maker.put("residual", LAYER, 1e-8, 9e-7, range=(0.0, None), over_prompts="worst")
    maker.put("row_sum_defect", LAYER, 1e-8, 4e-7, range=(0.0, None), better="lower")
    maker.put("rho", WEIGHTS, 0.9, 0.99, range=(0.0, 1.0), null="Gaussian factors")
    for part, low, high in (("null_mean", 0.97, 0.98), ("null_sd", 0.001, 0.002)):
        maker.put(f"rho_{part}", WEIGHTS, low, high)
    maker.put("rho_z", WEIGHTS, -9, 3)
    maker.put("rho_q", WEIGHTS, 0, 0.2)
    maker.put("curl_share", HEAD, 0, 1, range=(0.0, 1.0), null="curl_share_chance", better="lower")
    maker.put("curl_share_chance", LAYER, 0.97, 0.98)
    maker.put("edge_rank", LAYER, 20, 90, range=(1.0, None), null="edge_rank_chance")
    maker.put("edge_rank_chance", LAYER, 60, 90)
    maker.put("sink_fraction", LAYER, 0.1, 1, range=(0.0, 1.0))
    maker.put("entropy_share", HEAD, 0, 1, range=(0.0, 1.0), null="1 for even attention")
    maker.put("self_composition", WEIGHTS, -1, 1, range=(-1.0, 1.0))
    maker.put("depth_tv", LAYER, 0.1, 0.5, range=(0.0, 1.0), null="layers in random order")
    maker.put("depth_tv_null_mean", LAYER, 0.3, 0.4)
    maker.put("depth_tv_null_sd", LAYER, 0.05, 0.06)
    maker.put("depth_tv_z", LAYER, -2, 2)


def _asked_for(maker: Maker) -> None:
    for graph in ("_no_sink", "_value"):
        maker.put(f"depth_tv{graph}", LAYER, 0.1, 0.5, range=(0.0, 1.0))
    for graph in ("", "_no_sink", "_value"):
        maker.put(f"depth_tv_relative{graph}", LAYER, 0.5, 1.5, range=(0.0, None))
        maker.put(f"depth_frobenius{graph}", LAYER, 0.1, 1.5, range=(0.0, 2.0))
        maker.put(f"depth_tv_matrix{graph}", (*LAYER, "layer_to"), 0, 1, range=(0.0, 1.0))
    maker.put("depth_lifted", LAYER, 1, 1.4, null="√2 for layers that have nothing in common")
    for term in ("dirichlet", "stationarity", "compatibility", "leak", "total", "residual"):
        maker.put(f"energy_{term}", LAYER, -0.2, 1)
    for term in ("dirichlet", "stationarity", "compatibility", "leak", "total"):
        maker.put(f"token_energy_{term}", TOKEN, -0.2, 1)
    maker.put("inverse_defect", LAYER, 0.5, 1, null="1 for independent random head maps")
    maker.put("metric_defect", LAYER, 0.5, 1, better="lower", range=(0.0, 1.0))
    maker.put("holonomy", LAYER, 0, 2, range=(0.0, 2.0))


def _details(maker: Maker, causal: bool) -> None:
    random, sizes = maker.random, maker.sizes
    cell = max(1, -(-sizes["token"] // 256))
    cells = [-(-length // cell) for length in maker.lengths]
    shape = (sizes["prompt"], sizes["layer"], max(cells), max(cells))
    walk = random.gamma(0.3, 1.0, shape) + 1e-6
    inside = np.zeros((sizes["prompt"], 1, max(cells), max(cells)), bool)
    for prompt, count in enumerate(cells):
        inside[prompt, :, :count, :count] = True
    if causal:
        walk = np.tril(walk)
    walk = np.where(inside, walk, 0)
    walk = np.where(inside, walk / np.maximum(walk.sum(-1, keepdims=True), 1e-30), np.nan)
    axes = ("prompt", "layer", "query", "key")
    common = {"detail": 1, "tokens_per_cell": cell}
    maker.keep("walk_matrix", axes, walk.astype(np.float32), **common)
    for name, low, high in (("edge_norm", 300, 1500), ("edge_effective_rank", 20, 90)):
        values = np.where(walk > 0, random.uniform(low, high, shape), np.nan)
        maker.keep(name, axes, values.astype(np.float32), **common)
    sigma = np.sort(random.uniform(0.1, 2, (sizes["layer"], sizes["head"], 8)))[..., ::-1]
    maker.keep("singular_values", ("layer", "head", "coordinate"), sigma.copy(), detail=1)
    for end, shift in (("low", -0.1), ("high", 0.1)):
        band = np.tile(np.linspace(1.5, 0.5, 8) + shift, (sizes["layer"], 1))
        maker.keep(f"singular_values_null_{end}", ("layer", "coordinate"), band, detail=1)
    for part in ("real", "imag"):
        values = random.normal(size=(sizes["prompt"], sizes["layer"], 12))
        maker.keep(
            f"spectrum_{part}", (*LAYER, "eigenvalue"), values, detail=1, of="the leading ones"
        )
    scales = random.uniform(2, 9, (sizes["prompt"], sizes["layer"]))
    maker.keep("spectrum_scale", LAYER, scales, detail=1)
    between = random.uniform(0.5, 1.4, (sizes["prompt"], sizes["layer"], sizes["layer"]))
    maker.keep("operator_distance", (*LAYER, "layer_to"), between, detail=1)
    if cell == 1:
        points = random.normal(size=(sizes["prompt"], sizes["layer"], sizes["token"], 3))
        for prompt, length in enumerate(maker.lengths):
            points[prompt, :, length:] = np.nan
        maker.keep("diffusion_map", (*TOKEN, "axis"), points, detail=1)


def decoder() -> xr.Dataset:
    return report_dataset()


def encoder() -> xr.Dataset:
    return report_dataset(causal=False, seed=1)


def hostile() -> xr.Dataset:
    return report_dataset(
        tokens=HOSTILE,
        names=["<script>window.hurt=1</script>", "\u202eesrever"],
        model="</script><script>window.hurt=1</script>",
        refused=[{"name": "layer <b>9</b>", "reason": '"<script>window.hurt=1</script>"'}],
        seed=2,
    )


def bare() -> xr.Dataset:
    """Old results: the default panel, no maps of layers."""
    return report_dataset(metrics=False, details=False, seed=3)


def long() -> xr.Dataset:
    """1024 tokens, four to a cell."""
    return report_dataset(tokens=[[f" w{i}" for i in range(1024)]], layers=3, seed=4)


def two_stacks() -> xr.Dataset:
    return report_dataset(
        stacks=["encoder", "encoder", "decoder", "decoder"],
        refused=[{"name": "cross.0", "reason": "an output gate"}],
        seed=5,
    )


TARGET = (
    ["<s>", " Der", " alte", " Wärter"],
    ["<s>", " Ein", " Brief", " kam", " aus", " der", "."],
)
READ = {
    "encoder.0": ("token_text", "token_text"),
    "decoder.0": ("token_text_target", "token_text_target"),
    "decoder.1": ("token_text_target", "token_text_target"),
    "cross.0": ("token_text_target", "token_text"),
    "cross.1": ("token_text_target", "token_text"),
}


def cross() -> xr.Dataset:
    """An encoder, a decoder, and cross attention: two texts, neither always the longer one."""
    found = report_dataset(stacks=[name.split(".")[0] for name in READ], layers=5, seed=8)
    random = np.random.default_rng(8)
    lengths = {"token_text": [len(t) for t in PLAIN], "token_text_target": [len(t) for t in TARGET]}
    width = found.sizes["token"]
    table = np.full((2, width), "", dtype=object)
    for prompt, tokens in enumerate(TARGET):
        table[prompt, : len(tokens)] = tokens
    for place, (queries, keys) in enumerate(READ.values()):
        for prompt in range(2):
            rows, columns = lengths[queries][prompt], lengths[keys][prompt]
            for name in ("walk_matrix", "edge_norm", "edge_effective_rank"):
                values = np.full((width, width), np.nan)
                values[:rows, :columns] = random.uniform(0.5, 1, (rows, columns))
                if name == "walk_matrix":
                    values /= (
                        np.nansum(values, -1, keepdims=True) + np.isnan(values).all(-1)[:, None]
                    )
                found[name][prompt, place] = values
            for name in [n for n, v in found.items() if "token" in v.dims]:
                values = random.normal(size=found[name].shape[2:])
                values[rows:] = np.nan
                there = name != "diffusion_map" or queries == keys
                found[name][prompt, place] = values if there else np.nan
    return found.assign_coords(
        token_text_target=(("prompt", "token"), table),
        n_tokens_target=("prompt", lengths["token_text_target"]),
        query_tokens=("layer", np.asarray([q for q, _ in READ.values()], dtype=object)),
        key_tokens=("layer", np.asarray([k for _, k in READ.values()], dtype=object)),
    )


def single() -> xr.Dataset:
    return report_dataset(tokens=[["a"]], layers=1, heads=1, seed=6)


def nothing() -> xr.Dataset:
    """Every number missing."""
    found = report_dataset(seed=7)
    return found.map(lambda v: v * np.nan, keep_attrs=True)


CASES = {
    "decoder": decoder, "encoder": encoder, "hostile": hostile, "bare": bare, "long": long,
    "two_stacks": two_stacks, "cross": cross, "single": single, "nothing": nothing,
}  # fmt: skip
