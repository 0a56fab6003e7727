"""35 to 37: fixed templates render byte for byte as Go's text templates do; everything else is refused with line and word."""

import pytest

from bigfleet.model.frames import BlobRequest
from bigfleet.operator.core.bootstrap import STUB_TTL_S, StubRenderer, TemplateRenderer
from bigfleet.operator.core.template.errors import TemplateError
from bigfleet.operator.core.template.evaluate import render
from bigfleet.operator.core.template.parser import parse
from bigfleet.operator.core.template.values import TemplateContext, TemplateRequirement

CONTEXT = TemplateContext(
    "prod-1",
    (
        TemplateRequirement("zone", "In", ("a", "b")),
        TemplateRequirement("gpu", "Exists"),
        TemplateRequirement("rack", "Same"),
    ),
    "m-7",
)


@pytest.mark.rule("operator#template-language")
@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("plain { } text\n", "plain { } text\n", id="text"),
        pytest.param("{{.ClusterID}}/{{.MachineID}}", "prod-1/m-7", id="fields"),
        pytest.param("a \n {{- .ClusterID -}} \n\t b", "aprod-1b", id="trim both"),
        pytest.param("a {{- /* gone */ -}} b{{/* gone */}} c", "ab c", id="comments"),
        pytest.param("{{3}}{{-3}}x", "3-3x", id="minus three is no trim mark"),
        pytest.param("{{range .Requirements}}{{.Key}};{{end}}", "zone;gpu;rack;", id="range"),
        pytest.param("{{range $r := .Requirements}}{{$r.Key}};{{end}}", "zone;gpu;rack;", id="range value"),
        pytest.param(
            "{{range $i, $r := .Requirements}}{{$i}}{{$r.Operator}} {{end}}",
            "0In 1Exists 2Same ",
            id="range index and value",
        ),
        pytest.param(
            "{{range .Requirements}}{{range .Values}}{{.}}{{else}}-{{end}}{{end}}", "ab--", id="range else"
        ),
        pytest.param(
            '{{range .Requirements}}{{if eq .Key "gpu"}}{{continue}}{{end}}{{.Key}} {{end}}',
            "zone rack ",
            id="continue",
        ),
        pytest.param(
            '{{range .Requirements}}{{if eq .Key "gpu"}}{{break}}{{end}}{{.Key}}{{end}}', "zone", id="break"
        ),
        pytest.param("{{if .MachineID}}yes{{else}}no{{end}}", "yes", id="if"),
        pytest.param(
            '{{if eq .ClusterID "x"}}1{{else if eq .ClusterID "prod-1" "y"}}2{{else}}3{{end}}',
            "2",
            id="else if",
        ),
        pytest.param(
            '{{if eq .ClusterID "x"}}1{{else if false}}2{{else if false}}3{{else}}4{{end}}!',
            "4!",
            id="else if twice",
        ),
        pytest.param("{{with .ClusterID}}[{{.}}]{{end}}", "[prod-1]", id="with"),
        pytest.param('{{with ""}}x{{else}}{{.ClusterID}}{{end}}', "prod-1", id="with else"),
        pytest.param(
            "{{with $r := index .Requirements 0}}{{$r.Key}}{{.Operator}}{{$.ClusterID}}{{end}}",
            "zoneInprod-1",
            id="with variable and dollar",
        ),
        pytest.param('{{$x := "a"}}{{if true}}{{$x = "b"}}{{end}}{{$x}}', "b", id="assignment reaches out"),
        pytest.param(
            '{{$x := "a"}}{{if true}}{{$x := "b"}}{{$x}}{{end}}{{$x}}', "ba", id="declaration shadows"
        ),
        pytest.param(
            '{{$n := ""}}{{range .Requirements}}{{if eq .Operator "Same"}}{{$n = .Key}}{{end}}{{end}}{{$n}}',
            "rack",
            id="found in a range",
        ),
        pytest.param(
            '{{printf "%s-%d-%v-%q-%%" .ClusterID 7 true "a\\"b\\n"}}',
            'prod-1-7-true-"a\\"b\\n"-%',
            id="printf",
        ),
        pytest.param(
            '{{(index .Requirements 0).Values | printf "%s %q" "x"}}', 'x ["a" "b"]', id="printf list"
        ),
        pytest.param("{{index (index .Requirements 0).Values 1}}", "b", id="index"),
        pytest.param(
            "{{(index .Requirements 0).Values}} {{(index .Requirements 1).Values}}", "[a b] []", id="lists"
        ),
        pytest.param("{{index .Requirements 0}}", "{zone In [a b]}", id="a requirement whole"),
        pytest.param("{{.ClusterID | len}} {{len .Requirements}}", "6 3", id="len"),
        pytest.param('{{print 1 2 "a" "b" 3 4}}|{{println 1 "a"}}', "1 2ab3 4|1 a\n", id="print"),
        pytest.param('{{and 1 0 2}}{{or 0 "" 5}}{{not 0}}', "05true", id="and or not"),
        pytest.param("{{or .ClusterID (index .Requirements 99)}}", "prod-1", id="or stops early"),
        pytest.param(
            "{{lt 1 2}}{{le 2 2}}{{gt 1 2}}{{ge 1 2}}{{ne 1 2}}", "truetruefalsefalsetrue", id="order"
        ),
        pytest.param('{{lt "a" "b"}}{{eq nil nil}}', "truetrue", id="texts and nil"),
        pytest.param(r'{{"\x41\101\u00e9\ud7ff\U0010ffff"}}', "AA\u00e9\ud7ff\U0010ffff", id="escapes"),
        pytest.param("{{`raw \\n`}}{{0x10}}{{true}}", "raw \\n16true", id="literals"),
        pytest.param("{{if\n  .MachineID\n}}x{{end}}", "x", id="newlines in an action"),
        pytest.param('{{"quoted }} inside"}}', "quoted }} inside", id="braces in a string"),
    ],
)
def test_renders_byte_for_byte(source: str, text: str) -> None:
    assert render(parse(source), CONTEXT) == text


@pytest.mark.rule("operator#template-refused")
@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ('a\n{{template "x"}}', 2, "template"),
        ('{{define "x"}}{{end}}', 1, "define"),
        ('{{block "x" .}}{{end}}', 1, "block"),
        ("{{html .ClusterID}}", 1, "html"),
        ("{{js .ClusterID}}", 1, "js"),
        ("{{urlquery .ClusterID}}", 1, "urlquery"),
        ("{{slice .ClusterID 1}}", 1, "slice"),
        ("{{call .ClusterID}}", 1, "call"),
        ("{{toYaml .ClusterID}}", 1, "toYaml"),
        ("\n\n{{.Cluster}}", 3, ".Cluster"),
        ("{{range .Requirements}}{{.Value}}{{end}}", 1, ".Value"),
        ("{{$x}}", 1, "$x"),
        ("{{if true}}{{$x := 1}}{{end}}{{$x}}", 1, "$x"),
        ("{{if .ClusterID}}", 1, "if"),
        ("{{end}}", 1, "end"),
        ("{{else}}", 1, "else"),
        ("{{if true}}{{else}}{{else}}{{end}}", 1, "else"),
        ("{{with true}}{{else if true}}{{end}}", 1, "if"),
        ("{{break}}", 1, "break"),
        ("{{.ClusterID", 1, "{{"),
        ("{{/* open", 1, "/*"),
        ("{{/* x */ .ClusterID}}", 1, "/*"),
        ("{{}}", 1, ""),
        ("{{.ClusterID 1}}", 1, "1"),
        ("{{1.5}}", 1, "1.5"),
        ("{{nil}}", 1, "nil"),
        ("{{1 | 2}}", 1, "2"),
        ("{{(print 1}}", 1, "("),
        ("{{print 1)}}", 1, ")"),
        ("{{'a'}}", 1, "'"),
        ('{{"\\z"}}', 1, "\\z"),
        ('\n{{"\\ud800"}}', 2, "\\ud800"),
        ('{{"\\udfff"}}', 1, "\\udfff"),
        ('{{"\\U00110000"}}', 1, "\\U00110000"),
        ('{{"\\400"}}', 1, "\\400"),
        ("{{print ,}}", 1, ","),
        ("{{print if}}", 1, "if"),
        pytest.param("\n" + "{{if .ClusterID}}" * 60, 2, "if", id="blocks without end"),
        pytest.param("\n{{" + "(" * 60 + "}}", 2, "(", id="parentheses without end"),
    ],
)
def test_is_refused_at_start_with_line_and_word(source: str, line: int, word: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse(source)
    assert (caught.value.line, caught.value.word) == (line, word)
    assert f"line {line}" in str(caught.value)


@pytest.mark.rule("operator#bootstrap-answer")
@pytest.mark.parametrize(
    "source",
    [
        "{{index .Requirements 9}}",
        "{{index .Requirements -1}}",
        '{{index .Requirements "a"}}',
        "{{.Key}}",
        "{{eq .ClusterID 1}}",
        "{{eq .Requirements .Requirements}}",
        "{{eq 1}}",
        "{{ne 1}}",
        "{{lt true false}}",
        "{{len 5}}",
        "{{not 1 2}}",
        "{{index 5 0}}",
        "{{index}}",
        "{{and}}",
        '{{printf "%x" 1}}',
        '{{printf "%d" "a"}}',
        '{{printf "%s"}}',
        '{{printf "a" 1}}',
        "{{printf 1}}",
        "{{range .ClusterID}}{{end}}",
        '{{"a" | .ClusterID}}',
    ],
)
def test_a_render_error_is_an_answer_with_the_same_id_and_no_data(source: str) -> None:
    answer = TemplateRenderer("prod-1", source).answer(BlobRequest("r1"))
    assert answer.request_id == "r1"
    assert "bootstrap template: line 1" in answer.error
    assert (answer.user_data, answer.ttl_s) == (b"", 0)


@pytest.mark.rule("operator#renderer")
def test_without_a_template_two_lines_and_ten_minutes() -> None:
    answer = StubRenderer("prod-1").answer(BlobRequest("r1"))
    assert answer.user_data == b"#cloud-config\n# bigfleet stub bootstrap for prod-1\n"
    assert answer.ttl_s == STUB_TTL_S == 600


@pytest.mark.rule("operator#renderer")
def test_with_a_template_the_ttl_is_unstated_unless_configured() -> None:
    assert TemplateRenderer("c", "x").answer(BlobRequest("r")).ttl_s == 0
    assert TemplateRenderer("c", "x", ttl_s=90).answer(BlobRequest("r")).ttl_s == 90


@pytest.mark.rule("operator#template-context")
def test_the_machine_is_empty_if_the_shard_does_not_send_it() -> None:
    renderer = TemplateRenderer("c", "[{{.MachineID}}]")
    assert renderer.answer(BlobRequest("r")).user_data == b"[]"
    assert renderer.answer(BlobRequest("r", machine_id="m-1")).user_data == b"[m-1]"


@pytest.mark.rule("operator#bootstrap-answer")
def test_what_was_rendered_is_in_no_representation() -> None:
    answer = TemplateRenderer("c", "top-secret").answer(BlobRequest("r"))
    assert "top-secret" not in repr(answer)


def test_trials_tell_what_would_fail() -> None:
    assert TemplateRenderer("c", "{{.ClusterID}}").trial_problems() == []
    (problem,) = TemplateRenderer("c", "{{index .Requirements 0}}").trial_problems()
    assert "out of range" in problem
