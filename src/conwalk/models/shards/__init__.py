"""Models whose weights stay in their files: layout from labels, matrices layer by layer."""

from conwalk.models.shards.opening import WeightsOnly, open_weights

__all__ = ["WeightsOnly", "open_weights"]
