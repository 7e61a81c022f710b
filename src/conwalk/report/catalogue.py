"""What a report shows together, and its titles; everything else is found in the results."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Curves:
    """Quantities whose course over the layers is drawn side by side.

    Attributes:
        key: identifier in the page.
        title: heading.
        note: one or two sentences under it.
        names: variables; those that are not in the results are passed over.
        ask: names of metrics that measure them, for when none is there.
    """

    key: str
    title: str
    note: str
    names: tuple[str, ...]
    ask: str


CURVES = (
    Curves(
        "conditions",
        "How far each condition is from holding",
        "A random-walk connection Laplacian has rows that sum to 1, reversible weights, transports "
        "that keep lengths, and a transpose on the way back. Each defect is 0 where its condition "
        "holds.",
        (
            "row_sum_defect", "leak", "curl_share", "irreversible_share", "flow_asymmetry",
            "stationarity_defect", "metric_defect", "metric_shape_defect", "inverse_defect",
            "self_loop_defect",
        ),
        "stochasticity,reversibility,flow,compatibility,inverse_consistency",
    ),
    Curves(
        "transports",
        "What the transports are like",
        "ρ compares a head's map with the nearest scaled isometry; r_eff counts the directions "
        "that an edge really carries.",
        (
            "rho", "rho_folded", "edge_rank", "edge_rho", "antisymmetric_share", "eigen_spread",
            "data_isometry_defect", "self_composition", "layer_composition", "next_composition",
        ),
        "isometry,isometry_folded,edge_rank,reflection",
    ),
    Curves(
        "attention",
        "Where attention goes",
        "Heads that rest on the first token make a walk look stable and reversible; this is how "
        "many do.",
        ("first_token_attention", "sink_fraction", "entropy_share"),
        "sink,entropy",
    ),
    Curves(
        "spectrum",
        "Spectrum, gaps and curvature",
        "Eigenvalues of the whole walk, how fast it mixes, and how much two ways around a triangle "
        "of tokens disagree.",
        (
            "spectral_radius", "operator_norm", "normality_departure", "numerical_abscissa_share",
            "connection_gap", "walk_gap", "restart_gap", "restart_multiplicative_gap", "holonomy",
            "holonomy_excess", "frustration",
        ),
        "spectrum,normality,restart,holonomy,frustration",
    ),
)  # fmt: skip

STABILITY = (
    "depth_tv", "depth_frobenius", "depth_spectrum", "depth_heat_1", "depth_heat_4",
    "depth_subspace_8", "depth_lifted", "fixed_kernel_r2",
)  # fmt: skip
"""Distances between layers, each of which exists for several graphs."""

GRAPHS = (("", "Raw walk"), ("_no_sink", "Sink removed"), ("_value", "Value-weighted"))
"""Suffix of the variables of a graph, and what a reader calls it."""

LEDGERS = (
    ("energy_", "Tokens weighted alike"),
    ("fitted_energy_", "Scale fitted to the tokens"),
    ("stationary_energy_", "Weighted by the stationary law"),
)
TERMS = ("dirichlet", "stationarity", "compatibility", "leak")

TITLES = {
    "antisymmetric_share": "Antisymmetric share of the polar factor",
    "connection_gap": "Spectral gap of the walk with transports",
    "curl_share": "Curl share of the scores",
    "data_isometry_defect": "Isometry defect on the data",
    "depth_frobenius": "Frobenius distance",
    "depth_heat_1": "Heat kernels, time 1",
    "depth_heat_4": "Heat kernels, time 4",
    "depth_lifted": "Walks with their transports",
    "depth_spectrum": "Singular spectra",
    "depth_subspace_8": "Bottom eigenspaces",
    "depth_tv": "Total variation of rows to the next layer",
    "edge_effective_rank": "Effective rank of every edge",
    "edge_norm": "Norm of every edge's transport",
    "edge_rank": "Effective rank of edges",
    "edge_rho": "Isometry score of edges",
    "eigen_spread": "Spread of the eigenvalues",
    "entropy_share": "Entropy, as a share of even attention",
    "first_token_attention": "Attention to the first token",
    "fixed_kernel_r2": "Kernel shared by all prompts",
    "flow_asymmetry": "Asymmetry of the flow",
    "frustration": "Frustration of the best gauge",
    "holonomy": "Holonomy of triangles",
    "holonomy_excess": "Holonomy beyond constant transports",
    "inverse_defect": "Inverse consistency defect",
    "irreversible_share": "Irreversible share of the scores",
    "layer_composition": "Composition within the layer",
    "leak": "Leak of the rows",
    "metric_defect": "Metric compatibility defect",
    "metric_shape_defect": "Metric defect, scale set aside",
    "next_composition": "Composition with the next layer",
    "normality_departure": "Departure from normality",
    "numerical_abscissa_share": "Numerical abscissa",
    "operator_distance": "Distance of the walks of any two layers",
    "operator_norm": "Norm of the walk",
    "restart_gap": "Gap with restarts",
    "restart_multiplicative_gap": "Multiplicative gap with restarts",
    "rho": "Isometry score of heads",
    "rho_folded": "Isometry score, norm gain folded in",
    "row_sum_defect": "Row sum defect",
    "residual": "Residual of the rebuilt layer",
    "self_composition": "Self-composition",
    "self_loop_defect": "Self-loops",
    "sink_fraction": "Share of sink heads",
    "spectral_radius": "Spectral radius",
    "stationarity_defect": "Stationarity defect",
    "walk_gap": "Spectral gap of the walk matrix",
    "walk_matrix": "Walk matrix",
}

OVERVIEW = (
    "residual", "row_sum_defect", "curl_share", "metric_defect", "inverse_defect", "rho",
    "edge_rank", "sink_fraction", "entropy_share", "depth_tv",
)  # fmt: skip
"""What the table at the top of a report holds."""


def title(name: str) -> str:
    """Name a variable for a reader.

    Args:
        name: of a variable.

    Returns:
        Its title; the name in plain words where none was chosen.
    """
    if name in TITLES:
        return TITLES[name]
    for suffix, graph in GRAPHS[1:]:
        if name.endswith(suffix) and name.removesuffix(suffix) in TITLES:
            return f"{TITLES[name.removesuffix(suffix)]}, {graph.lower()}"
    return name.replace("_", " ").capitalize()
