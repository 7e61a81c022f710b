"""The jobs: verify, analyze, and one walk out of a running model."""

from conwalk.pipeline.analyze import analyze
from conwalk.pipeline.verify import LayerProof, Verification, verify
from conwalk.pipeline.walk import capture, walk

__all__ = ["LayerProof", "Verification", "analyze", "capture", "verify", "walk"]
