"""The network inside what training and other tools put around it.

Nothing of those tools is imported: a wrapper is known by the name and the home of its class, and
by the attribute that holds what it wraps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from conwalk.errors import SourceError

_DEEPEST = 8
_ADD_TO_THE_LOSS = ("AdaLoraModel",)
"""Tuners with a forward of their own that leaves the network's output alone."""


@dataclass(frozen=True)
class Wrapper:
    """One kind of object that holds a network.

    Attributes:
        home: the package its class lies in, as far as its name is needed.
        names: of the class, or of one that it is derived from.
        attribute: where the network is.
        refusal: says why a given object cannot be taken for what it wraps; None where it can.
    """

    home: str
    names: tuple[str, ...]
    attribute: str
    refusal: Callable[[Any], str | None] = lambda _: None

    def fits(self, given: object) -> bool:
        """Whether something is of this kind."""
        return any(c.__name__ in self.names and _lies_in(c, self.home) for c in type(given).__mro__)


@dataclass(frozen=True)
class Unwrapped:
    """What was inside.

    Attributes:
        module: the network.
        tokenizer: the tokenizer that a wrapper had beside it, or None.
        notes: one line for each wrapper taken off.
    """

    module: nn.Module
    tokenizer: Any
    notes: tuple[str, ...]


def _lies_in(kind: type, home: str) -> bool:
    return f"{kind.__module__}.".startswith(f"{home}.")


def _of_adapters(given: Any) -> str | None:
    """Adapters that change layers go with the layers; others change what the layers are given."""
    config = given.active_peft_config
    if getattr(config, "is_prompt_learning", False):
        return (
            "its adapter puts virtual tokens before the text, which are no tokens of any text; "
            "disable it and pass the base model (get_base_model())"
        )
    tuner = type(given.base_model)
    changes_the_pass = "forward" in vars(tuner) and tuner.__name__ not in _ADD_TO_THE_LOSS
    if changes_the_pass or getattr(config, "alora_invocation_tokens", None):
        return (
            f"its {tuner.__name__} chooses adapters by the input, so no constant head map is the "
            "layer's; pass the base model (get_base_model()) with one adapter merged into it"
        )
    return None


def _sharded(_given: Any) -> str:
    return (
        "its weights are spread over processes; gather them (a full state dict) and pass the "
        "plain module"
    )


WRAPPERS = (
    Wrapper("torch._dynamo", ("OptimizedModule",), "_orig_mod"),
    Wrapper("torch.nn.parallel", ("DataParallel", "DistributedDataParallel"), "module"),
    Wrapper("torch.distributed.fsdp", ("FullyShardedDataParallel",), "module", _sharded),
    Wrapper("torch.optim.swa_utils", ("AveragedModel",), "module"),
    Wrapper("deepspeed", ("DeepSpeedEngine",), "module"),
    Wrapper("lightning.fabric", ("_FabricModule",), "module"),
    Wrapper("peft", ("PeftModel",), "base_model.model", _of_adapters),
    Wrapper("transformers.pipelines", ("Pipeline",), "model"),
    Wrapper("transformers", ("Trainer",), "model"),
    Wrapper("transformer_lens", ("TransformerBridge",), "original_model"),
    Wrapper("nnsight", ("NNsight", "Envoy"), "_module"),
    Wrapper("nnsight", ("NNsight",), "_model"),
)
"""Every wrapper that is known; the first that fits and has its attribute is taken off."""


def unwrap(given: object) -> Unwrapped | None:
    """Take off whatever is around a network.

    Args:
        given: a network, or an object that holds one.

    Returns:
        The network inside, or None if the object is neither.

    Raises:
        SourceError: the network inside is not all there is to it.
    """
    notes: list[str] = []
    tokenizer: Any = None
    for _ in range(_DEEPEST):
        inside = _one_off(given)
        if inside is None:
            break
        name = type(given).__name__
        notes.append(f"the {type(inside).__name__} inside the {name} that was given is analysed")
        tokenizer = tokenizer or getattr(given, "tokenizer", None)
        given = inside
    return Unwrapped(given, tokenizer, tuple(notes)) if isinstance(given, nn.Module) else None


def _one_off(given: object) -> nn.Module | None:
    for wrapper in WRAPPERS:
        if not wrapper.fits(given):
            continue
        inside: object = given
        for name in wrapper.attribute.split("."):
            inside = getattr(inside, name, None)
        if isinstance(inside, nn.Module) and inside is not given:
            reason = wrapper.refusal(given)
            if reason is not None:
                raise SourceError(f"{type(given).__name__}: {reason}")
            return inside
    return None
