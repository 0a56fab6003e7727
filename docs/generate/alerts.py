"""The page of alerts, from the rules that Prometheus loads."""

from pathlib import Path
from typing import Any

import yaml

from docs.generate.markdown import code, plain, table
from docs.generate.markdown import page as markdown_page

_INTRO = """
All alerts of `deploy/prometheus/rules.yaml`, which the charts install with `prometheusRule.enabled`. In Prometheus every name begins
with `BigFleet`. Critical pages the engineer on call, warning opens a ticket, info is only shown. The page behind a name says what to do.
"""


def page(rules: Path) -> str:
    """Return the page."""
    groups: list[dict[str, Any]] = yaml.safe_load(rules.read_text(encoding="utf-8"))[
        "groups"
    ]  # Any: as written
    sections = [f"## {group['name']}\n\n{_section(group['rules'])}" for group in groups]
    return markdown_page("Alerts", _INTRO, *sections)


def _section(rules: list[dict[str, Any]]) -> str:
    return table(("Alert", "Severity", "For", "Expression", "Meaning"), [_row(rule) for rule in rules])


def _row(rule: dict[str, Any]) -> tuple[str, ...]:
    name = rule["alert"].removeprefix("BigFleet")
    said = rule["annotations"]
    return (
        f"[{name}](../runbooks/{name}.md)",
        rule["labels"]["severity"],
        rule.get("for", "at once"),
        code(" ".join(rule["expr"].split())),
        plain(said["description"].replace("{{", "").replace("}}", "")),
    )
