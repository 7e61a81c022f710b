"""The built-in texts: there, of one length, in the languages they claim, and distinct."""

import unicodedata

import pytest

from conwalk import texts
from conwalk.errors import TextError

SCRIPTS = {"chinese": "CJK", "arabic": "ARABIC"}
COMMON_WORDS = {
    "narrative": "the and was",
    "technical": "the and is",
    "dialogue": "the and said",
    "news": "the and will",
    "poem": "the and is",
    "code": "def return if",
    "german": "der die und",
    "french": "le de et",
    "spanish": "el de que",
    "arabic": "في من ثم",
}


def _letters(text: str) -> list[str]:
    return [character for character in text if character.isalpha()]


def test_names_are_sorted_and_the_default_is_among_them():
    assert list(texts.names()) == sorted({*COMMON_WORDS, "chinese"})
    assert len(texts.DEFAULT) == 3
    assert set(texts.DEFAULT) <= set(texts.names())


@pytest.mark.parametrize("name", sorted({*COMMON_WORDS} - {"code"}))
def test_length_in_words(name: str):
    assert 120 <= len(texts.load(name).split()) <= 250


def test_length_of_code_and_of_chinese():
    assert 120 <= len(texts.load("code").split()) <= 250
    assert 240 <= len(_letters(texts.load("chinese"))) <= 500


@pytest.mark.parametrize("name", texts.names())
def test_written_in_its_script(name: str):
    letters = _letters(texts.load(name))
    script = SCRIPTS.get(name, "LATIN")
    assert all(unicodedata.name(letter).startswith(script) for letter in letters)


@pytest.mark.parametrize("name", sorted(COMMON_WORDS))
def test_written_in_its_language(name: str):
    words = texts.load(name).split()
    assert all(words.count(word) >= 2 for word in COMMON_WORDS[name].split())


@pytest.mark.parametrize("name", texts.names())
def test_clean_at_both_ends(name: str):
    text = texts.load(name)
    assert text == text.strip()
    assert "\r" not in text
    assert "\ufeff" not in text


def test_the_lighthouse_comes_first():
    assert texts.load(texts.DEFAULT[0]).startswith("The old lighthouse keeper")


@pytest.mark.parametrize("name", ["", "novel", "../errors", "german.txt"])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str):
    with pytest.raises(TextError, match=r"no built-in text is .*; there are: arabic, c"):
        texts.load(name)
