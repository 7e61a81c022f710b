"""The jobs: verify, analyze, and one walk out of a running model."""

from conwalk.pipeline.analysis import analyze
from conwalk.pipeline.verification import LayerProof, Verification, verify
from conwalk.pipeline.one_layer import capture, walk

__all__ = ["LayerProof", "Verification", "analyze", "capture", "verify", "walk"]
