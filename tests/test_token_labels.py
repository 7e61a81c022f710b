"""Every token shows as what it is of the text, whatever the script and the tokenizer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conwalk.models.encoding import encode, from_ids
from conwalk.models.token_labels import PART
from tiny_tokenizers import of_bytes, of_pieces, of_sentences

FAMILY = "👨\u200d👩\u200d👧"


def labels(tokenizer: Any, text: str, pair: str | None = None) -> list[str]:
    return list(encode(tokenizer, text, pair).labels)


def parts(character: str) -> list[str]:
    n = len(character.encode())
    return [character] if n == 1 else [f"{character}·{i + 1}/{n}" for i in range(n)]


@pytest.mark.parametrize(
    "text",
    [
        "語",
        "日本 go",
        FAMILY,
        "e\u0301",
        "مرحبا",
        "שלום",
        "<b>x</b>",
        "<script>",
        "a\t b\n",
        "·1/3",
    ],
)
def test_bytes_show_which_part_of_which_character_they_are(text: str) -> None:
    expected = [part for character in text for part in parts(character)]
    assert labels(of_bytes(), text) == expected


@given(st.text(st.characters(codec="utf-8", exclude_characters=PART), min_size=1, max_size=12))
def test_labels_of_bytes_give_the_text_back(text: str) -> None:
    found = labels(TOKENIZER_OF_BYTES, text)
    assert "".join(label[0] for label in found if not label.endswith(LATER)) == text


TOKENIZER_OF_BYTES = of_bytes()
LATER = tuple(f"{PART}{i}/{n}" for n in (2, 3, 4) for i in range(2, n + 1))


def test_pieces_are_slices_of_the_text_as_it_was_written() -> None:
    assert labels(of_pieces(), "Unlikely <B> Café") == [
        "[CLS]", "Un", "like", "ly", "<", "B", ">", "Café", "[SEP]",
    ]  # fmt: skip


def test_an_unknown_word_says_so() -> None:
    assert labels(of_pieces(), "b ☂ b") == ["[CLS]", "b", "☂·[UNK]", "b", "[SEP]"]


def test_both_texts_of_a_pair_are_labelled() -> None:
    assert labels(of_pieces(), "b un", "Café") == ["[CLS]", "b", "un", "[SEP]", "Café", "[SEP]"]


def test_bytes_in_the_place_of_unknown_characters() -> None:
    found = labels(of_sentences(), "a 語b")
    assert found == ["<s>", "a", " ", "語·1/3", "語·2/3", "語·3/3", "b"]


def test_a_prefix_that_the_tokenizer_puts_before_a_text_is_no_part_of_it() -> None:
    assert labels(of_sentences(), "b") == ["<s>", "▁", "b"]


@pytest.mark.parametrize("text", ["語", "a日b", "é", FAMILY])
def test_ids_alone_are_decoded_together_where_they_make_a_character_together(text: str) -> None:
    tokenizer = of_bytes()
    expected = [part for character in text for part in parts(character)]
    assert list(from_ids(tokenizer, encode(tokenizer, text).ids).labels) == expected


def test_bytes_that_make_no_character_show_as_the_vocabulary_has_them() -> None:
    tokenizer = of_bytes()
    ids = encode(tokenizer, "語").ids[:2]
    assert list(from_ids(tokenizer, ids).labels) == tokenizer.convert_ids_to_tokens(list(ids))


def test_a_special_token_is_no_part_of_a_character() -> None:
    tokenizer = of_bytes(eos_token="</s>")
    first, second, third = encode(tokenizer, "語").ids
    found = from_ids(tokenizer, [first, tokenizer.eos_token_id, second, third])
    assert found.labels[1] == "</s>"
    assert found.special == (False, True, False, False)


def test_ids_without_a_tokenizer_are_numbers() -> None:
    assert from_ids(None, [5, 17]).labels == ("5", "17")


def test_a_tokenizer_without_offsets_is_asked_token_by_token() -> None:
    class Slow:
        """What a tokenizer written in Python offers."""

        is_fast = False
        all_special_tokens = ("<s>",)
        special_tokens_map = {"bos_token": "<s>"}  # noqa: RUF012
        words = ("<s>", "one ", "\ufffd")

        def __call__(self, text: str, add_special_tokens: bool = True, **_: Any) -> dict[str, Any]:
            ids = [1, 2, 1][: len(text.split())]
            return {"input_ids": [0, *ids] if add_special_tokens else ids}

        def decode(self, ids: list[int]) -> str:
            return "".join(self.words[i] for i in ids)

        def convert_tokens_to_ids(self, token: str) -> int:
            return self.words.index(token)

        def convert_ids_to_tokens(self, token: int) -> str:
            return f"piece{token}"

    assert labels(Slow(), "x y z") == ["piece0", "one ", "piece2", "one "]


MIXED = f"Hi 日本語 {FAMILY} é مرحبا שלום <b>x</b><script>"


def test_labels_of_a_trained_word_piece_tokenizer(minilm: Any) -> None:
    found = labels(minilm.tokenizer, MIXED)
    assert found[:7] == ["[CLS]", "Hi", "日", "本", "語", f"{FAMILY}·[UNK]", "é"]
    assert "".join(found[7:11]) == "مرحب"
    markup = ["<", "b", ">", "x", "<", "/", "b", ">", "<", "script", ">"]
    assert found[-12:] == [*markup, "[SEP]"]


def test_labels_of_a_trained_byte_tokenizer(smollm: Any) -> None:
    found = labels(smollm.tokenizer, MIXED)
    assert found[:8] == ["Hi", " 日·1/3", "日·2/3", "日·3/3", "本", "語·1/3", "語·2/3", "語·3/3"]
    assert [label for label in found if "\u200d" in label] == ["\u200d·1/2", "\u200d·2/2"] * 2
    assert "".join(found[-4:]).endswith("script>")
