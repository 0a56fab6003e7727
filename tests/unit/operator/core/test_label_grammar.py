"""The syntax of label keys, label values and object names."""

import pytest

from bigfleet.operator.core.label_grammar import _is_label_key, is_label_key, is_label_value, is_object_name


@pytest.mark.parametrize(
    "key", ["a", "A.b_c-d", "example.com/app", "x" * 63, f"{'a' * 61}.b/{'x' * 63}", "1/2"]
)
def test_good_keys(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "-a",
        "a-",
        "a b",
        "a;b",
        "/a",
        "a/",
        "A/b",
        "a//b",
        "x" * 64,
        "a_b/c",
        f"{'a' * 254}/b",
        "naïve",
        "a\n",
    ],
)
def test_bad_keys(key: str) -> None:
    assert not is_label_key(key)


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("", True),
        ("a", True),
        ("a.b_c-d", True),
        ("x" * 64, False),
        ("-", False),
        ("a,b", False),
        ("a\n", False),
    ],
)
def test_values(value: str, good: bool) -> None:
    assert is_label_value(value) is good


@pytest.mark.rule("operator#s7")
def test_what_is_too_long_is_not_remembered() -> None:
    _is_label_key.cache_clear()
    assert not is_label_key("x" * 1_000_000)
    assert _is_label_key.cache_info().currsize == 0


@pytest.mark.parametrize(
    ("name", "good"),
    [("un-m-1", True), ("un-M", False), ("un-a..b", False), ("u" * 254, False), ("a-", False)],
)
def test_object_names(name: str, good: bool) -> None:
    assert is_object_name(name) is good
