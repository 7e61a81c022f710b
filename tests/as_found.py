"""A fingerprint of a model and of the process around it, to hold against a later one."""

import copy
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.modeling_utils import AttentionInterface


def fingerprint(module: nn.Module) -> dict[str, Any]:
    """All that an analysis could leave behind: in the model, and in the process around it."""
    found = {f"module {path}": _of_module(m) for path, m in module.named_modules()}
    found |= {f"config {path}": _configuration(m) for path, m in module.named_modules()}
    found |= {f"parameter {n}": _of_tensor(p) for n, p in module.named_parameters()}
    found |= {f"buffer {n}": _of_tensor(b) for n, b in module.named_buffers()}
    return found | _of_process()


def _of_module(m: nn.Module) -> dict[str, Any]:
    held = {n: id(v) for n, v in vars(m).items()}
    inside = {n: list(map(id, v.values())) for n, v in vars(m).items() if isinstance(v, dict)}
    keys = {n: list(v) for n, v in vars(m).items() if isinstance(v, dict)}
    return {"class": type(m), "mode": m.training, "held": held, "inside": inside, "keys": keys}


def _configuration(m: nn.Module) -> Any:
    config = getattr(m, "config", None)
    return (
        copy.deepcopy(config.to_dict()) | {"attention": config._attn_implementation}
        if (hasattr(config, "_attn_implementation"))
        else id(config)
    )


def _of_tensor(t: Tensor) -> dict[str, Any]:
    values = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return {
        "object": id(t),
        "at": (t.data_ptr(), t.device, t.dtype, tuple(t.shape), t.stride()),
        "gradient": (t.requires_grad, id(t.grad)),
        "version": None if t.is_inference() else t._version,
        "values": hash(values.numpy().tobytes()),
    }


def _of_process() -> dict[str, Any]:
    # Python's own random numbers are not in it: beartype, which checks the calls, draws them
    return {
        "interface": AttentionInterface.get_interface,
        "function mode": torch.overrides._get_current_function_mode(),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "stance": torch._dynamo.eval_frame._stance.stance,
        "random of torch": torch.get_rng_state().tolist(),
        "random of numpy": str(np.random.get_state()),  # noqa: NPY002
    }


@contextmanager
def left_as_found(module: nn.Module) -> Generator[None]:
    """Fails if what happens inside leaves a trace, also where it raises."""
    before = fingerprint(module)
    try:
        yield
    finally:
        after = fingerprint(module)
        changed = [name for name in before | after if before.get(name) != after.get(name)]
        assert not changed, f"not as found: {changed}"
