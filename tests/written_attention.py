"""Attention as different people write it, without linear modules or with torch's own layers."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, K = 24, 3, 8


def weights(q: Tensor, k: Tensor) -> Tensor:
    """Causal softmax of scores, ``(..., query, key)``."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    absent = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(absent, -math.inf).softmax(-1)


def split(t: Tensor) -> Tensor:
    return t.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def merged(t: Tensor) -> Tensor:
    return t.transpose(1, 2).flatten(2)


def random(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) * shape[0] ** -0.5)


class Matrices(nn.Module):
    """Single matrices as parameters: x @ W."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (random(WIDTH, WIDTH) for _ in range(4))
        self.bias = random(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k = split(x @ self.wq), split(x @ self.wk)
        return merged(weights(q, k) @ split(x @ self.wv + self.bias)) @ self.wo


class HeadTensors(nn.Module):
    """A tensor with an axis of heads for each map, contracted by einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv = (random(HEADS, WIDTH, K) for _ in range(3))
        self.wo = random(HEADS, K, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.einsum("bnd,hdk->bhnk", x, w) for w in (self.wq, self.wk, self.wv))
        mixed = torch.einsum("bhij,bhjk->bhik", weights(q, k), v)
        return torch.einsum("bhik,hkd->bid", mixed, self.wo)


class BroadcastHeads(HeadTensors):
    """The same by matrix products over a leading axis of heads."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (x[:, None] @ w for w in (self.wq, self.wk, self.wv))
        return merged(weights(q, k) @ v) @ self.wo.flatten(0, 1)


class Packed(nn.Module):
    """Queries, keys and values in one parameter, cut before or after the product."""

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__()
        self.packed, self.packed_bias = random(3 * WIDTH, WIDTH), random(3 * WIDTH)
        self.out, self.out_bias = random(WIDTH, WIDTH), random(WIDTH)
        self.cut = cut

    def forward(self, x: Tensor) -> Tensor:
        if self.cut:
            pairs = zip(self.packed.chunk(3), self.packed_bias.chunk(3), strict=True)
            q, k, v = (split(functional.linear(x, w, b)) for w, b in pairs)
        else:
            packed = functional.linear(x, weight=self.packed, bias=self.packed_bias)
            q, k, v = (split(t) for t in packed.chunk(3, -1))
        return functional.linear(merged(weights(q, k) @ v), self.out, self.out_bias)


class Slices(Packed):
    """The same, packed with one head after the other."""

    def __init__(self) -> None:
        super().__init__(cut=True)


class ChannelsFirst(nn.Module):
    """Convolutions one place wide, and values on the left of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(3))
        self.out = nn.Conv1d(WIDTH, WIDTH, 1, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        q, k, v = (f(x).unflatten(1, (HEADS, -1)) for f in (self.query, self.key, self.value))
        mixed = v @ weights(q.transpose(2, 3), k.transpose(2, 3)).transpose(2, 3)
        return self.out(mixed.flatten(1, 2)).transpose(1, 2)


class TokensFirst(Matrices):
    """Axes (token, prompt, width), as XLNet and fairseq have them."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        q, k, v = ((x @ w).unflatten(-1, (HEADS, -1)) for w in (self.wq, self.wk, self.wv))
        weight = weights(q.permute(1, 2, 0, 3), k.permute(1, 2, 0, 3))
        mixed = torch.einsum("bnij,jbnd->ibnd", weight, v)
        return (mixed.flatten(2) @ self.wo).transpose(0, 1)


class Torch(nn.Module):
    """torch's own layer."""

    def __init__(self, *, batch_first: bool = True, need_weights: bool = False) -> None:
        super().__init__()
        self.batch_first, self.need_weights = batch_first, need_weights
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
        nn.init.normal_(self.attention.in_proj_bias)
        nn.init.normal_(self.attention.out_proj.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        y, _ = self.attention(x, x, x, need_weights=self.need_weights)
        return y if self.batch_first else y.transpose(0, 1)


class TorchTokensFirst(Torch):
    def __init__(self) -> None:
        super().__init__(batch_first=False)


class TorchWithWeights(Torch):
    def __init__(self) -> None:
        super().__init__(need_weights=True)


class Differential(Matrices):
    """The weights of one head minus a part of those of another, in one product."""

    def __init__(self) -> None:
        super().__init__()
        self.wq2, self.wk2 = random(WIDTH, WIDTH), random(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        plus = weights(split(x @ self.wq), split(x @ self.wk))
        minus = weights(split(x @ self.wq2), split(x @ self.wk2))
        return merged((plus - 0.9 * minus) @ split(x @ self.wv)) @ self.wo


class GatedLate(nn.Module):
    """A gate of the right width, computed between the mixing and the output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.gate, self.out = (
            nn.Linear(WIDTH, WIDTH) for _ in range(5)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(f(x)) for f in (self.query, self.key, self.value))
        mixed = merged(weights(q, k) @ v)
        return self.out(self.through(mixed, self.gate(x)))

    def through(self, mixed: Tensor, gate: Tensor) -> Tensor:
        return mixed * gate.sigmoid()


class Normed(GatedLate):
    """A norm over all heads in place of the gate."""

    def through(self, mixed: Tensor, gate: Tensor) -> Tensor:
        return functional.rms_norm(mixed, (WIDTH,))


class Added(GatedLate):
    """Something is added to the heads, which is no gate."""

    def through(self, mixed: Tensor, gate: Tensor) -> Tensor:
        return mixed + gate


class Reordered(GatedLate):
    """A gate, and the channels turned around behind it: no order that is known."""

    def through(self, mixed: Tensor, gate: Tensor) -> Tensor:
        return (mixed * gate.sigmoid()).flip(-1)


class Bent(GatedLate):
    """The heads go through a nonlinearity."""

    def through(self, mixed: Tensor, gate: Tensor) -> Tensor:
        return torch.tanh(mixed)


class Convolved(GatedLate):
    """Values are averaged with those of the token before."""

    def forward(self, x: Tensor) -> Tensor:
        q, k = split(self.query(x)), split(self.key(x))
        v = self.value(x)
        v = v + functional.pad(v, (0, 0, 1, 0))[:, :-1]
        return self.out(merged(weights(q, k) @ split(v)))


class SinkAfter(GatedLate):
    """What each query mixed is scaled down afterwards, as by an attention sink."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(f(x)) for f in (self.query, self.key, self.value))
        stays = (q @ k.transpose(-1, -2)).logsumexp(-1, keepdim=True).sigmoid()
        return self.out(merged(weights(q, k) @ v * stays))


class Windows(GatedLate):
    """Attention within windows of three tokens."""

    def forward(self, x: Tensor) -> Tensor:
        windows = x.unflatten(1, (-1, 3)).flatten(0, 1)
        return super().forward(windows).unflatten(0, (len(x), -1)).flatten(1, 2)

    def through(self, mixed: Tensor, gate: Tensor) -> Tensor:
        return mixed


class Landmarks(Matrices):
    """Nyström: queries to landmarks, landmarks to one another, landmarks to keys."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(x @ w) for w in (self.wq, self.wk, self.wv))
        few_q, few_k = q[:, :, :2], k[:, :, :2]
        first, middle, last = (
            (a @ b.transpose(-1, -2)).softmax(-1)
            for a, b in ((q, few_k), (few_q, few_k), (few_q, k))
        )
        return merged((first @ middle) @ (last @ v)) @ self.wo


class Blocks(Matrices):
    """Every block of keys meets its own piece of the softmax."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(x @ w) for w in (self.wq, self.wk, self.wv))
        weight, half = weights(q, k), x.shape[1] // 2
        mixed = weight[..., :half] @ v[:, :, :half] + weight[..., half:] @ v[:, :, half:]
        return merged(mixed) @ self.wo


class Model(nn.Module):
    """Two such layers on embeddings."""

    def __init__(self, attention: type[nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList([attention(), attention()])

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        for block in self.blocks:
            x = x + block(x)
        return x
