"""An attention call that is waiting for its layer's output."""

from dataclasses import dataclass

from torch import Tensor

from conwalk.models.interception import Attended
from conwalk.models.sites import AttentionSite


@dataclass(frozen=True)
class Pending:
    """A call whose output projection has not been reached; no attention if it went in rows.

    Windows count as prompts of their own: ``windows`` of them to a prompt.
    """

    site: AttentionSite
    lengths: tuple[int, int]
    windows: int
    value: Tensor
    value_input: Tensor
    attended: Attended | None
    scores: Tensor | None
    scaling: float | None = None
    softcap: float | None = None
