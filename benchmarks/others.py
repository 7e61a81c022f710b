"""The same text through spectral-trust and attnspectra, each in an environment of its own."""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from conwalk.models import Model

PACKAGES = ("spectral_trust", "attnspectra")
_EXTRAS = {"attnspectra": "attnspectra[all]"}  # it does not import without them
_HOME = Path(".venv-others")
_ROOT = Path(__file__).parent.parent


def environment() -> Path:
    """Python of the environment that holds the other tools; made once."""
    python = _HOME / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(PACKAGES)} into {_HOME}", file=sys.stderr)
        venv.create(_HOME, with_pip=True)
    pinned = ["-c", str(_ROOT / "constraints.txt")]
    pip = [str(python), "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, *pinned, "torch", "transformers"], check=True)
    subprocess.run([*pip, *pinned, *(_EXTRAS.get(p, p) for p in PACKAGES)], check=True)
    return python


def compare(model: Model, text: str, lengths: list[int], repeats: int) -> list[dict[str, object]]:
    """Median seconds of the plain pass and of each tool, by length.

    Returns:
        One record for each tool and length, or one that says why there is none.
    """
    python = environment()
    with tempfile.TemporaryDirectory() as folder:
        model.module.save_pretrained(folder)
        model.require_tokenizer().save_pretrained(folder)
        request = {"folder": folder, "text": text, "lengths": lengths, "repeats": repeats}
        found: list[dict[str, object]] = []
        for package in PACKAGES:
            script = Path(__file__).parent / "run_other.py"
            ran = subprocess.run(
                [str(python), str(script), package],
                input=json.dumps(request),
                capture_output=True,
                text=True,
                check=False,
            )
            if ran.returncode:
                reason = (ran.stderr.strip().splitlines() or ["no message"])[-1]
                found.append({"tool": package, "failed": reason})
            else:
                found += json.loads(ran.stdout.strip().splitlines()[-1])
    return found
