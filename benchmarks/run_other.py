"""Runs in the environment of the other tools: times one of them; knows nothing of conwalk."""

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

Work = Callable[[], Any]


def median(work: Work, repeats: int) -> float:
    work()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def spectral_trust(folder: str, out: str) -> tuple[Any, Any, Callable[[str, Any], Work]]:
    from spectral_trust import GSPConfig, GSPDiagnosticsFramework

    config = GSPConfig(
        model_name=folder, device="cpu", max_length=4096, save_plots=False,
        save_intermediate=False, verbose=False, local_files_only=True, output_dir=out,
    )  # fmt: skip
    framework = GSPDiagnosticsFramework(config)
    framework.instrumenter.load_model(folder)

    def make(text: str, ids: Any) -> Work:
        return lambda: framework.analyze_text(text, save_results=False)

    return framework.instrumenter.model, framework.instrumenter.tokenizer, make


def attnspectra(folder: str, out: str) -> tuple[Any, Any, Callable[[str, Any], Work]]:
    import attnspectra as aspec

    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    adapter = aspec.HFTransformerAdapter(model=model, tokenizer=tokenizer, architecture="decoder")

    def make(text: str, ids: Any) -> Work:
        return lambda: aspec.capture_and_compute(adapter, ids)

    return model, tokenizer, make


TOOLS = {"spectral_trust": spectral_trust, "attnspectra": attnspectra}


def main() -> None:
    request = json.load(sys.stdin)
    name, folder, repeats = sys.argv[1], request["folder"], request["repeats"]
    found = []
    with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(sys.stderr):
        _, tokenizer, make = TOOLS[name](folder, out)
        plain_model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
        for n in request["lengths"]:
            ids = tokenizer(request["text"], return_tensors="pt")["input_ids"][:, :n]
            text = tokenizer.decode(ids[0])
            with torch.no_grad():
                plain = median(lambda ids=ids: plain_model(ids, use_cache=False), repeats)
                tool = median(make(text, ids), repeats)
            found.append({"tool": name, "n": ids.shape[1], "eager": plain, "tool_s": tool})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
