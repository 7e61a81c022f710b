"""Finding what makes images and audio into the inputs of a model, beside its weights."""

from pathlib import Path
from typing import Any

from conwalk.models.quiet import quiet
from conwalk.models.tokenizer import one_line

_FILES = ("processor_config.json", "preprocessor_config.json")
_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ImportError,
    RuntimeError,
)
_READERS = ("AutoProcessor", "AutoImageProcessor", "AutoFeatureExtractor")


def read(folder: Path, *, trust_remote_code: bool = False) -> tuple[Any, str]:
    """Read the processor of a folder: of images, of audio, or of several kinds together.

    Returns:
        The processor and ``""``; or None and the reason why there is none.
    """
    if not any((folder / name).is_file() for name in _FILES):
        return None, f"the folder {folder} has no {' or '.join(_FILES)}"
    import transformers

    problem = ""
    for reader in _READERS:
        try:
            with quiet():
                found = getattr(transformers, reader).from_pretrained(
                    str(folder), local_files_only=True, trust_remote_code=trust_remote_code
                )
        except _UNREADABLE as error:
            problem = problem or one_line(error)
            continue
        # transformers falls back to the tokenizer where it finds no processor
        if not isinstance(found, transformers.PreTrainedTokenizerBase):
            return found, ""
    return None, f"its processor cannot be read ({problem or 'it is a tokenizer alone'})"
