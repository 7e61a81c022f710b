"""The flags that mean the same on every command."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Source = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Hub id, local folder, file.gguf, or pkg:package/path for a model in a package.",
    ),
]
TextFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help='Text file, one prompt; FILE.jsonl, one prompt a line ({"text", "pair", "id"} or '
        '{"ids", "id"}); - for standard input. May be repeated.',
    ),
]
PromptTexts = Annotated[
    list[str] | None,
    typer.Option("--prompt", metavar="TEXT", help="A prompt as it stands. May be repeated."),
]
ImageFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="FILE",
        help="An image; --prompt is the text that goes with it. May be repeated.",
    ),
]
AudioFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--audio",
        metavar="FILE",
        help="Sound (.wav); --prompt is what the decoder reads with it. May be repeated.",
    ),
]
ExcludeSpecial = Annotated[
    bool,
    typer.Option(
        "--exclude-special",
        help="Measure attention between the other tokens alone: special tokens are left out and "
        "rows renormalised.",
    ),
]
Layers = Annotated[
    str | None, typer.Option(metavar="0-3,7", help="Layers to look at; all by default.")
]
Heads = Annotated[
    str | None, typer.Option(metavar="0-3,7", help="Heads to look at; all by default.")
]
MaxLength = Annotated[
    int | None, typer.Option(metavar="N", help="Cut every text to its first N tokens.")
]
BatchSize = Annotated[int, typer.Option(min=1, metavar="N", help="Prompts in one forward pass.")]
DeviceName = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.")]
DtypeName = Annotated[
    str, typer.Option("--dtype", help="float32, float64, bfloat16, float16, or auto.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Out = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where results are written.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use only what is on this machine.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Nothing on stderr but errors.")]
RemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")
]
Metrics = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Metrics, comma-separated; also default and all."),
]
Nulls = Annotated[
    int, typer.Option(min=0, metavar="N", help="Draw the null of every metric N times a layer.")
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Also analyze the architecture with fresh weights, as a null."),
]
Whole = Annotated[
    bool,
    typer.Option("--whole", help="Keep whole attention matrices of long texts for metrics too."),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Keep that much of the weights in memory (2GB), read the rest layer by layer.",
    ),
]
Offload = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Leave weights that memory has no room for on disk; FOLDER takes those written out.",
    ),
]
Report = Annotated[
    bool,
    typer.Option(
        "--report/--no-report",
        help="Write report.html beside the dataset; it also takes the ledger, compatibility, and "
        "maps of every layer of the first 8 prompts.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")]


class Format(StrEnum):
    """How a command prints its result."""

    table = "table"
    json = "json"


OutputFormat = Annotated[Format, typer.Option("--format", help="How the result is printed.")]
