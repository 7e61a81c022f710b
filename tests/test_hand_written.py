"""Modules that no library knows: attention found from a softmax and a product alone."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from conwalk import tolerance
from conwalk.capture import CapturedLayer, watch
from conwalk.errors import CaptureError
from conwalk.theorems import reconstruction_residual

WIDTH, HEADS = 24, 3


class Attention(nn.Module):
    """Causal attention as somebody might write it; subclasses say how weights meet values."""

    heads = HEADS

    def __init__(self) -> None:
        super().__init__()
        self.to_query = nn.Linear(WIDTH, WIDTH)
        self.to_key = nn.Linear(WIDTH, WIDTH)
        self.to_value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(f(x)) for f in (self.to_query, self.to_key, self.to_value))
        return self.out(self.mix(q, k, v).transpose(1, 2).flatten(2))

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        absent = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(absent, -math.inf).softmax(-1)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raise NotImplementedError


class Matmul(Attention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.weights(q, k) @ v


class Einsum(Attention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("bhij,bhjd->bhid", self.weights(q, k), v)


class EinsumOtherOrder(Attention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = torch.einsum("bhqs,bhsv->bqhv", self.weights(q, k), v)
        return out.transpose(1, 2)


class BatchedMatmul(Attention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        flat = self.weights(q, k).flatten(0, 1)
        return torch.bmm(flat, v.flatten(0, 1)).unflatten(0, v.shape[:2])


class Fused(Attention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class FusedWithMask(Attention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n = q.shape[-2]
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)


class SingleHead(Attention):
    heads = 1

    def split(self, t: Tensor) -> Tensor:
        return t

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.to_query(x), self.to_key(x), self.to_value(x)
        return self.out(self.weights(q, k) @ v)


class Interleaved(Attention):
    """Heads lie interleaved in the channels: channel c belongs to head c mod H."""

    def split(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(f(x)) for f in (self.to_query, self.to_key, self.to_value))
        return self.out((self.weights(q, k) @ v).permute(0, 2, 3, 1).flatten(2))


class Model(nn.Module):
    """Two such layers on embeddings."""

    def __init__(self, attention: type[Attention]) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList([attention(), attention()])

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        for block in self.blocks:
            x = x + block(x)
        return x


WRITTEN = [
    Matmul, Einsum, EinsumOtherOrder, BatchedMatmul, Fused, FusedWithMask, SingleHead, Interleaved,
]  # fmt: skip


@pytest.mark.parametrize("attention", WRITTEN)
def test_found_rebuilt_and_unchanged(attention: type[Attention]) -> None:
    torch.manual_seed(0)
    model = Model(attention)
    ids = torch.randint(0, 11, (3, 7))
    watched = watch(model, {"input_ids": ids})
    caught: list[CapturedLayer] = []
    returned = watched.stream({"input_ids": ids}, caught.append)
    assert [(s.layer, s.n_heads, s.kind) for s in watched.sites] == [
        (0, attention.heads, "plain"),
        (1, attention.heads, "plain"),
    ]
    assert len(caught) == 6
    for layer in caught:
        residual = reconstruction_residual(layer.walk(layer.value_input), layer.output)
        assert residual <= tolerance.reconstruction(torch.float32)
        assert layer.walk.is_causal
        assert float((layer.attention.sum(-1) - 1).abs().max()) < tolerance.row_sum(torch.float32)
    with torch.no_grad():
        assert torch.equal(returned, model(ids))


def test_every_way_of_writing_gives_the_same_weights() -> None:
    seen: dict[str, Tensor] = {}
    for attention in (Matmul, Einsum, EinsumOtherOrder, BatchedMatmul, Fused):
        torch.manual_seed(0)
        model = Model(attention)
        inputs = {"input_ids": torch.arange(7)[None]}
        watch(model, inputs).stream(
            inputs, lambda layer, name=attention.__name__: seen.setdefault(name, layer.attention)
        )
    for name, attention in seen.items():
        assert torch.allclose(attention, seen["Matmul"], atol=1e-6), name


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.up(torch.ones(*input_ids.shape, WIDTH))


def test_a_model_without_attention_says_so() -> None:
    with pytest.raises(CaptureError, match="no softmax attention was found in Residual"):
        watch(Residual(), {"input_ids": torch.zeros(1, 4, dtype=torch.long)})


class Squashed(Matmul):
    """The values go through a nonlinearity: no constant head map makes them."""

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.split(self.to_query(x)), self.split(self.to_key(x))
        v = self.split(torch.tanh(self.to_value(x)))
        return self.out(self.mix(q, k, v).transpose(1, 2).flatten(2))


def test_values_bent_on_their_way_are_refused_with_the_reason() -> None:
    watched = watch(Model(Squashed), {"input_ids": torch.arange(5)[None]})
    assert not watched.sites
    assert len(watched.refused) == 2
    assert "not channels of one linear layer" in watched.refused[0].reason
