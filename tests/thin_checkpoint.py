"""Checkpoints as large as one likes on a disk that holds little of them."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_BYTES = 2  # of a bfloat16
_RANDOM = ("v_proj.weight", "o_proj.weight")


def thin_llama(folder: Path, n_layers: int, *, per_shard: int = 1, **shape: int) -> Path:
    """A Llama in bfloat16 and several shards; holes of the files stand for all but W_V and W_O.

    Holes read as zeros and take no room. Gains of norms are 1; W_V and W_O are the same random
    numbers in every layer, with a scale of its own.
    """
    import transformers

    values: dict[str, Any] = {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
    } | shape
    config = transformers.LlamaConfig(num_hidden_layers=n_layers, dtype="bfloat16", **values)
    config.architectures = ["LlamaForCausalLM"]
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    with torch.device("meta"):
        module = transformers.LlamaForCausalLM(config)
    shards: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, parameter in module.named_parameters():
        number = int(name.split(".")[2]) // per_shard if ".layers." in name else 0
        shards.setdefault(f"shard-{number:05}.safetensors", {})[name] = tuple(parameter.shape)
    for file, tensors in shards.items():
        _write(folder / file, tensors)
    where = {name: file for file, tensors in shards.items() for name in tensors}
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _write(file: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    entries, end = {}, 0
    for name, shape in tensors.items():
        start, end = end, end + _BYTES * int(np.prod(shape))
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        for name, entry in entries.items():
            values = _values(name, tensors[name])
            if values is not None:
                stream.seek(8 + len(header) + entry["data_offsets"][0])
                stream.write(values.bfloat16().view(torch.int16).numpy().tobytes())
        stream.truncate(8 + len(header) + end)


def _values(name: str, shape: tuple[int, ...]) -> Tensor | None:
    if len(shape) == 1:
        return torch.ones(shape)
    if not name.endswith(_RANDOM):
        return None
    seeded = torch.Generator().manual_seed(_RANDOM.index(".".join(name.split(".")[-2:])))
    scale = 1 + int(name.split(".")[2])
    return torch.randn(shape, generator=seeded) / shape[1] ** 0.5 * scale
