"""GGUF files: dequantised once, kept as safetensors in the user's cache, loaded from there."""

import importlib
import json
import logging
import shutil
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from conwalk.errors import SourceError
from conwalk.models import cache as kept
from conwalk.models import fingerprint, folder, weight_files
from conwalk.models.model import Kind, Model
from conwalk.models.quiet import quiet
from conwalk.models.source_options import Options
from conwalk.models.tokenizer import one_line

logger = logging.getLogger(__name__)

_MAGIC = b"GGUF"
_LAYOUT = 1  # raise it when what is kept in the cache changes
_RECORD = "conwalk.json"


def load(file: Path, source: str, kind: Kind, options: Options, given_tokenizer: Any) -> Model:
    """Load a GGUF file as the dense model it stands for.

    The first load converts (seconds to minutes) and keeps the result in the cache, under
    the file's SHA-256; later loads read that copy.

    Args:
        file: an existing file.
        source: what errors and the model call it.
        kind: the way the file was found.
        options: how to load it; ``cache_dir`` is where the copy is kept.
        given_tokenizer: used in place of the file's own, unless None.

    Raises:
        SourceError: no GGUF file, cut short, or of a kind that cannot be dequantised.
        OutputError: the cache cannot be written to.
    """
    check_magic(file, source)
    digest = fingerprint.of_file(file)
    place = _place(digest, options)
    if not _usable(place, source):
        shutil.rmtree(place, ignore_errors=True)
        _convert(file, source, place)
    model = folder.load(place, source, kind, options, given_tokenizer)
    types = json.loads((place / _RECORD).read_text(encoding="utf-8"))["types"]
    quantized = not set(types) <= {"F64", "F32", "F16", "BF16"}
    note = f"dequantised from GGUF ({', '.join(f'{n} × {t}' for t, n in types.items())})"
    return replace(
        model,
        quantized=quantized,
        notes=(note, *model.notes),
        hash_weights=lambda: f"sha256:{digest}",
    )


def check_magic(file: Path, source: str) -> None:
    """Refuse a file that is not GGUF.

    Raises:
        SourceError: it does not start as one.
    """
    with file.open("rb") as stream:
        start = stream.read(len(_MAGIC))
    if start == _MAGIC:
        return
    if file.stat().st_size == 0:
        raise SourceError(f"{source}: the file {file.name} is empty (0 bytes); download it again")
    hint = (
        "give the folder it lies in"
        if file.suffix in {".safetensors", ".bin", ".json"}
        else "check that the download is complete"
    )
    raise SourceError(f"{source}: {file.name} is not a GGUF file (it starts {start!r}); {hint}")


def _place(digest: str, options: Options) -> Path:
    import transformers

    name = f"{digest[:32]}-transformers-{transformers.__version__}-{_LAYOUT}"
    return kept.root(options.cache_dir) / "gguf" / name


def _usable(place: Path, source: str) -> bool:
    try:
        return (place / _RECORD).is_file() and bool(weight_files.find(place, source))
    except SourceError:
        return False


def _convert(file: Path, source: str, place: Path) -> None:
    """Dequantise a file into the folder ``place``."""
    logger.info("%s: dequantising once into %s", source, place)
    reader = open_reader(file, source)
    types = Counter(tensor.tensor_type.name for tensor in reader.tensors)
    with quiet(), prepared(reader):
        try:
            module, tokenizer = _dequantise(file)
        except Exception as error:
            raise SourceError(
                f"{source}: {file.name} (architecture {architecture(reader)!r}, tensor types "
                f"{', '.join(types)}) cannot be dequantised by transformers ({one_line(error)}); "
                "use the model's safetensors, or a file of another quantisation"
            ) from error

        def fill(draft: Path) -> None:
            module.save_pretrained(draft)
            if tokenizer is not None:
                tokenizer.save_pretrained(draft)
            record = {"file": file.name, "types": dict(types.most_common())}
            (draft / _RECORD).write_text(json.dumps(record), encoding="utf-8")

        kept.store(place, fill)


def open_reader(file: Path, source: str) -> Any:
    """Parse what a GGUF file says of itself and of its tensors.

    Raises:
        SourceError: it is cut short, or has a tensor type that is not known.
    """
    from gguf import GGUFReader

    try:
        return GGUFReader(file)
    except Exception as error:
        cause = (
            "has a tensor type that the gguf package does not know"
            if "GGMLQuantizationType" in str(error)
            else "is cut short or damaged"
        )
        raise SourceError(
            f"{source}: {file.name} {cause} ({one_line(error)}); download it again or upgrade gguf"
        ) from error


def architecture(reader: Any) -> str:
    """The name a GGUF file gives its architecture, or ``""``."""
    field = reader.fields.get("general.architecture")
    return bytes(field.parts[field.data[0]]).decode() if field else ""


@contextmanager
def prepared(reader: Any) -> Generator[None, None, None]:
    """Let transformers use a parsed reader: it parses once for the config, once for the weights.

    Its table of tensor names, which it makes anew for every submodule, is made once, and its
    progress bar, which no setting turns off, is turned off.
    """
    import gguf

    loader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    found = (
        (gguf, "GGUFReader", gguf.GGUFReader),
        (gguf, "get_tensor_name_map", gguf.get_tensor_name_map),
        (loader, "tqdm", loader.tqdm),
    )
    gguf.GGUFReader = lambda *_args, **_kwargs: reader
    gguf.get_tensor_name_map = cache(gguf.get_tensor_name_map)
    loader.tqdm = partial(loader.tqdm, disable=True)
    try:
        yield
    finally:
        for module, name, value in found:
            setattr(module, name, value)


def _dequantise(file: Path) -> tuple[Any, Any]:
    """The dense float32 model of a GGUF file, ready to be saved, and its tokenizer."""
    import transformers

    where: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    config = transformers.AutoConfig.from_pretrained(str(file.parent), **where)
    module = model_class(config).from_pretrained(
        str(file.parent), config=config, dtype=torch.float32, **where
    )
    # transformers refuses to save a model that it thinks is still quantised.
    module.hf_quantizer = None
    module.is_quantized = False
    if hasattr(module.config, "quantization_config"):
        del module.config.quantization_config
    return module, _tokenizer(file, where)


def _tokenizer(file: Path, where: dict[str, Any]) -> Any:
    """The tokenizer of a GGUF file, or None: token ids can be analysed without one."""
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(str(file.parent), **where)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ImportError) as error:
        logger.warning("%s: its tokenizer cannot be read (%s)", file.name, one_line(error))
        return None


def model_class(config: Any) -> Any:
    """The class of transformers that a GGUF file is loaded into."""
    import transformers

    if config.architectures:
        return getattr(transformers, config.architectures[0])
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return transformers.AutoModelForCausalLM
    if type(config) in transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModel
