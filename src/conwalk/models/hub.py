"""Models on the Hugging Face Hub, or in its local cache."""

import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from conwalk.errors import SourceError
from conwalk.models import weight_files
from conwalk.models.source_options import Options
from conwalk.models.tokenizer import one_line

_PROBE_SECONDS = 5.0
_LANDMARKS = ("config.json", "tokenizer_config.json")
_TEXT_SUFFIXES = (".json", ".txt", ".model", ".jinja", ".tiktoken")


def fetch(repo: str, options: Options) -> tuple[Path, tuple[str, ...]]:
    """The folder of a Hub model in the local cache, downloaded first if need be.

    HF_HOME, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE are respected.

    Args:
        repo: a Hub id, ``name`` or ``organisation/name``.
        options: ``offline``, ``revision`` and ``trust_remote_code`` matter here.

    Returns:
        The folder, and a note if the Hub was out of reach and the cached copy is used.

    Raises:
        SourceError: the model does not exist, is gated, or can be had neither from the Hub
            nor from the cache.
    """
    if _offline(options):
        reason = "offline mode is on (HF_HUB_OFFLINE or offline=True)"
        return _cached(repo, options, reason), ()
    if reason := _out_of_reach():
        folder = _cached(repo, options, f"the Hub is out of reach ({reason})")
        return folder, (f"the Hub is out of reach ({reason}): the cached copy is used",)
    return _download(repo, options), ()


def choose(names: list[str], *, trust_remote_code: bool) -> list[str]:
    """The files of a repository that a load needs: one set of weights, and the small texts."""
    top = [name for name in names if "/" not in name]
    entry = weight_files.entry(top)
    weights = weight_files.shards_of(entry, top) if entry else []
    suffixes = (*_TEXT_SUFFIXES, ".py") if trust_remote_code else _TEXT_SUFFIXES
    code = [n for n in names if n.endswith(".py")] if trust_remote_code else []
    return sorted({*weights, *code, *(n for n in top if n.endswith(suffixes))})


def _offline(options: Options) -> bool:
    from huggingface_hub import constants

    return constants.HF_HUB_OFFLINE if options.offline is None else options.offline


def _out_of_reach() -> str:
    """Why the Hub cannot be reached, or ``""``. One request: its client retries for 23 s a file."""
    from huggingface_hub import constants

    request = urllib.request.Request(constants.ENDPOINT, method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=_PROBE_SECONDS).close()
    except urllib.error.HTTPError:
        return ""
    except urllib.error.URLError as error:
        # Python may lack the certificates that the Hub's client brings along.
        certificates = isinstance(error.reason, ssl.SSLError)
        return "" if certificates else f"{constants.ENDPOINT}: {error.reason}"
    except OSError as error:
        return f"{constants.ENDPOINT}: {error}"
    return ""


def _cached(repo: str, options: Options, reason: str) -> Path:
    from huggingface_hub import constants, try_to_load_from_cache

    # snapshot_download finds a snapshot only if every file of the repository was fetched.
    for file in _LANDMARKS:
        try:
            place = try_to_load_from_cache(repo, file, revision=options.revision)
        except ValueError as error:
            raise SourceError(f"{repo}: no valid Hub id ({one_line(error)}); check it") from error
        if isinstance(place, str):
            return Path(place).parent
    raise SourceError(
        f"{repo}: {reason} and the model is not in the local Hub cache "
        f"({constants.HF_HUB_CACHE}), nor is there a folder of that name; connect once to "
        "download it, or give a local folder, a .gguf file or pkg:package/path"
    )


def _download(repo: str, options: Options) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    try:
        names = HfApi().list_repo_files(repo, revision=options.revision)
        wanted = choose(names, trust_remote_code=options.trust_remote_code)
        return Path(snapshot_download(repo, revision=options.revision, allow_patterns=wanted))
    except Exception as error:
        raise SourceError(f"{repo}: {_refusal(error, options)}") from error


def _refusal(error: Exception, options: Options) -> str:
    from huggingface_hub import errors

    # The first that fits: a gated repository is a kind of repository not found.
    reasons: tuple[tuple[Any, str], ...] = (
        (
            errors.GatedRepoError,
            "the model is gated on the Hub; accept its terms on its page, then log in "
            "(hf auth login) or set HF_TOKEN",
        ),
        (
            errors.RevisionNotFoundError,
            f"the Hub has the model but no revision {options.revision!r}; check the branch or tag",
        ),
        (
            errors.RepositoryNotFoundError,
            "no such model on the Hub (or it is private), and no folder of that name; check the "
            "spelling, or log in (hf auth login) or set HF_TOKEN",
        ),
    )
    for kind, text in reasons:
        if isinstance(error, kind):
            return text
    return f"the download from the Hub failed ({one_line(error)}); try again"
