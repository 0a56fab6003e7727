"""Every chart value and every alert that prose names exists (`packaging#docs-names`)."""

import re
from pathlib import Path

import pytest

from tests.docs.chart_names import OTHERS, alerts, all_values, pages_with_values, strangers
from tests.docs.named_things import built
from tests.docs.shell_blocks import ROOT


@pytest.mark.rule("packaging#docs-names")
@pytest.mark.parametrize(
    "page",
    pages_with_values(),
    ids=lambda path: str(path.relative_to(ROOT)) if isinstance(path, Path) else path,
)
def test_every_value_and_alert_that_a_page_names_exists(page: Path) -> None:
    assert strangers(built(page.read_text("utf-8"))) == []


def test_there_are_values_and_alerts_to_compare_with() -> None:
    assert len(all_values()) > 150
    assert len(alerts()) > 40


def test_what_exists_is_no_stranger() -> None:
    text = "`shard.dryRun=true`, `clusterID`, `shard.external`, BigFleetShardDown\n```sh\nhelm --set crds.install=false\n```\n"
    text += "```yaml\n# values of bigfleet\nshard: {resources: {limits: {memory: 1Gi}}, external: {enabled: true}}\n```\n"
    assert strangers(text) == []


@pytest.mark.rule("packaging#docs-names")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("set `shard.dryRunn=true`", "shard.dryRunn"),
        ("set `shrad.dryRun`", "shrad.dryRun"),
        ("set `clusterId`", "clusterId"),
        ("set `shard.yaml`", "shard.yaml"),
        ("see BigFleetShardDwon", "alert BigFleetShardDwon"),
        ("```sh\nhelm install x --set coordinator.replica=1\n```\n", "--set coordinator.replica"),
        (
            "```yaml\n# values of bigfleet\nshard: {external: {enable: true}}\n```\n",
            "values of bigfleet: shard.external.enable",
        ),
        ("```yaml\n# values of bigfleet-operator\nshard: {}\n```\n", "values of bigfleet-operator: shard"),
    ],
)
def test_a_planted_wrong_name_is_found(text: str, found: str) -> None:
    assert strangers(text) == [found]


def test_no_exception_outlives_its_page() -> None:
    text = "\n".join(page.read_text("utf-8") for page in pages_with_values())
    for names in OTHERS.values():
        for name in names:
            assert re.search(re.escape(name), text), name
