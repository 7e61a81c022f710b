"""Attention without linear modules, of torch's own layers, and of unusual kinds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import written_attention as written
from broken_sites import variants
from conwalk import tolerance
from conwalk.capture import CapturedLayer, Watch, watch
from conwalk.models import inference
from conwalk.models.interception import pieces
from conwalk.theorems import reconstruction_residual
from written_attention import HEADS, WIDTH, Model

PLAIN = [
    written.Matrices, written.HeadTensors, written.BroadcastHeads, written.Packed, written.Slices,
    written.ChannelsFirst, written.TokensFirst, written.Torch, written.TorchTokensFirst,
    written.TorchWithWeights,
]  # fmt: skip
KINDS = [
    *((style, "plain") for style in PLAIN),
    (written.Differential, "signed"),
    (written.GatedLate, "gated"),
    (written.Normed, "gated"),
    (written.SinkAfter, "gated"),
    (written.Windows, "plain"),
]
REFUSED = {
    written.Added: "something is added to them",
    written.Reordered: "something is added to them, or mixes them",
    written.Bent: "each channel times a factor",
    written.Convolved: "mixed across tokens",
    written.Landmarks: pieces.LANDMARKS,
    written.Blocks: pieces.BLOCKS,
}


def made(style: type[nn.Module], dtype: torch.dtype = torch.float32) -> Model:
    torch.manual_seed(0)
    return Model(style).to(dtype).eval()


def residuals(watched: Watch, inputs: dict[str, Tensor]) -> list[float]:
    found: list[float] = []

    def rebuild(layer: CapturedLayer) -> None:
        found.append(reconstruction_residual(layer.walk(layer.value_input), layer.output))

    returned = watched.stream(inputs, rebuild)
    with inference.eager(watched.module):
        assert torch.equal(returned, inference.forward(watched.module, inputs))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("style", "kind"), KINDS, ids=[s.__name__ for s, _ in KINDS])
def test_found_rebuilt_and_unchanged(style: type[nn.Module], kind: str, dtype: torch.dtype) -> None:
    # as many prompts as tokens, so that axes cannot be told apart by their length
    ids = torch.randint(0, 11, (6, 6), generator=torch.Generator().manual_seed(3))
    watched = watch(made(style, dtype), {"input_ids": ids})
    assert not watched.refused
    assert [(s.layer, s.n_heads, s.kind) for s in watched.sites] == [
        (i, HEADS, kind) for i in (0, 1)
    ]
    found = residuals(watched, {"input_ids": ids})
    assert len(found) == 12
    assert max(found) <= tolerance.reconstruction(dtype)


@pytest.mark.parametrize("style", REFUSED, ids=lambda s: s.__name__)
def test_what_is_no_walk_is_refused_with_the_reason(style: type[nn.Module]) -> None:
    watched = watch(made(style), {"input_ids": torch.arange(6)[None]})
    assert not watched.sites
    assert len(watched.refused) >= 2
    assert all(REFUSED[style] in r.reason for r in watched.refused)


@pytest.mark.parametrize("style", PLAIN, ids=lambda s: s.__name__)
def test_head_maps_are_those_of_the_parameters(style: type[nn.Module]) -> None:
    """A dense reference: M from the layer's own weights, not from what was read."""
    model = made(style)
    block = model.blocks[0]
    heads = REFERENCES[style](block)
    site = watch(model, {"input_ids": torch.arange(6)[None]}).sites[0]
    transports = site.transports
    found = transports.W_V @ transports.W_O
    assert torch.allclose(found, heads, atol=1e-5)


def product(w_v: Tensor, w_o: Tensor) -> Tensor:
    """``(in, H k)`` and ``(H k, out)`` as head maps."""
    values, outputs = w_v.unflatten(1, (HEADS, -1)), w_o.unflatten(0, (HEADS, -1))
    return torch.einsum("dhk,hke->hde", values, outputs).detach()


def torch_product(layer: written.Torch) -> Tensor:
    inner = layer.attention
    return product(inner.in_proj_weight[2 * WIDTH :].t(), inner.out_proj.weight.t())


def convolved(layer: written.ChannelsFirst) -> Tensor:
    grouped = torch.block_diag(*layer.out.weight.squeeze(-1).chunk(2))
    return product(layer.value.weight.squeeze(-1).t(), grouped.t())


REFERENCES: dict[type[nn.Module], Callable[..., Tensor]] = {
    written.Matrices: lambda m: product(m.wv, m.wo),
    written.TokensFirst: lambda m: product(m.wv, m.wo),
    written.HeadTensors: lambda m: (m.wv @ m.wo).detach(),
    written.BroadcastHeads: lambda m: (m.wv @ m.wo).detach(),
    written.Packed: lambda m: product(m.packed[2 * WIDTH :].t(), m.out.t()),
    written.Slices: lambda m: product(m.packed[2 * WIDTH :].t(), m.out.t()),
    written.ChannelsFirst: convolved,
    written.Torch: torch_product,
    written.TorchTokensFirst: torch_product,
    written.TorchWithWeights: torch_product,
}


@pytest.mark.parametrize("style", [written.Matrices, written.Torch, written.Windows])
def test_broken_readings_do_not_rebuild(style: type[nn.Module]) -> None:
    ids = torch.randint(0, 11, (1, 6), generator=torch.Generator().manual_seed(4))
    watched = watch(made(style), {"input_ids": ids})
    broken = variants(watched.sites[0])
    assert len(broken) == 7
    for name, site in broken.items():
        found: list[float] = []
        watched.stream(
            {"input_ids": ids},
            lambda layer, found=found: found.append(
                reconstruction_residual(layer.walk(layer.value_input), layer.output)
            ),
            [site],
        )
        assert min(found) > tolerance.reconstruction(torch.float32), name


def test_windows_make_one_walk_over_all_tokens() -> None:
    ids = torch.arange(9)[None]
    caught: list[CapturedLayer] = []
    watch(made(written.Windows), {"input_ids": ids}).stream({"input_ids": ids}, caught.append)
    attention = caught[0].attention
    assert attention.shape == (HEADS, 9, 9)
    inside = torch.block_diag(*[torch.ones(3, 3).tril()] * 3).bool()
    assert bool((attention[:, inside] > 0).all())
    assert not bool(attention[:, ~inside].any())


def test_a_later_move_of_the_model_is_followed() -> None:
    """Parameters are looked up where they are, not where they were."""
    model = made(written.Matrices)
    ids = torch.randint(0, 11, (2, 6), generator=torch.Generator().manual_seed(5))
    watched = watch(model, {"input_ids": ids})
    with torch.no_grad():
        model.blocks[0].wv.copy_(torch.randn(WIDTH, WIDTH))
    assert max(residuals(watched, {"input_ids": ids})) <= tolerance.reconstruction(torch.float32)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.encoder(self.embed(input_ids))


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.both = nn.Transformer(WIDTH, HEADS, 2, 2, 32, batch_first=True)

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        return self.both(self.embed(input_ids), self.embed(decoder_input_ids))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_encoder_of_torch() -> None:
    torch.manual_seed(1)
    model = Encoder().eval()
    ids = torch.randint(0, 11, (3, 7))
    watched = watch(model, {"input_ids": ids})
    assert [(s.stack, s.layer, s.kind) for s in watched.sites] == [
        ("self", 0, "plain"),
        ("self", 1, "plain"),
    ]
    assert max(residuals(watched, {"input_ids": ids})) <= tolerance.reconstruction(torch.float32)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_encoder_and_decoder_of_torch() -> None:
    torch.manual_seed(1)
    model = Translator().eval()
    inputs = {
        "input_ids": torch.randint(0, 11, (3, 7)),
        "decoder_input_ids": torch.randint(0, 11, (3, 5)),
    }
    watched = watch(model, inputs)
    shapes: dict[str, set[tuple[int, ...]]] = {}
    watched.stream(
        inputs, lambda x: shapes.setdefault(x.site.stack, set()).add(tuple(x.attention.shape))
    )
    assert shapes == {"encoder": {(3, 7, 7)}, "decoder": {(3, 5, 5)}, "cross": {(3, 5, 7)}}
    assert max(residuals(watched, inputs)) <= tolerance.reconstruction(torch.float32)
