"""From the names tensors have in a checkpoint to those the model has for them.

transformers renames, splits and joins tensors while it loads a model; the same rules, applied to
one parameter at a time.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

Read = Callable[[str], Tensor]


@dataclass
class Recipe:
    """How one parameter is made of tensors of the checkpoint.

    Attributes:
        first: the name under which the rules collect these tensors.
        converter: what joins or splits them; None where the parameter is one tensor as it is.
        sources: names in the checkpoint, each with the pattern it matched.
    """

    first: str
    converter: Any = None
    sources: list[tuple[str, str]] = field(default_factory=list)

    @property
    def key(self) -> str | None:
        """The one tensor that is the parameter, if it is one as it stands."""
        return None if self.converter else self.sources[0][0]

    def make(self, name: str, module: nn.Module, read: Read) -> Tensor:
        """The parameter, from its tensors.

        Args:
            name: of the parameter.
            module: the model it belongs to.
            read: gives a tensor of the checkpoint.
        """
        if self.converter is None:
            return read(self.sources[0][0])
        converter = deepcopy(self.converter)
        for key, pattern in self.sources:
            converter.add_tensor(self.first, key, pattern, read(key))
        made = converter.convert(self.first, model=module, config=module.config)[name]
        return made[0] if isinstance(made, list) else made


def recipes(module: Any, keys: Iterable[str]) -> Mapping[str, Recipe]:
    """How the parameters of a model are made of the tensors of a checkpoint.

    Args:
        module: a model of transformers; its weights may be on the meta device.
        keys: names in the checkpoint.

    Returns:
        Recipes by the name of the parameter; names that the model does not have are not in it.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key

    rules = get_model_conversion_mapping(module)
    renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
    converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
    by_pattern = {pattern: c for c in converters for pattern in c.source_patterns}
    known = module.state_dict()
    found: dict[str, Recipe] = {}
    for key in sorted(keys, key=dot_natural_key):
        first, pattern = _renamed(key, renamings, converters, module.base_model_prefix, known)
        converter = by_pattern[pattern] if pattern else None
        targets = converter.target_patterns if converter else [first]
        recipe = found.get(first) or Recipe(first, converter)
        recipe.sources.append((key, pattern or key))
        for target in targets:
            found[first.replace(targets[0], target)] = recipe
    return {name: recipe for name, recipe in found.items() if name in known}


def _renamed(
    key: str, renamings: list[Any], converters: list[Any], prefix: str, known: dict[str, Any]
) -> tuple[str, str | None]:
    from transformers.core_model_loading import rename_source_key

    first, pattern = rename_source_key(key, renamings, converters, prefix, known)
    if first not in known and key in known:
        # the rules are for other checkpoints of the family: this one has the model's own names
        first, pattern = rename_source_key(key, [], [], prefix, known)
    return first, pattern
