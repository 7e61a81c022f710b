"""What the rules of ``family_configs`` and ``family_inputs`` do not get right, by family."""

from collections.abc import Mapping
from typing import Any

_SWIN = {
    "image_size": 64,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 1, 1, 1],
    "num_heads": [1, 2, 2, 4],
    "window_size": 4,
}
_AXES = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}
_THREE_AXES = {"rope_parameters": _AXES}
_HALF_AXES = {"head_dim": 16, "rope_parameters": {**_AXES, "partial_rotary_factor": 0.5}}
_SERIES = {"prediction_length": 6, "context_length": 12, "lags_sequence": [1, 2, 3]}
_DAC = {"encoder_hidden_size": 4, "decoder_hidden_size": 32, "hidden_size": 32}
_CONVOLUTIONS = {"num_filters": 4, "depths": [1, 1, 1, 1]}

ROWS: Mapping[str, Mapping[str, Any]] = {
    "big_bird": {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1},
    "bigbird_pegasus": {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1},
    "qwen2_5_vl_vision": {"window_size": 16, "fullatt_block_indexes": [1]},
    "qwen2_5_omni_vision_encoder": {"window_size": 16, "fullatt_block_indexes": [1]},
    "exaone4_5_vision": {"window_size": 16, "fullatt_block_indexes": [1]},
    "qwen2_5_omni_talker": _THREE_AXES,
    "speech_to_text": {"input_feat_per_channel": 16, "conv_channels": 32, "num_conv_layers": 2},
    "speecht5": {"conv_dim": [16, 16], "conv_stride": [5, 4], "conv_kernel": [10, 4]},
    "wav2vec2-bert": {"feature_projection_input_dim": 16},
    "visual_bert": {"visual_embedding_dim": 32},
    "lxmert": {"visual_feat_dim": 16},
    "bros": {"dim_bbox_sinusoid_emb_2d": 8, "dim_bbox_projection": 8, "hidden_size": 32},
    "step3p5": {"sliding_window": 4},
    "sam": {}, "kosmos-2": {}, "blip-2": {},
    "dab-detr": {"query_dim": 4},
    "esm": {"vocab_size": 100, "pad_token_id": 0, "mask_token_id": 4},
    "patchtst": {"num_input_channels": 2, "context_length": 32, "patch_length": 8, "patch_stride": 8},
    "decision_transformer": {"state_dim": 5, "act_dim": 3, "n_positions": 128},
    "mllama_vision_model": {"vision_output_dim": 64, "intermediate_layers_indices": [0]},
    "gpt_neox_japanese": {},
    "autoformer": _SERIES,
    "time_series_transformer": _SERIES,
    "informer": _SERIES,
    "donut-swin": _SWIN,
    "swin": _SWIN,
    "maskformer-swin": _SWIN,
    "swinv2": {**_SWIN, "pretrained_window_sizes": [0, 0, 0, 0]},
    "qwen2_vl_text": _THREE_AXES,
    "qwen2_5_vl_text": _THREE_AXES,
    "qwen2_5_omni_text": _THREE_AXES,
    "paddleocr_vl_text": _THREE_AXES,
    "glm4v_text": _HALF_AXES,
    "glm_image_text": _HALF_AXES,
    "glm_ocr_text": _HALF_AXES,
    "glm4v_moe_text": _HALF_AXES,
    "dac": _DAC,
    "qwen3_next": {"num_hidden_layers": 4},
    "qwen3_5_text": {"num_hidden_layers": 4},
    "qwen3_5_moe_text": {"num_hidden_layers": 4},
    "bailing_hybrid": {"num_hidden_layers": 4, "layer_group_size": 2},
    "bamba": {"num_hidden_layers": 3, "attn_layer_indices": [1]},
    "granitemoehybrid": {"num_hidden_layers": 2, "layer_types": ["mamba", "attention"]},
    "jamba": {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": {"num_hidden_layers": 4},
    "lfm3": {"num_hidden_layers": 4},
    "qwen4_exp_text": {"num_hidden_layers": 4},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "swin2sr": {"image_size": 32, "patch_size": 1, "window_size": 4, "depths": [2], "num_heads": [2], "embed_dim": 16},
    "levit": {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1], "key_dim": [8, 8, 8]},
    "deepseek_v2": {"num_experts_per_tok": 2, "topk_group": 1, "n_group": 1},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "esm": {"vocab_size": 100, "pad_token_id": 0, "mask_token_id": 4},
    "gpt_neo": {
        "num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4,
    },
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "hunyuan_vl_text": {"head_dim": 8},
    "ministral": {"head_dim": 8},
    "nemotron": {"head_dim": 8, "num_key_value_heads": 2},
    "nemotron_h": {"n_groups": 1, "mamba_num_heads": 4, "mamba_head_dim": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "ernie4_5_vl_moe": {},
    "zaya": {"num_experts_per_tok": 1},
    "mamba2": {"num_heads": 8},
    "glm5_next_text": {"num_key_value_heads": 4},
    "dots3_note_text": {"num_key_value_heads": 4},
    "lilt": {"hidden_size": 48, "num_attention_heads": 4},
    "layoutlmv3": {"hidden_size": 48, "coordinate_size": 8, "shape_size": 8},
    "reformer": {
        "axial_pos_embds_dim": [16, 16], "axial_pos_shape": [4, 4], "attn_layers": ["local", "lsh"],
    },
    "clap_audio_model": {"spec_size": 32},
    "xmod": {"default_language": "en_XX"},
    "squeezebert": {"q_groups": 2, "k_groups": 2, "v_groups": 2, "post_attention_groups": 1},
    "diffllama": {"num_key_value_heads": 2},
    "llama4_text": {"layer_types": ["chunked_attention", "full_attention"], "no_rope_layers": [1, 0]},
    "unlimited_ocr_text": {"num_key_value_heads": 4},
}  # fmt: skip

INPUTS: Mapping[str, tuple[str, ...]] = {}
