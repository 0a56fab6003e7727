"""Untrusted names cannot break the markup (`dashboard#security`, `dashboard#hostile-names`)."""

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.dashboard.html import Html, el, join, page


def test_text_is_escaped_in_content_and_attributes() -> None:
    hostile = '"><script>alert(1)</script>'
    made = el("td", hostile, title=hostile)
    assert "<script>" not in made
    assert unescape(made).count("<script>") == 2


@pytest.mark.rule("dashboard#hostile-names")
@given(st.text())
def test_whatever_the_text_it_comes_back_whole(text: str) -> None:
    made = el("b", text)
    assert unescape(made.removeprefix("<b>").removesuffix("</b>")) == text
    assert "<" not in made.removeprefix("<b>").removesuffix("</b>")


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
