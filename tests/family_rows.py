"""What the rules of ``family_configs`` do not get right, family by family."""

from collections.abc import Mapping
from typing import Any

NESTED: Mapping[str, Mapping[str, Any]] = {}

ROWS: Mapping[str, Mapping[str, Any]] = {}

INPUTS: Mapping[str, Mapping[str, Any]] = {}
