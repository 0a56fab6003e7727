"""Alert rules: each fires on its failure and stays silent otherwise; every query asks for something that exists."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.obs.catalogue import Metric, MetricType
from charts.generate.boards import BOARDS
from docs.generate.metrics import CATALOGUE
from tests.charts.alert_cases import CASES, LONG, QUIET_DAYS, Series
from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.tools import find_promtool

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
ALERTS: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
SCRAPE_LABELS = {"pod", "component", "le", "job", "instance", "namespace"}
FOREIGN = {"up", "process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"}
FUNCTIONS = {
    "rate", "increase", "sum", "max", "min", "count", "by", "on", "and", "or", "time", "absent", "scalar", "histogram_quantile",
    "max_over_time", "min_over_time", "bool",
}  # fmt: skip


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        program = find_promtool(os.environ)
    except BinaryMissingError as error:
        if os.environ.get("TESTBED_REQUIRED", "0") != "0":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)


def filled(query: str) -> str:
    return query.replace("$__rate_interval", "5m").replace("$pod", ".*")


def queries() -> Iterator[tuple[str, str]]:
    for rule in ALERTS:
        yield rule["alert"], " ".join(rule["expr"].split())
    for board in BOARDS:
        for panel in board.panels:
            for _, query in panel.queries:
                yield f"board {board.name}, {panel.title}", filled(query)


def samples() -> dict[str, Metric]:
    """Return every name under which a metric of ours can be asked for."""
    names: dict[str, Metric] = {}
    for metric in CATALOGUE:
        endings = ("_bucket", "_sum", "_count") if metric.type is MetricType.HISTOGRAM else ("",)
        names |= {metric.name + ending: metric for ending in endings}
    return names


@pytest.mark.rule("packaging#boards")
def test_every_metric_label_and_value_that_is_asked_for_exists() -> None:
    known = samples()
    for where, query in queries():
        bare = re.sub(r'"[^"]*"', '""', query)
        for clause in re.findall(r"\b(?:by|on) \(([^)]*)\)", bare):
            bare = bare.replace(f"({clause})", "()", 1)
        words = set(re.findall(r"\b[a-zA-Z_]\w*", re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)))
        metrics = {word for word in words if word not in FUNCTIONS and not re.fullmatch(r"e\d*", word)}
        assert metrics <= known.keys() | FOREIGN, f"{where}: {metrics - known.keys() - FOREIGN}"
        assert metrics, where
        allowed = SCRAPE_LABELS | {label for name in metrics - FOREIGN for label in known[name].label_names}
        for clause in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            assert {label.strip() for label in clause.split(",") if label.strip()} <= allowed, (
                f"{where}: by ({clause})"
            )
        for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", query):
            for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers):
                assert label in SCRAPE_LABELS or label in known[name].label_names, (
                    f"{where}: {name}{{{label}}}"
                )
                fixed = {} if name in FOREIGN else {each.name: each.values for each in known[name].labels}
                if fixed.get(label):
                    matching = [
                        each
                        for each in fixed[label]
                        if re.fullmatch(value if "~" in operator else re.escape(value), each)
                    ]
                    assert matching, f"{where}: {name}{{{label}}} is never {value}"


def test_a_board_of_a_dead_metric_would_be_seen() -> None:
    assert "bigfleet_shard_gone_total" not in samples()
    assert "bigfleet_shard_cycle_duration_seconds" not in samples(), (
        "a histogram has no series of its bare name"
    )


@pytest.mark.rule("packaging#boards")
def test_every_panel_has_a_unit_and_says_why() -> None:
    for board in BOARDS:
        titles = [panel.title for panel in board.panels]
        assert len(titles) == len(set(titles))
        for panel in board.panels:
            assert panel.unit
            assert panel.queries
            assert len(panel.why) > 3


def test_every_alert_has_a_severity_a_meaning_a_runbook_and_a_case() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) == 56
    for rule in ALERTS:
        name = rule["alert"].removeprefix("BigFleet")
        assert rule["alert"] == f"BigFleet{name}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"].endswith(f"/runbooks/{name}/")
        assert len(rule["annotations"]["description"]) > 25
    assert {rule["alert"].removeprefix("BigFleet") for rule in ALERTS} == CASES.keys()


def test_rules_never_join_across_components() -> None:
    for rule in ALERTS:
        parts = {
            word
            for word in ("shard", "coordinator", "operator", "unschedulable")
            if f"bigfleet_{word}_" in rule["expr"]
        }
        assert len(parts) <= 1 or " or " in rule["expr"], rule["alert"]


@pytest.mark.rule("packaging#alert-tests")
def test_the_rules_pass_promtool() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "56 rules found" in checked.stdout


@pytest.mark.rule("packaging#boards")
def test_every_query_of_a_board_parses(tmp_path: Path) -> None:
    rules = [{"record": f"q:{number}", "expr": query} for number, (_, query) in enumerate(queries())]
    (tmp_path / "boards.yaml").write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    checked = promtool("check", "rules", str(tmp_path / "boards.yaml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def firing(name: str) -> str:
    return f'count(ALERTS{{alertname="BigFleet{name}",alertstate="firing"}})'


def unit(series: Series, expressions: dict[str, list[tuple[int, bool]]]) -> dict[str, Any]:
    """Return one test of promtool: at these minutes these expressions have, or have not, exactly one answer."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": 1}] if expected else [],
            }
            for expression, looks in expressions.items()
            for minute, expected in looks
        ],
    }


def run_units(units: list[dict[str, Any]], folder: Path) -> subprocess.CompletedProcess[str]:
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": units}
    (folder / "units.yaml").write_text(yaml.safe_dump(document))
    return promtool("test", "rules", str(folder / "units.yaml"))


def held(rule: dict[str, Any]) -> int:
    """Return for how many whole minutes an alert waits."""
    text = rule.get("for", "0m")
    return int(text[:-1]) * {"s": 0, "m": 1, "h": 60}[text[-1]]


@pytest.mark.rule("packaging#alert-tests")
def test_every_alert_fires_on_its_failure_not_before_its_time_and_not_otherwise(tmp_path: Path) -> None:
    units = []
    for rule in ALERTS:
        name = rule["alert"].removeprefix("BigFleet")
        case = CASES[name]
        early = [(held(rule) - 1, False)] if held(rule) > 1 else []
        units.append(unit(case.fires, {firing(name): [*early, (case.at, True)]}))
        units.append(
            unit(case.quiet, {firing(name): [(minute, False) for minute in range(1, case.at + 4, 3)]})
        )
    done = run_units(units, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.rule("packaging#alert-tests")
def test_an_ordinary_day_fires_nothing_critical(tmp_path: Path) -> None:
    critical = 'count(ALERTS{severity="critical",alertstate="firing"})'
    units = [
        unit(series, {critical: [(minute, False) for minute in range(31)]}) for series in QUIET_DAYS.values()
    ]
    done = run_units(units, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_absent_coordinator_is_noticed_too(tmp_path: Path) -> None:
    series = {'up{component="shard",pod="a"}': f"1x{LONG}"}
    done = run_units([unit(series, {firing("CoordinatorNoLeader"): [(3, True)]})], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_case_that_does_not_fire_would_be_seen(tmp_path: Path) -> None:
    done = run_units([unit(CASES["ShardDown"].quiet, {firing("ShardDown"): [(3, True)]})], tmp_path)
    assert done.returncode != 0


@pytest.mark.rule("packaging#runbooks")
def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    pages = {
        path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "runbooks").glob("[A-Z]*.md")
    }
    assert pages.keys() == CASES.keys()
    index = (ROOT / "docs" / "runbooks" / "alerts.md").read_text(encoding="utf-8")
    for rule in ALERTS:
        name = rule["alert"].removeprefix("BigFleet")
        page = pages[name]
        assert f"({name}.md)" in index
        assert page.startswith(f"# {name}\n\nSeverity: {rule['labels']['severity']}."), name
        assert " ".join(rule["expr"].split()) in page, f"{name}: shows another expression than the rule"
        assert rule["annotations"]["description"] in page, name
        assert re.findall(r"^## (.*)$", page, re.MULTILINE) == [
            "Look",
            "Likely causes, most likely first",
            "Repair",
            "Prevent",
        ]
        assert len(re.findall(r"^\| `", page, re.MULTILINE)) == 3, f"{name}: three first commands"
        assert page.count("\n") < 50, f"{name}: longer than a screen"


@pytest.mark.rule("packaging#docs-names")
def test_every_command_of_a_runbook_exists() -> None:
    from bigfleet.app import bigfleet, bigfleetctl

    programs = {"bigfleet": bigfleet.PROGRAM, "bigfleetctl": bigfleetctl.PROGRAM}
    for path in (ROOT / "docs" / "runbooks").glob("[A-Z]*.md"):
        for program, line in re.findall(
            r"(?:`|-- )(bigfleetctl|bigfleet) ([^`]+)`", path.read_text(encoding="utf-8")
        ):
            words = [
                word for word in re.sub(r"--coordinator \S+ ", "", line).split() if not word.startswith("-")
            ]
            rows = [
                row for row in programs[program].commands() if tuple(words[: len(row.words)]) == row.words
            ]
            assert rows, f"{path.name}: {program} {line}"
