"""The pages' Helm commands and values files are given to the real Helm, and the certificates of the install page are made.

A command that would install is rendered instead, with the same words: everything but the cluster takes part.
`packaging#pages-run`.
"""

import re
from pathlib import Path

import pytest
import yaml

from tests.charts.rendering import OLDEST, helm
from tests.docs.shell_blocks import DOCS, ROOT, Shown, blocks, commands, pages
from tests.integration.docs.test_played_pages import play

pytestmark = pytest.mark.integration

PAGES = (*pages(), *sorted((ROOT / "charts").glob("*/README.md")))
VALUES = re.compile(r"^```yaml\n(# values of ([a-z-]+)\n.*?)^```", re.MULTILINE | re.DOTALL)
TO_CLUSTERS = {"install", "upgrade"}
WITHOUT_MEANING = {"--install", "--create-namespace"}  # to `helm template`


def shown_with_values() -> list[tuple[str, Shown, str]]:
    """Every command that installs, with the values file that stands last before it on its page."""
    found = []
    for page in PAGES:
        files = {chart: text for text, chart in VALUES.findall(page.read_text("utf-8"))}
        for shown in _commands(page):
            if shown.program == "helm" and TO_CLUSTERS & set(shown.words):
                chart = next(word for word in shown.words if "charts/" in word).rpartition("/")[2]
                found.append((f"{page.parent.name}/{page.name}: {chart}", shown, files.get(chart, "")))
    return found


def _commands(page: Path) -> list[Shown]:
    if page in pages():
        return list(commands(page))
    return [
        Shown(page.name, "sh", " ".join(line.split()))
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip()
    ]


SHOWN = shown_with_values()


def test_every_chart_is_installed_by_some_page() -> None:
    assert {label.rpartition(" ")[2] for label, _, _ in SHOWN} == {
        path.parent.name for path in (ROOT / "charts").glob("*/Chart.yaml")
    }


@pytest.mark.rule("packaging#pages-run")
@pytest.mark.parametrize(("shown", "values"), [row[1:] for row in SHOWN], ids=[row[0] for row in SHOWN])
def test_a_helm_command_renders_with_its_values(shown: Shown, values: str, tmp_path: Path) -> None:
    words = [word for word in shown.words[1:] if word not in {*TO_CLUSTERS, *WITHOUT_MEANING}]
    words = [str(ROOT / word.removeprefix("./")) if "charts/" in word else word for word in words]
    given = tmp_path / "values.yaml"
    given.write_text(values or "{}\n", encoding="utf-8")
    words = [str(given) if word.endswith("values.yaml") else word for word in words]
    done = helm("template", *words, "--kube-version", OLDEST)
    assert done.returncode == 0, done.stderr
    objects = [thing for thing in yaml.safe_load_all(done.stdout) if thing]
    assert objects
    if "dryRun: true" in values:
        assert "--dry-run=true" in done.stdout
        signed = "for coordinator, shard, operator and provider, by the job and its CronJob"
        assert done.stdout.count("--certificate=") == 2 * 4, signed


def test_the_certificates_of_the_page_are_made_as_it_says(tmp_path: Path) -> None:
    said = play(blocks(DOCS / "install.md", "bash"), tmp_path)
    assert "bigfleet://shard/bigfleet-shard-0" in said
    for name in ("coordinator", "bigfleet-shard-0", "prod-1"):
        assert {path.name for path in (tmp_path / "pki" / name).iterdir()} == {"tls.crt", "tls.key", "ca.crt"}
