"""Tiny models as they lie on a disk: folders, GGUF files, tokenizers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import tiny_models

WORDS = [f"w{i}" for i in range(tiny_models.VOCABULARY - 4)]


def save_folder(folder: Path, module: nn.Module | None = None, *, words: bool = True) -> Path:
    """A folder as save_pretrained writes it, with a tokenizer of whole words."""
    (module or tiny_models.make_tiny("bert")).save_pretrained(folder)
    if words:
        make_tokenizer().save_pretrained(folder)
    return folder


def edit_config(folder: Path, **values: Any) -> None:
    """Set values in a folder's config.json; None removes one."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | values
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def make_tokenizer() -> Any:
    """A tokenizer for the tiny models: special tokens 0 to 3, then one token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def tiny_llama() -> nn.Module:
    """A tiny Llama whose rows are whole GGUF blocks of 32."""
    return tiny_models.make_tiny(
        "llama", auto="AutoModelForCausalLM", num_hidden_layers=2, tie_word_embeddings=True
    )


def save_gguf(file: Path, module: nn.Module, quantization: str = "Q8_0") -> dict[str, Any]:
    """Write a tiny Llama as GGUF, as llama.cpp's converter lays it out.

    Returns:
        The value matrices the file stands for, dequantised, by layer.
    """
    import gguf

    config = module.config
    writer = gguf.GGUFWriter(file, "llama")
    _write_metadata(writer, config)
    weights = {name: p.detach().numpy() for name, p in module.named_parameters()}
    kind = gguf.GGMLQuantizationType[quantization]
    stored = {}
    for name, values in weights.items():
        target = _gguf_name(name)
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        if values.ndim == 1:
            writer.add_tensor(target, values)
            continue
        count = next((count for part, count in heads.items() if part in target), None)
        rows = _interleaved(values, count) if count else values
        blocks = gguf.quantize(np.ascontiguousarray(rows), kind)
        writer.add_tensor(target, blocks, raw_dtype=kind)
        if "attn_v" in target:
            stored[name] = torch.from_numpy(gguf.dequantize(blocks, kind).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return stored


def _write_metadata(writer: Any, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    tokens = ["<unk>", "<s>", "</s>", "<pad>", *(chr(0x21 + i) for i in range(94)), "ab", "cd"]
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges(["a b", "c d"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(3)


def _gguf_name(name: str) -> str:
    if ".layers." not in name:
        return {
            "model.embed_tokens.weight": "token_embd.weight",
            "model.norm.weight": "output_norm.weight",
        }[name]
    _, _, layer, *rest, kind = name.split(".")
    parts = {
        "q_proj": "attn_q",
        "k_proj": "attn_k",
        "v_proj": "attn_v",
        "o_proj": "attn_output",
        "gate_proj": "ffn_gate",
        "up_proj": "ffn_up",
        "down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    return f"blk.{layer}.{parts[rest[-1]]}.{kind}"


def _interleaved(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries and keys in llama.cpp's order: the two halves of a rotation side by side."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)
