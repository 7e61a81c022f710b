"""Null models: what a number would be by chance."""

from conwalk.nulls import gaussian

__all__ = ["gaussian"]
