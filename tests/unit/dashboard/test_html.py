"""Untrusted names cannot break the markup (`dashboard#security`, `dashboard#hostile-names`)."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.dashboard.core.visible import visible
from bigfleet.dashboard.html import Html, el, join, page


def test_text_is_escaped_in_content_and_attributes() -> None:
    hostile = '"><script>alert(1)</script>'
    made = el("td", hostile, title=hostile)
    assert "<script>" not in made
    assert unescape(made).count("<script>") == 2


@pytest.mark.rule("dashboard#hostile-names")
@given(st.text())
def test_whatever_the_text_it_comes_back_whole_with_what_is_invisible_written_out(text: str) -> None:
    made = el("b", text).removeprefix("<b>").removesuffix("</b>")
    assert unescape(re.sub("</?bdi>", "", made)) == visible(text)
    assert "<" not in re.sub("</?bdi>", "", made)


@pytest.mark.rule("dashboard#hostile-names")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("m-1", "m-1"),
        ("safe\u202egpj.exe", "safe\\u202egpj.exe"),
        ("a\u200bb\u00adc\ufeff", "a\\u200bb\\xadc\\ufeff"),
        ("bell\x07 esc\x1b nul\x00 next\x85", "bell\\x07 esc\\x1b nul\\x00 next\\x85"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("two\nlines\tand more", "two\nlines\tand more"),
        ("caf\u00e9 \u65e5\u672c", "caf\u00e9 \u65e5\u672c"),
        ("m \u05d0\u05d1-\u05d2 5 of 7", "m <bdi>\u05d0\u05d1-\u05d2</bdi> 5 of 7"),
        ("\u05d0&\u0627", "<bdi>\u05d0</bdi>&amp;<bdi>\u0627</bdi>"),
    ],
)
def test_what_is_invisible_is_written_out_and_right_to_left_words_stand_apart(text: str, shown: str) -> None:
    assert el("b", text) == f"<b>{shown}</b>"


@pytest.mark.rule("dashboard#hostile-names")
def test_where_no_markup_can_be_isolation_is_by_character_and_what_is_read_back_stays() -> None:
    name = "\u05d0\u202e"
    shown = "\u2068\u05d0\u2069\\u202e"
    assert el("option", name, value=name) == f'<option value="{name}">{shown}</option>'
    assert el("i", title=name, data_key=name) == f'<i title="{shown}" data-key="{name}"></i>'
    assert el("textarea", name) == f"<textarea>{name}</textarea>"
    assert visible("\ud800") == "\\ud800"


def test_what_el_made_is_taken_as_it_is_also_in_lists() -> None:
    inner = el("i", "a<b")
    assert el("p", [inner, (inner, None)]) == "<p><i>a&lt;b</i><i>a&lt;b</i></p>"
    assert join(inner, 3) == "<i>a&lt;b</i>3"


@pytest.mark.parametrize("name", ["style", "onclick", "onload"])
def test_attributes_that_the_policy_forbids_are_a_defect(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        el("p", **{name: "x"})


def test_attributes_lose_their_underscore_and_vanish_when_false() -> None:
    assert (
        el("p", class_="a", data_key="k", hidden=True, title=None, tabindex=False)
        == '<p class="a" data-key="k" hidden></p>'
    )


def test_parts_of_a_drawing_are_closed() -> None:
    assert el("rect", x=1) == '<rect x="1"/>'
    assert el("rect", el("title", "words"), x=1) == '<rect x="1"><title>words</title></rect>'


def test_joining_markup_with_plus_does_not_make_markup_of_text() -> None:
    assert not isinstance(el("b", "x") + "<script>", Html)
    assert page(el("html")) == "<!doctype html>\n<html></html>"
