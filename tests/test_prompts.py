"""Prompts in every form: special tokens once, pairs, ids, names, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch

import conwalk as cw
from conwalk.errors import TextError
from conwalk.models.encoding import encode
from conwalk.pipeline.items import item_of
from conwalk.pipeline.prompts import tokenise
from tiny_models import make_tiny
from tiny_sources import make_tokenizer
from tiny_tokenizers import of_pieces, of_sentences


@pytest.fixture(scope="module")
def bert() -> Any:
    return cw.load(make_tiny("bert"), tokenizer=of_pieces())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("un b", ["[CLS]", "un", "b", "[SEP]"]),
        ("[CLS] un b", ["[CLS]", "un", "b", "[SEP]"]),
        ("un b [SEP]", ["[CLS]", "un", "b", "[SEP]"]),
        ("[CLS] un b [SEP]", ["[CLS]", "un", "b", "[SEP]"]),
        ("[CLS] [CLS] b", ["[CLS]", "[CLS]", "b", "[SEP]"]),
        ("un [SEP] b", ["[CLS]", "un", "[SEP]", "b", "[SEP]"]),
    ],
)
def test_special_tokens_are_there_as_the_tokenizer_adds_them_once(
    text: str, names: list[str]
) -> None:
    found = encode(of_pieces(), text)
    assert list(found.labels) == names
    assert list(found.special) == [name.startswith("[") for name in names]


def test_a_text_that_begins_with_its_start_token_has_it_once() -> None:
    assert encode(of_sentences(), "<s>a").labels == ("<s>", "a")
    assert encode(of_sentences(), "a").labels == ("<s>", "a")


def test_a_cut_text_keeps_what_stands_after_it() -> None:
    found = encode(of_pieces(), "un b un b", "un b")
    assert found.cut(4).labels == ("[CLS]", "un", "b", "[SEP]")
    assert found.cut(1).labels == ("[CLS]",)
    assert found.cut(99) is found
    assert encode(make_tokenizer(), "w1 w2 w3").cut(2).labels == ("w1", "w2")


def test_a_cut_text_is_what_the_tokenizer_cuts(minilm: Any) -> None:
    text = "The old lighthouse keeper climbed the stairs once more."
    cut = minilm.tokenizer(text, truncation=True, max_length=6)["input_ids"]
    assert list(encode(minilm.tokenizer, text).cut(6).ids) == cut


def test_an_unknown_word_is_not_special(bert: Any) -> None:
    (prompt,), _ = tokenise(bert, ["☂ b"])
    assert prompt.special == (True, False, False, True)


@pytest.mark.parametrize("given", [("un b", "b"), {"text": "un b", "pair": "b"}])
def test_a_pair_has_the_types_that_the_tokenizer_gives_it(bert: Any, given: Any) -> None:
    (prompt,), _ = tokenise(bert, [given])
    assert prompt.pieces == ("[CLS]", "un", "b", "[SEP]", "b", "[SEP]")
    assert prompt.extra["token_type_ids"] == (0, 0, 0, 0, 1, 1)
    assert prompt.text == "un b\nb"
    found, plain = cw.analyze(bert, [given]), cw.analyze(bert, [list(prompt.ids)])
    assert float(abs(found.entropy - plain.entropy).max()) > 1e-3


@pytest.mark.parametrize(
    "given", [[5, 9, 10], {"ids": [5, 9, 10]}, np.array([5, 9, 10]), torch.tensor([5, 9, 10])]
)
def test_ids_are_taken_as_they_are(bert: Any, given: Any) -> None:
    (prompt,), _ = tokenise(bert, [given])
    assert prompt.ids == (5, 9, 10)
    assert prompt.text is None
    assert "".join(prompt.pieces).replace("#", "") == "likebcafe"


def test_names_texts_and_order_are_kept(bert: Any) -> None:
    given = [{"text": "b", "id": "z"}, {"text": "", "id": "y"}, {"ids": [9], "id": 7}, "un b"]
    found = cw.analyze(bert, given)
    assert list(found.prompt.values) == ["z", "7", "3"]
    assert found.attrs["texts"] == '["b", null, "un b"]'
    assert cw.analyze(bert, given[:1], names=["own"]).prompt.values == ["own"]
    ((name, reason),) = [(r["name"], r["reason"]) for r in _refused(found)]
    assert (name, reason) == ("text y", "it is empty")


def _refused(found: Any) -> Any:
    from conwalk.results import refused

    return refused(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "int is no prompt; give a text, a list of prompts"),
        ([5], "int is no prompt; give a text, (text, pair), token ids, an image or audio"),
        ([["un", "b"]], "it is a sequence with 'un' in it, which is no token id"),
        ([[1, True]], "it is a sequence with 'True' in it"),
        ([[1, 2.5]], "it is a sequence with '2.5' in it"),
        ([{"txt": "b"}], "it has 'txt', which no prompt has"),
        ([{"id": "b"}], "it has neither text, ids, image nor audio"),
        ([{"text": 5}], "its text is int, not a text"),
        ([{"text": "b", "ids": [1]}], "it has both a text and token ids"),
        ([{"pair": "b"}], "it has a pair and no text that it goes with"),
        ([("b", " ")], "its pair holds nothing but white space"),
        (["\ud800b"], "it holds half a character (a lone surrogate) at 0"),
        ([[11]], "outside the vocabulary, 0-10"),
        ([], "no text was given: pass at least one"),
    ],
)
def test_what_is_no_prompt_is_refused_in_one_line(given: Any, message: str) -> None:
    model = cw.load(make_tiny("bert", vocab_size=11), tokenizer=of_pieces())
    with pytest.raises(TextError) as refusal:
        cw.analyze(model, given)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_two_prompts_of_one_name_are_refused(bert: Any) -> None:
    with pytest.raises(TextError, match="prompts 0 and 2 are both called 'a'; give every prompt"):
        cw.analyze(bert, ["b", "b", "b"], names=["a", "c", "a"])
    with pytest.raises(TextError, match="1 names for 2 prompts: give one for each"):
        cw.analyze(bert, ["b", "b"], names=["a"])


def test_inputs_that_the_forward_does_not_know_are_not_passed() -> None:
    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = make_tiny("llama")

        def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask)

    model = cw.load(Plain(), tokenizer=of_pieces())
    assert cw.analyze(model, ["un b"]).sizes["token"] == 4


def test_an_item_is_left_as_it_is() -> None:
    item = item_of({"text": "b", "id": 3})
    assert item_of(item) is item
    assert item.name == "3"
