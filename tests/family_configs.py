"""A tiny configuration of any family of transformers, made by shrinking its defaults by name."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from family_rows import ROWS

WIDTH = 32
HEADS = 4
VOCABULARY = 100

_IDS = {
    "pad": 0,
    "bos": 1,
    "eos": 2,
    "decoder_start": 1,
    "cls": 3,
    "sep": 2,
    "mask": 4,
    "unk": 3,
    "image": 91,
    "video": 92,
    "audio": 93,
}
_OTHER_IDS = 94
_MOST_LAYERS = 6

_RULES: tuple[tuple[str, Any], ...] = (
    (r"(vocab_size_per_layer_input|.*vocab_size|vocab_size.*|.*_vocab)", VOCABULARY),
    (r"num_kv_shared_layers|num_shared_layers", 0),
    (r"num_hidden_groups|num_layers_per_block", 1),
    (
        r"(.*_)?head_dim(_.*)?|d_kv|dim_head|head_width|(global|swa|.*)_head_dim|d_head|kv_channels",
        8,
    ),
    (r"rotary_dim", 4),
    (r"(q|kv|o)_lora_rank|.*_rank", 16),
    (r"(.*_)?(num_)?(key_value|kv)_heads(_.*)?|.*num_kv_heads|n_kv_heads|num_kv.*heads", 2),
    (r".*(num_attention|num|attention|n|attn)_heads?|n_heads?|num_heads|.*attn_heads", HEADS),
    (r".*(num_.*layers|_layers|n_layers?|_n_layer|depth)|num_layers|n_layer|layers", 2),
    (r"num_blocks|num_stages_decoder", 2),
    (r"(n_routed_|num_|moe_num_|num_local_|n_)experts|num_local_experts|num_moe_experts", 4),
    (r"(num_)?experts_per_tok(en)?|moe_(topk|k|top_k)|top_k_experts|num_selected_experts|top_k", 2),
    (r"n_group|num_expert_group|topk_group|first_k_dense_replace", 1),
    (r"(.*_)?(intermediate_size|ffn_dim|ffn_hidden_size|d_ff|d_inner|dff|dim_ff)(_.*)?", 48),
    (r".*(feedforward|feed_forward|ff)_.*(dim|size)|.*linear_units|.*dim_feedforward", 48),
    (r"mlp_dim|.*mlp_hidden_size|.*mlp_intermediate_size", 48),
    (r"max_(position|target|source|encoder_position|decoder_position).*|n_positions|n_ctx", 128),
    (r"max_seq_len|max_sequence_length|context_length|max_len|max_source_length", 128),
    (r"(attention_|local_)?(sliding_)?window(_size)?|sliding_window.*", 4),
    (r"attention_chunk_size|chunk_attention_size", 4),
    (r"image_size|input_resolution|crop_size|pretrain_image_size|img_size|resolution", 32),
    (r"patch_size|patch_size_.*", 8),
    (r"num_mel_bins|n_mel_bins|feature_size|n_mels|mel_dim|num_mel_channels|input_feat_size", 16),
    (r"num_conv_pos_embedding_groups", 4),
    (r"num_conv_pos_embeddings", 16),
    (r"num_(queries|query_tokens|latents|object_queries)|.*num_latents|latent_query_num", 6),
    (r"num_codebooks|n_codebooks|num_quantizers|num_codevector_groups", 2),
    (r"codebook_size|.*num_codevectors_per_group|num_embeddings|codebook_vocab_size", 16),
    (r"num_groups|.*_num_groups", 4),
    (
        r"(.*_)?(hidden_size|hidden_dim|d_model|n_embd|emb_dim|embed_dim|embedding_size)(_.*)?",
        WIDTH,
    ),
    (r"dim|embedding_dim|entity_emb_size|projection_dim|project_dim|out_hidden_size", WIDTH),
    (
        r".*(_dim|_hidden|_width|_size_out|projection_size|feature_dim)|encoder_width|mask_dim",
        WIDTH,
    ),
    (r"(mamba_)?d_state|state_size|ssm_state_size|mamba_d_state", 8),
    (
        r"fpn_feature_size|mask_feature_size|output_channels|fpn_hidden_size|auxiliary_channels",
        WIDTH,
    ),
    (r"conv_dim", 16),
    (r"(num_|n_)filters|base_channels", 4),
    (r"upsample_initial_channel", 64),
    (r"upsample_groups", WIDTH),
    (r"num_pos_feats", WIDTH // 2),
    (r"num_frames|tubelet_size_frames", 4),
    (r"num_blocks_per_stage", 1),
)
_LISTS: tuple[tuple[str, Any], ...] = (
    (r"depths?|num_block_repeats|layers|stage_numb_of_layers|blocks_per_stage|block_sizes", 1),
    (r"(num_)?(attention_)?heads|num_attention_heads", 2),
    (r"hidden_sizes|embed_dims?|encoder_hidden_sizes|conv_dim|neck_hidden_sizes", 16),
    (r".*intermediate_size.*", 48),
)


def tiny_config(model_type: str, **overrides: Any) -> Any:
    """A tiny configuration of one family.

    Args:
        model_type: as transformers knows it.
        **overrides: values that replace those of the rules and of the family's row.

    Returns:
        An object of the family's configuration class, nested configurations shrunk alike.
    """
    from transformers import CONFIG_MAPPING

    row = dict(ROWS.get(model_type, {}))
    return CONFIG_MAPPING[model_type](**_values(CONFIG_MAPPING[model_type], row | overrides))


def _values(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for a configuration class."""
    values: dict[str, Any] = {}
    nested = getattr(kind, "sub_configs_defaults", {})
    for field in fields(kind):
        if field.name in nested or not field.init:
            continue
        default = field.default if field.default is not MISSING else None
        if field.default_factory is not MISSING:
            default = field.default_factory()
        small = _shrunk(field.name, default)
        if small is not None and small != default:
            values[field.name] = small
    for key, spec in nested.items():
        own = given.get(key, {})
        if own is None:
            continue
        inner = _nested_class(spec, own)
        if inner is None:
            continue
        preset = {k: _shrunk(k, v) for k, v in spec.init_kwargs.items()}
        stages = preset.get("out_indices") or preset.get("out_features") or ()
        if len(stages) > 1 and spec.model_type != "swin":
            preset["num_hidden_layers"] = len(stages)
            preset["out_indices"] = list(range(1, len(stages) + 1))
            preset.pop("out_features", None)
        extra = preset | dict(ROWS.get(inner.model_type, {})) | dict(own)
        values[key] = inner(**_values(inner, extra))
    values |= {k: v for k, v in given.items() if k not in nested or v is None}
    if "kv_lora_rank" in {f.name for f in fields(kind)} and "num_key_value_heads" not in given:
        values["num_key_value_heads"] = HEADS
    return _rotation(kind, _kinds_of_layers(kind, values))


def _kinds_of_layers(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """As few layers as show every kind of layer that the family mixes."""
    for name in ("layer_types", "layers_block_type", "layer_type_list"):
        usual = _default(kind, name)
        listed = isinstance(vars(kind).get(name), list | tuple)  # the kinds there are, not layers
        if name in values or listed or not usual or not isinstance(usual[0], str):
            continue
        count = next(n for n in range(2, len(usual) + 1) if set(usual[:n]) == set(usual))
        if count > _MOST_LAYERS:
            first = {k: usual.index(k) for k in set(usual)}
            return {**values, name: [usual[i] for i in sorted(first.values())]} | {
                "num_hidden_layers": len(first)
            }
        own = {name: list(usual[:count])} if name in {f.name for f in fields(kind)} else {}
        return {**values, "num_hidden_layers": count, **own}
    return values


def _rotation(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Sections of a rotary embedding over several axes that fit the small heads."""
    usual = values.get("rope_parameters") or _default(kind, "rope_parameters")
    if not isinstance(usual, dict) or "mrope_section" not in usual:
        return values
    width = values.get("head_dim") or WIDTH // HEADS
    half = int(width * usual.get("partial_rotary_factor", 1.0)) // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    return {**values, "rope_parameters": {**usual, "mrope_section": sections}}


def _default(kind: Any, name: str) -> Any:
    """What a value is in a configuration of this class that nobody touched."""
    try:
        return getattr(kind(), name, None)
    except Exception:  # noqa: BLE001 - some classes cannot be made without values
        return None


def _nested_class(spec: Any, own: Mapping[str, Any]) -> Any:
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    if isinstance(spec.config_class, type) and issubclass(spec.config_class, PreTrainedConfig):
        return spec.config_class
    name = own.get("model_type", spec.model_type)
    return CONFIG_MAPPING[name] if name in CONFIG_MAPPING else None  # noqa: SIM401 - lazy mapping


def _shrunk(name: str, default: Any) -> Any:
    if name == "dtype":
        return None
    identity = _identity(name, default)
    if identity is not None:
        return identity
    if isinstance(default, list | tuple) and default and all(_whole(v) for v in default):
        found = _first(_LISTS, name)
        if name.endswith(("image_size", "patch_size", "window_size")):
            found = _first(_RULES, name)
        return type(default)([found] * len(default)) if found is not None else default
    if not _whole(default):
        return default
    found = _first(_RULES, name)
    return default if found is None or default == 0 else found


def _identity(name: str, default: Any) -> Any:
    """Special token ids, within the small vocabulary."""
    matched = re.fullmatch(r"(.*?)_?(token_id|token_index|_idx|token_ids)", name)
    if matched is None or not _whole(default):
        return None
    return _IDS.get(matched[1], _OTHER_IDS if default >= VOCABULARY else default)


def _first(rules: tuple[tuple[str, Any], ...], name: str) -> Any:
    return next((value for pattern, value in rules if re.fullmatch(pattern, name)), None)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
