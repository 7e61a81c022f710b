"""The jobs: verify, analyze, and one walk out of a running model."""

from conwalk.pipeline.analysis import analyze
from conwalk.pipeline.one_layer import capture_layer, walk
from conwalk.pipeline.untrained import analyze_beside_fresh
from conwalk.pipeline.verification import LayerProof, Verification, verify
from conwalk.pipeline.weights_alone import analyze_weights

__all__ = [
    "LayerProof",
    "Verification",
    "analyze",
    "analyze_beside_fresh",
    "analyze_weights",
    "capture_layer",
    "verify",
    "walk",
]
