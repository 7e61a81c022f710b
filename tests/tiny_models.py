"""Tiny random transformers and inputs for them; a family is one row of configuration values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY = 100
FIRST_ORDINARY_TOKEN = 4
_WEIGHT_SCALE = 1.5
_VECTOR_SCALE = 0.3

_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_COMMON = {
    **_SPECIAL,
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
}
_GROUPED = {**_COMMON, "num_key_value_heads": 2, "head_dim": 16}
_WINDOWED = {**_GROUPED, "sliding_window": 4}
_GPT = {
    **_SPECIAL,
    "vocab_size": VOCABULARY,
    "n_embd": 64,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 128,
}


@dataclass(frozen=True)
class Family:
    """One family: its configuration, and the entries whose random values are made larger.

    Attributes:
        config: values for the family's configuration class.
        model_type: the name transformers knows the configuration by; the row's name if empty.
        auto: the class of transformers that builds the model.
        enlarge: parameter name suffix to the factor its random values are multiplied by.
    """

    config: Mapping[str, Any]
    model_type: str = ""
    auto: str = "AutoModel"
    enlarge: Mapping[str, float] = field(default_factory=dict)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt2": Family(_GPT),
        "bert": Family(_COMMON),
        "roberta": Family(_COMMON),
        "albert": Family(
            {**_COMMON, "embedding_size": 32, "num_hidden_layers": 6, "num_hidden_groups": 1}
        ),
        "distilbert": Family(
            {
                "vocab_size": VOCABULARY,
                "pad_token_id": 0,
                "dim": 64,
                "n_layers": 3,
                "n_heads": 4,
                "hidden_dim": 96,
                "max_position_embeddings": 128,
            }
        ),
        "electra": Family({**_COMMON, "embedding_size": 64}),
        "modernbert": Family(
            {
                **_COMMON,
                "cls_token_id": 1,
                "sep_token_id": 2,
                "local_attention": 8,
                "global_attn_every_n_layers": 2,
                "attention_bias": True,
            }
        ),
        "t5": Family(
            {
                "vocab_size": VOCABULARY,
                "pad_token_id": 0,
                "eos_token_id": 1,
                "decoder_start_token_id": 0,
                "d_model": 64,
                "d_kv": 16,
                "d_ff": 96,
                "num_layers": 3,
                "num_heads": 4,
            },
            auto="T5EncoderModel",
        ),
        "bart": Family(
            {
                **_SPECIAL,
                "vocab_size": VOCABULARY,
                "d_model": 64,
                "encoder_layers": 2,
                "decoder_layers": 2,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_ffn_dim": 96,
                "decoder_ffn_dim": 96,
                "max_position_embeddings": 128,
                "decoder_start_token_id": 2,
            }
        ),
        "opt": Family({**_COMMON, "ffn_dim": 96, "word_embed_proj_dim": 64}),
        "gpt_neo": Family(
            {
                **_SPECIAL,
                "vocab_size": VOCABULARY,
                "hidden_size": 64,
                "num_layers": 2,
                "num_heads": 4,
                "intermediate_size": 96,
                "max_position_embeddings": 128,
                "attention_types": [[["global", "local"], 1]],
                "window_size": 4,
            }
        ),
        "gptj": Family({**_GPT, "rotary_dim": 8}),
        "gpt_neox": Family(_COMMON),
        "bloom": Family(
            {
                **_SPECIAL,
                "vocab_size": VOCABULARY,
                "hidden_size": 64,
                "n_layer": 3,
                "n_head": 4,
            }
        ),
        "falcon": Family(
            {**_COMMON, "new_decoder_architecture": False, "multi_query": True, "alibi": False}
        ),
        "falcon-new": Family(
            {**_COMMON, "new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False},
            model_type="falcon",
        ),
        "falcon-alibi": Family(
            {
                **_COMMON,
                "new_decoder_architecture": False,
                "multi_query": False,
                "alibi": True,
                "parallel_attn": False,
                "bias": True,
            },
            model_type="falcon",
        ),
        "mpt": Family(
            {
                "vocab_size": VOCABULARY,
                "d_model": 64,
                "n_heads": 4,
                "n_layers": 3,
                "max_seq_len": 128,
            }
        ),
        "phi": Family({**_COMMON, "num_key_value_heads": 4}),
        "llama": Family(_GROUPED),
        "mistral": Family(_WINDOWED),
        "qwen2": Family(
            {
                **_COMMON,
                "hidden_size": 112,
                "num_attention_heads": 14,
                "num_key_value_heads": 2,
            },
            enlarge={"v_proj.bias": 10.0},
        ),
        "qwen3": Family({**_GROUPED, "hidden_size": 40, "head_dim": 32}),
        "gemma": Family(_GROUPED),
        "gemma2": Family({**_WINDOWED, "query_pre_attn_scalar": 16}),
        "gemma3_text": Family({**_WINDOWED, "query_pre_attn_scalar": 16}),
        "olmo2": Family(_GROUPED),
        "vit": Family(
            {
                "hidden_size": 64,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "intermediate_size": 96,
                "image_size": 32,
                "patch_size": 8,
            }
        ),
        "mpnet": Family(_COMMON),
        "deberta-v2": Family(
            {
                **_COMMON,
                "relative_attention": True,
                "pos_att_type": ["c2p", "p2c"],
                "share_att_key": True,
            }
        ),
        "diffllama": Family(
            {**_COMMON, "num_key_value_heads": 2},
            enlarge={"lambda_q1": 0.3, "lambda_q2": 0.3},
        ),
        "squeezebert": Family({**_COMMON, "embedding_size": 64}),
        "granite_swa": Family(_WINDOWED),
        "deepseek_v3": Family(
            {
                **_COMMON,
                "num_key_value_heads": 4,
                "q_lora_rank": 24,
                "kv_lora_rank": 20,
                "qk_rope_head_dim": 8,
                "qk_nope_head_dim": 8,
                "v_head_dim": 12,
                "first_k_dense_replace": 3,
                "moe_intermediate_size": 16,
                "n_routed_experts": 4,
                "num_experts_per_tok": 2,
                "n_group": 1,
                "topk_group": 1,
            }
        ),
    }
)


def make_tiny(
    model_type: str,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    attn: str = "eager",
    *,
    auto: str = "",
    **overrides: Any,
) -> nn.Module:
    """Build a tiny model of one family with random weights and random, nonzero biases.

    Args:
        model_type: a row of ``FAMILIES``.
        seed: the same seed gives the same values in every dtype (up to its rounding).
        dtype: dtype of the parameters; the rotary tables stay as the family makes them.
        attn: the attention implementation.
        auto: the class of transformers to build (``"AutoModelForCausalLM"``); the row's if empty.
        **overrides: configuration values that replace the row's.

    Returns:
        The model, in evaluation mode, on the CPU.
    """
    import transformers

    family = FAMILIES[model_type]
    config = transformers.AutoConfig.for_model(
        family.model_type or model_type, **{**family.config, **overrides}
    )
    name = auto or family.auto
    config._attn_implementation = attn
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name.startswith("Auto"):
            build = getattr(transformers, name).from_config
            model = build(config, attn_implementation=attn, dtype=dtype)
        else:
            model = getattr(transformers, name)._from_config(
                config, attn_implementation=attn, dtype=dtype
            )
    _randomise(model, seed, family.enlarge)
    return model.eval()


def tiny_inputs(
    model: nn.Module,
    n: int = 12,
    batch: int = 1,
    pad: int = 0,
    *,
    seed: int = 1,
    side: str = "right",
) -> dict[str, Tensor]:
    """Random inputs for a tiny model.

    Args:
        model: a model of ``make_tiny``.
        n: tokens in a prompt; images ignore it.
        batch: prompts.
        pad: padded places in every prompt but the first.
        seed: the same seed gives the same tokens.
        side: the side that is padded, ``"right"`` or ``"left"``.

    Returns:
        Keyword arguments for the model: ``input_ids`` and ``attention_mask`` of shape
        ``(batch, n)``, ``decoder_input_ids`` ``(batch, n - 3)`` for encoder-decoders, or
        ``pixel_values`` ``(batch, 3, 32, 32)``.
    """
    generator = torch.Generator().manual_seed(seed)
    if model.main_input_name == "pixel_values":
        size = model.config.image_size
        pixels = torch.randn(batch, 3, size, size, generator=generator)
        return {"pixel_values": pixels.to(model.dtype)}
    tokens = _random_tokens((batch, n), generator)
    mask = torch.ones_like(tokens)
    if pad:
        padded = slice(n - pad, n) if side == "right" else slice(0, pad)
        mask[1:, padded] = 0
        tokens[1:, padded] = getattr(model.config, "pad_token_id", None) or 0
    inputs = {"input_ids": tokens, "attention_mask": mask}
    if model.config.is_encoder_decoder and not type(model).__name__.endswith("EncoderModel"):
        inputs["decoder_input_ids"] = _random_tokens((batch, n - 3), generator)
    return inputs


def _random_tokens(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    return torch.randint(FIRST_ORDINARY_TOKEN, VOCABULARY, shape, generator=generator)


@torch.no_grad()
def _randomise(model: nn.Module, seed: int, enlarge: Mapping[str, float]) -> None:
    """Fill every parameter: scaled weights, nonzero biases, norm weights around 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() > 1:
            values = noise * _WEIGHT_SCALE * max(parameter.shape[-1], 1) ** -0.5
        elif "norm" in name.lower() and name.endswith("weight"):
            values = 1 + noise * _VECTOR_SCALE
        else:
            values = noise * _VECTOR_SCALE
        factor = next((f for suffix, f in enlarge.items() if name.endswith(suffix)), 1.0)
        parameter.copy_(values * factor)
