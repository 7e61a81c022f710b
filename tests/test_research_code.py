"""Models as people write them for a paper: analysed from token ids or pixels, with no adapter."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import conwalk as cw
from as_found import left_as_found

TOKENS = [[5, 9, 3, 17, 4, 8], [1, 2, 3]]


class CausalSelfAttention(nn.Module):
    """One projection for queries, keys and values, a mask in a buffer, dropout twice."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.3), nn.Dropout(0.3)
        self.n_head = heads
        mask = torch.tril(torch.ones(length, length)).view(1, 1, length, length)
        self.register_buffer("bias", mask)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        k = k.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        q = q.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        v = v.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        att = self.attn_dropout(functional.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.resid_dropout(self.c_proj(y))


class NanoGPT(nn.Module):
    """A small GPT whose forward takes ``idx`` and gives logits and a loss."""

    def __init__(self, width: int = 24, heads: int = 3, length: int = 16) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(20, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(
            nn.ModuleDict(
                {
                    "ln_1": nn.LayerNorm(width),
                    "attn": CausalSelfAttention(width, heads, length),
                    "ln_2": nn.LayerNorm(width),
                    "mlp": nn.Sequential(
                        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
                    ),
                }
            )
            for _ in range(2)
        )
        self.lm_head = nn.Linear(width, 20, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = x + block["attn"](block["ln_1"](x))
            x = x + block["mlp"](block["ln_2"](x))
        logits = self.lm_head(x)
        loss = None if targets is None else functional.cross_entropy(logits.mT, targets)
        return logits, loss


class MatrixTransformer(nn.Module):
    """Everything by hand: matrices by head, rows of exponentials, no module of attention."""

    def __init__(self, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        k = width // heads
        self.embed = nn.Parameter(torch.randn(20, width))
        self.W_q, self.W_k, self.W_v = (
            nn.ParameterList(nn.Parameter(torch.randn(width, heads * k) * 0.2) for _ in range(2))
            for _ in range(3)
        )
        self.W_o = nn.ParameterList(nn.Parameter(torch.randn(heads * k, width)) for _ in range(2))
        self.heads, self.k = heads, k

    def split(self, t: Tensor) -> Tensor:
        return t.reshape(*t.shape[:2], self.heads, self.k).permute(0, 2, 1, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed[tokens]
        for w_q, w_k, w_v, w_o in zip(self.W_q, self.W_k, self.W_v, self.W_o, strict=True):
            q, k, v = self.split(x @ w_q), self.split(x @ w_k), self.split(x @ w_v)
            a = torch.softmax(q @ k.transpose(-1, -2) / self.k**0.5, dim=-1)
            heads = torch.matmul(a, v).permute(0, 2, 1, 3).reshape(*x.shape[:2], -1)
            x = functional.layer_norm(x + heads @ w_o, x.shape[-1:])
        return x


class ViT(nn.Module):
    """A vision transformer without any library: patches by unfold, a class token, GELU."""

    def __init__(self, width: int = 24, heads: int = 4, patch: int = 4) -> None:
        super().__init__()
        self.patch, self.heads, self.scale = patch, heads, (width // heads) ** -0.5
        self.to_patch = nn.Linear(3 * patch * patch, width)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, 17, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.to_qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.to_out = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Dropout(0.2)) for _ in range(2)
        )

    def forward(self, img: Tensor) -> Tensor:
        p = self.patch
        patches = img.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(3)
        x = self.to_patch(patches.flatten(1, 2))
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos
        for norm, to_qkv, to_out in zip(self.norms, self.to_qkv, self.to_out, strict=True):
            b, n, _ = x.shape
            qkv = to_qkv(norm(x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            attn = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)
            x = x + to_out((attn @ v).transpose(1, 2).reshape(b, n, -1))
        return x[:, 0]


MODELS: list[tuple[Callable[[], nn.Module], Any, bool]] = [
    (NanoGPT, TOKENS, True),
    (MatrixTransformer, TOKENS, False),
    (ViT, {"img": torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))}, False),
]


@pytest.mark.parametrize(("make", "inputs", "causal"), MODELS)
def test_analysed_from_end_to_end(make: Callable[[], nn.Module], inputs: Any, causal: bool) -> None:
    torch.manual_seed(0)
    model = make().train()
    with left_as_found(model):
        verification = cw.verify(model, inputs)
        dataset = cw.analyze(model, inputs)
        walk = cw.walk(model, inputs, layer=1)
    assert verification.exact
    assert [p.site.kind for p in verification.layers] == ["plain", "plain"]
    assert dataset.sizes["prompt"] == 2
    assert dataset.sizes["layer"] == 2
    assert not cw_refusals(dataset)
    assert bool(dataset["rho"].notnull().all())
    assert walk.is_causal is causal


def cw_refusals(dataset: Any) -> list[Any]:
    from conwalk.results import refused

    return [r for r in refused(dataset) if "scores" not in r["name"]]


def test_the_maps_are_those_of_the_weights_as_written() -> None:
    torch.manual_seed(0)
    model = MatrixTransformer()
    transports = cw.walk(model, TOKENS[:1], layer=1).transports
    for head in range(3):
        part = slice(8 * head, 8 * head + 8)
        expected = model.W_v[1][:, part] @ model.W_o[1][part]
        assert torch.allclose(transports.matrix(head), expected, atol=1e-6)
    gpt = NanoGPT()
    transports = cw.walk(gpt, TOKENS[:1], layer=0).transports
    attention = gpt.h[0]["attn"]
    value, out = attention.c_attn.weight[48:56], attention.c_proj.weight[:, :8]
    assert torch.allclose(transports.matrix(0), value.t() @ out.t(), atol=1e-6)
    assert torch.equal(transports.b_V[0], attention.c_attn.bias[48:56])


def test_prompts_of_different_lengths_need_a_mask_that_the_model_takes() -> None:
    model = NanoGPT()
    assert cw.analyze(model, TOKENS, batch_size=1).sizes["prompt"] == 2
    with pytest.raises(cw.CaptureError, match="NanoGPT takes no attention_mask"):
        cw.analyze(model, TOKENS, batch_size=2)


class Uncalled(NanoGPT):
    """Dropout that is on whatever the mode, as ``functional.dropout`` is by default."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(functional.dropout(idx.float(), 0.0).long(), targets)
        return functional.dropout(logits, 0.5), loss


def test_dropout_that_is_never_off_is_drawn_alike_in_every_pass() -> None:
    torch.manual_seed(0)
    model = Uncalled()
    with left_as_found(model):
        assert cw.verify(model, TOKENS).same_output
