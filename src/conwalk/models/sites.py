"""Where a model attends: each place, the parts of its operator, and how they are read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from weakref import ref

import torch
from torch import Tensor

from conwalk.connection import HeadTransports
from conwalk.models.interception import Backend
from conwalk.models.linear import Linear, bias, dtype_of, in_width, is_elsewhere, matrix, out_width

Kind = Literal["plain", "gated", "normed value", "cross", "windows", "latent", "leak", "signed"]
Side = Literal["source", "target", "other"]

_AROUND = ("_orig_mod", "_checkpoint_wrapped_module")
"""Names under which a layer lies in what compiles it or saves it memory."""


@dataclass(frozen=True, eq=False)
class ValueMap:
    """Which channels of which linear are the values.

    Attributes:
        linear: the layer.
        path: its name in the model.
        columns: output channel of value head g, coordinate k, ``(kv_head, k)``.
        added: what the model adds to the values afterwards, ``(kv_head, k)``, or None.
        scaled: whether each value is rescaled, token by token, after the linear.
        turned: whether the linear reads tokens before prompts, ``(token, prompt, d)``.
    """

    linear: Linear
    path: str
    columns: Tensor
    added: Tensor | None = None
    scaled: bool = False
    turned: bool = False


@dataclass(frozen=True, eq=False)
class OutputMap:
    """Which linear mixes the heads back, and in what order it reads them.

    Attributes:
        linear: the layer.
        path: its name in the model.
        reads: the input channel that holds head h, coordinate k, ``(head, k)``.
        gated: whether the mixed values are changed, input by input, before this linear.
        turned: whether the linear reads tokens before prompts.
    """

    linear: Linear
    path: str
    reads: Tensor
    gated: bool = False
    turned: bool = False


@dataclass(frozen=True, eq=False)
class AttentionSite:
    """One place at which a model attends.

    Attributes:
        index: position among all sites of the model, in the order of the forward pass.
        stack: which run of layers it belongs to (``self``, ``encoder``, ``decoder``, ``cross``, …).
        layer: number of the layer in its stack, from 0.
        call: which use of a shared module this is, from 0.
        path: name of the attention module.
        kind: ``plain``, ``signed``, ``leak``, ``gated``, ``normed value``, ``latent`` (values are
            read from another stream than the output goes to), ``windows`` or ``cross``.
        backend: how its calls are noticed.
        event: position among the calls of that backend in one pass.
        n_heads: query heads.
        sides: which token sequence the queries and the keys belong to.
        value: the value projection.
        output: the output projection.
        windows: whether tokens attend within separate windows, of which a prompt has several.
        reach: the sliding window in tokens, where the model names one.
        rescaled_rows: whether the model multiplies what each query of a head mixed by a factor,
            which then belongs to the weights (an attention sink applied afterwards).
        subtracted: with differential attention, made of two calls, the multiple of the second half
            of the calls' heads that is added to the first; ``n_heads`` counts what is left.
        leaks: whether rows sum to less than 1 in the pass in which the site was proven.
        signed: whether any weight is negative in it.
    """

    index: int
    stack: str
    layer: int
    call: int
    path: str
    backend: Backend
    event: int
    n_heads: int
    sides: tuple[Side, Side]
    value: ValueMap
    output: OutputMap
    windows: bool = False
    reach: int | None = None
    rescaled_rows: bool = False
    subtracted: float | None = None
    leaks: bool = False
    signed: bool = False

    @property
    def kind(self) -> Kind:
        """What sets the site's operator apart from a plain connection walk (Theory §7)."""
        if self.signed or self.subtracted is not None:
            return "signed"
        if self.value.scaled:
            return "normed value"
        if self.output.gated:
            return "gated"
        if self.sides[0] != self.sides[1]:
            return "cross"
        if self.windows:
            return "windows"
        if self.width_in != self.width_out:
            return "latent"
        return "leak" if self.leaks else "plain"

    @property
    def depends_on_input(self) -> bool:
        """Whether the map from tokens to output is that of this input only (Theory §7)."""
        return self.value.scaled or self.output.gated or self.kind == "latent"

    @property
    def n_kv_heads(self) -> int:
        """Value heads; query head h reads value head ``h // (n_heads // n_kv_heads)``."""
        return self.value.columns.shape[0]

    @property
    def value_width(self) -> int:
        """k, the width of a head's values."""
        return self.value.columns.shape[1]

    @property
    def width_in(self) -> int:
        """d, the width of what the value projection reads."""
        return in_width(self.value.linear)

    @property
    def width_out(self) -> int:
        """Width of what the output projection puts out."""
        return out_width(self.output.linear)

    @property
    def name(self) -> str:
        """How messages call the site."""
        number = (
            f"layer {self.layer}" if self.stack == "self" else f"{self.stack} layer {self.layer}"
        )
        return f"{number} ({self.path})"

    @property
    def transports(self) -> HeadTransports:
        """The head maps ``M[h] = W_V[h] W_O[h]`` in factors, views of weights where possible.

        Made once; those of weights that are kept elsewhere once as long as anybody holds them.
        """
        kept = self.__dict__.get("_transports")
        found: HeadTransports | None = kept() if isinstance(kept, ref) else kept
        if found is None:
            found = self._read_transports()
            away = is_elsewhere(self.value.linear) or is_elsewhere(self.output.linear)
            self.__dict__["_transports"] = ref(found) if away else found
        return found

    def _read_transports(self) -> HeadTransports:
        columns = self.value.columns
        w_v = _gather(matrix(self.value.linear).t(), columns).transpose(1, 2)
        w_o = _gather(matrix(self.output.linear), self.output.reads)
        # what is kept elsewhere may be kept in another dtype than the model runs in
        dtype = dtype_of(self.value.linear)
        return HeadTransports(w_v.to(dtype), w_o.to(dtype), self._value_bias(columns))

    def output_bias(self) -> Tensor | None:
        """b_O, ``(d,)``, or None."""
        return bias(self.output.linear)

    def _value_bias(self, columns: Tensor) -> Tensor | None:
        own, added = bias(self.value.linear), self.value.added
        parts = [] if own is None else [own[columns.to(own.device)]]
        if added is not None:
            parts.append(added.to(matrix(self.value.linear).device, dtype_of(self.value.linear)))
        return sum(parts[1:], parts[0]) if parts else None


def _gather(matrix: Tensor, rows: Tensor) -> Tensor:
    """``matrix[rows]``; a view where the rows lie side by side, as they do in most models."""
    first, count = int(rows.min()), rows.numel()
    if bool((rows.flatten() == torch.arange(first, first + count)).all()):
        return matrix[first : first + count].unflatten(0, rows.shape)
    return matrix[rows.to(matrix.device)]


@dataclass(frozen=True)
class Refusal:
    """A place at which a model attends that cannot be read as a walk, and why.

    Attributes:
        name: layer and module, as messages call it.
        reason: one line.
        path: the module, where one is known.
    """

    name: str
    reason: str
    path: str = ""


def numbered(sites: Sequence[AttentionSite]) -> list[AttentionSite]:
    """Give every site its stack and its layer number.

    Sites whose paths differ in numbers only, or in what is around a layer, make a stack. The layer
    is the first number in the path that rises along the stack (true numbers, with holes where a
    layer has no attention), or the order of calls where none does, as for layers that share one
    module.
    """
    stacks: dict[tuple[str, ...], list[AttentionSite]] = {}
    for site in sites:
        words = tuple(w for w in site.path.split(".") if not w.isdigit() and w not in _AROUND)
        stacks.setdefault(words, []).append(site)
    names = _stack_names(stacks)
    found = [
        replace(site, stack=names[words], layer=layer)
        for words, members in stacks.items()
        for site, layer in zip(members, _layers(members), strict=True)
    ]
    return sorted(found, key=lambda s: s.index)


def _layers(members: Sequence[AttentionSite]) -> list[int]:
    numbers = torch.tensor([[int(w) for w in s.path.split(".") if w.isdigit()] for s in members])
    for column in numbers.t() if numbers.dim() == 2 else ():
        if len(members) == 1 or bool((column.diff() > 0).all()):
            return column.tolist()
    return list(range(len(members)))


def _stack_names(stacks: dict[tuple[str, ...], list[AttentionSite]]) -> dict[tuple[str, ...], str]:
    if len(stacks) == 1:
        return dict.fromkeys(stacks, "self")
    roles = {words: _role(members) for words, members in stacks.items()}
    if "decoder" in roles.values() and "encoder" not in roles.values():
        # what reads images or recordings has no tokens whose side could be known
        roles = {words: "encoder" if role == "self" else role for words, role in roles.items()}
    if "decoder" in roles.values() and len(set(roles.values())) == len(stacks):
        return roles
    shared = set[str]().union(*stacks).intersection(*stacks)
    short = {words: ".".join(w for w in words if w not in shared) for words in stacks}
    unlike = all(short.values()) and len(set(short.values())) == len(stacks)
    return short if unlike else {words: ".".join(words) for words in stacks}


def _role(members: Sequence[AttentionSite]) -> str:
    queries, keys = members[0].sides
    if queries != keys:
        return "cross"
    return {"source": "encoder", "target": "decoder"}.get(queries, "self")
