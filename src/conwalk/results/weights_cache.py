"""Numbers of the weights alone, kept on disk: a model's weights do not change between runs.

A cache can only save time: what cannot be read, or is not what was written, is computed anew,
and what cannot be written is not kept. A file holds the SHA-256 of an npz archive, then the
archive, whose ``key`` says what it is.
"""

import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float64]]
_KEY = "key"
_PREFIX = "array:"
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Key:
    """All that the numbers of one metric on one layer depend on.

    Attributes:
        weights_hash: fingerprint of the weights; nothing is kept for an empty one.
        layer: name of the layer, its stack included.
        metric: name of the metric.
        variant: whatever else was chosen: heads, dtype, seed, folding; empty for none.
    """

    weights_hash: str
    layer: str
    metric: str
    variant: str = ""

    def text(self) -> str:
        """The key and the code that computes, as one line."""
        return json.dumps({**asdict(self), "code": _code()}, sort_keys=True)

    def place(self, folder: Path) -> Path:
        """The file that holds the numbers, below ``folder``."""
        digest = hashlib.sha256(self.text().encode()).hexdigest()
        return folder / digest[:2] / f"{digest[2:]}.cache"


def remembered(folder: Path, key: Key, compute: Callable[[], Arrays]) -> Arrays:
    """Give the kept numbers, or compute and keep them.

    Args:
        folder: of the cache.
        key: what the numbers depend on.
        compute: how to get them.

    Returns:
        Arrays by name.
    """
    if not key.weights_hash:
        return compute()
    kept = load(folder, key)
    if kept is not None:
        return kept
    computed = compute()
    save(folder, key, computed)
    return computed


def load(folder: Path, key: Key) -> Arrays | None:
    """Read kept numbers.

    Args:
        folder: of the cache.
        key: what the numbers depend on.

    Returns:
        Arrays by name; None if there are none, or if the file is damaged.
    """
    try:
        stored = key.place(folder).read_bytes()
    except OSError:
        return None
    checksum, content = stored[:_DIGEST], stored[_DIGEST:]
    if checksum != hashlib.sha256(content).digest():
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        names = [name for name in file.files if name != _KEY]
        return {name.removeprefix(_PREFIX): file[name] for name in names}


def save(folder: Path, key: Key, arrays: Arrays) -> None:
    """Keep numbers, whole or not at all; a folder that cannot be written keeps none.

    Args:
        folder: of the cache.
        key: what the numbers depend on.
        arrays: by name.
    """
    content = io.BytesIO()
    named = {f"{_PREFIX}{name}": values for name, values in arrays.items()}
    np.savez(content, allow_pickle=False, **{_KEY: np.asarray(key.text()), **named})
    whole = content.getvalue()
    with suppress(OSError):
        _write(key.place(folder), hashlib.sha256(whole).digest() + whole)


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, suffix=".draft", delete=False) as draft:
        path = Path(draft.name)
        try:
            draft.write(content)
        except OSError:
            path.unlink(missing_ok=True)
            raise
    path.replace(place)


@cache
def _code() -> str:
    """Version and fingerprint of the package: numbers of other code are not these numbers."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return f"{version('conwalk')} {digest.hexdigest()}"
