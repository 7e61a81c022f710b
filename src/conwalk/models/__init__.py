"""Trained transformers: where they come from, and where their attention lies."""

from conwalk.models.model import Model
from conwalk.models.source import load

__all__ = ["Model", "load"]
