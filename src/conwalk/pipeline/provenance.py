"""What it takes to get the same numbers again."""

import math
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from conwalk import dims
from conwalk.models import Model
from conwalk.models.sites import AttentionSite


def provenance(model: Model, *, seed: int, command: str | None) -> dict[str, Any]:
    """Versions, model, dtype, device, seed and command of an analysis."""
    return {
        "conwalk": version("conwalk"),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "model": model.source,
        "model_kind": model.kind,
        "model_class": type(model.module).__name__,
        "model_quantized": int(model.quantized),
        "model_notes": list(model.notes),
        "weights_hash": model.weights_hash,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
        "seed": seed,
        "command": command or " ".join(sys.argv),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def layer_coordinates(
    sites: Sequence[AttentionSite],
    score_maps: Mapping[int, tuple[float | None, float | None]],
) -> dict[str, list[Any]]:
    """What every layer is.

    Args:
        sites: of the layers.
        score_maps: scaling and softcap of the scores by place, where calls name them.

    Returns:
        Layer numbers where there is one stack, ``stack.number`` where there are several; stack,
        path, kind, and scaling and softcap of the scores and the sliding window in tokens, NaN
        where they are not named or not there.
    """
    named = [score_maps.get(place, (None, None)) for place in range(len(sites))]
    single = len({s.stack for s in sites}) == 1
    return {
        dims.LAYER: [s.layer if single else f"{s.stack}.{s.layer}" for s in sites],
        "stack": [s.stack for s in sites],
        "path": [s.path for s in sites],
        "kind": [s.kind for s in sites],
        "scaling": [math.nan if scaling is None else float(scaling) for scaling, _ in named],
        "softcap": [math.nan if softcap is None else float(softcap) for _, softcap in named],
        "window": [math.nan if s.reach is None else float(s.reach) for s in sites],
    }
