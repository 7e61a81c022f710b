"""Finding the tokenizer that lies beside a model's weights."""

from pathlib import Path
from typing import Any

_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)


def read(folder: Path, *, trust_remote_code: bool = False) -> tuple[Any, str]:
    """Read the tokenizer of a folder.

    Returns:
        The tokenizer and ``""``; or None and the reason why there is none.
    """
    if not any((folder / name).is_file() for name in _FILES):
        return None, f"the folder {folder} has no tokenizer files"
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=trust_remote_code
        )
        # Given a configuration alone, transformers makes a tokenizer that knows no word.
        ordinary = set(found.get_vocab()) - set(found.all_special_tokens)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        return None, f"its tokenizer cannot be read ({one_line(error)})"
    if not ordinary:
        return None, "its tokenizer files hold no vocabulary"
    return found, ""


def one_line(error: BaseException, most: int = 300) -> str:
    """What an exception says, as one line of at most ``most`` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= most else text[:most] + "…"
