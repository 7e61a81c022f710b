"""Models in a local folder: config.json, weights, and usually a tokenizer."""

from pathlib import Path
from typing import Any

from torch import nn

from conwalk.errors import SourceError
from conwalk.models import cache, checks, fingerprint, processor, tokenizer, weight_files
from conwalk.models.model import Kind, Model
from conwalk.models.quiet import quiet
from conwalk.models.source_options import Options
from conwalk.models.tokenizer import one_line


def load(folder: Path, source: str, kind: Kind, options: Options, given_tokenizer: Any) -> Model:
    """Load the model of a folder, in evaluation mode, with eager attention.

    Args:
        folder: an existing folder.
        source: what errors and the model call it.
        kind: the way the folder was found.
        options: how to load it.
        given_tokenizer: used in place of the folder's own, unless None.

    Raises:
        SourceError: something in the folder is missing, damaged or unknown.
    """
    config = checked_config(folder, source, options)
    files = weight_files.find(folder, source)
    with quiet():
        module, notes = _load_module(folder, source, config, options)
        if given_tokenizer is None:
            given_tokenizer, lack = tokenizer.read(
                folder, trust_remote_code=options.trust_remote_code
            )
            notes += (f"no tokenizer: {lack}",) if lack else ()
    method = config.get("quantization_config", {}).get("quant_method")
    if method:
        notes += (f"the weights are quantized ({method}): the analysis is of the quantized model",)
    return Model(
        module=(module if options.offloads else module.to(options.device)).eval(),
        tokenizer=given_tokenizer,
        source=source,
        kind=kind,
        quantized=bool(method),
        notes=notes,
        hash_weights=lambda: fingerprint.of_files(files),
        find_processor=lambda: processor.read(folder, trust_remote_code=options.trust_remote_code),
    )


def checked_config(folder: Path, source: str, options: Options) -> dict[str, Any]:
    """The contents of config.json, once it names a model that can be built here."""
    import transformers

    path = folder / "config.json"
    if not path.is_file():
        raise SourceError(_no_config(folder, source))
    config = weight_files.read_json(path, source)
    model_type = config.get("model_type")
    if model_type in transformers.CONFIG_MAPPING:
        return config
    if not config.get("auto_map"):
        known = f"the model type {model_type!r} is not known to transformers"
        named = known if model_type else "config.json names no model_type"
        raise SourceError(
            f"{source}: {named} {transformers.__version__ if model_type else ''}".rstrip()
            + "; upgrade transformers, or load the module yourself and pass it"
        )
    if not options.trust_remote_code:
        raise SourceError(
            f"{source}: the model needs code of its own (auto_map in config.json), which is not "
            "run unless you ask; read that code, then pass trust_remote_code=True"
        )
    return config


def _no_config(folder: Path, source: str) -> str:
    if (folder / "adapter_config.json").is_file():
        return (
            f"{source}: the folder {folder} holds an adapter without its base model; merge the "
            "adapter into the model and save that"
        )
    inner = sorted(child.parent.name for child in folder.glob("*/config.json"))
    gguf = sorted(child.name for child in folder.glob("*.gguf"))
    hint = "give the folder that save_pretrained wrote"
    if models := inner + gguf:
        hint = f"did you mean {source.rstrip('/')}/{models[0]}?"
    return f"{source}: the folder {folder} has no config.json; {hint}"


def _load_module(
    folder: Path, source: str, config: dict[str, Any], options: Options
) -> tuple[nn.Module, tuple[str, ...]]:
    """The module, and notes on what its checkpoint lacked."""
    try:
        module, report = model_class(config, options).from_pretrained(
            str(folder),
            dtype=options.dtype,
            attn_implementation="eager",
            local_files_only=True,
            trust_remote_code=options.trust_remote_code,
            output_loading_info=True,
            **_placement(options),
        )
    except Exception as error:
        raise SourceError(_failure(source, config, error)) from error
    notes = checks.refuse_missing_attention(source, report["missing_keys"])
    return module, notes + checks.note_unused_attention(report["unexpected_keys"])


def _placement(options: Options) -> dict[str, Any]:
    """What transformers is told about weights that may stay on disk."""
    if not options.offloads:
        return {}
    place = (
        cache.root(options.cache_dir) / "offload" if options.offload is None else options.offload
    )
    bound = {} if options.max_memory is None else {"max_memory": {"cpu": options.max_memory}}
    return {"device_map": "auto", "offload_folder": str(place), **bound}


def _failure(source: str, config: dict[str, Any], error: Exception) -> str:
    kind = config.get("model_type", "unknown")
    if "mismatch" in str(error):
        return (
            f"{source}: the shapes of the weights are not those that config.json ({kind}) "
            "describes; the two files belong to different models"
        )
    return (
        f"{source}: transformers cannot load the model ({kind}): "
        f"{type(error).__name__}: {one_line(error)}; check config.json and the weight files, or "
        "load the module yourself and pass it"
    )


def model_class(config: dict[str, Any], options: Options) -> Any:
    """The class config.json asks for; AutoModel if transformers has none of that name."""
    import transformers

    wanted = (config.get("architectures") or [""])[0]
    found = getattr(transformers, wanted, None) if wanted else None
    if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
        return found
    if options.trust_remote_code:
        for auto, path in config.get("auto_map", {}).items():
            if auto.startswith("AutoModel") and str(path).endswith(f".{wanted}"):
                return getattr(transformers, auto)
    return transformers.AutoModel
