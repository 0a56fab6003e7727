"""Every term of metrics, custom resources and flags is on the concepts page, or is an ordinary word.

Rules: `packaging#strict-site`.
"""

import re

import pytest

from docs.generate.metrics import CATALOGUE
from tests.docs.chart_names import custom_fields
from tests.docs.named_flags import FLAGS
from tests.docs.shell_blocks import DOCS

PAGE = set(re.findall(r"[a-z]+", (DOCS / "concepts.md").read_text("utf-8").lower().replace("-", "")))
PAGE |= set(re.findall(r"[a-z]+", (DOCS / "concepts.md").read_text("utf-8").lower()))
PLAIN = {
    # Words that mean here what they mean everywhere, by who taught them to the reader.
    "English": """acquisitions active added available availability blocked base build check cleanup class color component concurrency connected
        context control days declared delay depth destroyed duration edit exclude extra fail force format free guard help interval invalid listen
        latency leadership local loss match max mismatch multiplier observed open outcome outcomes output owner parallel
        print probe problems quick quiet reachable rejected refresh releases remote repetitions require restarts scale scenario script secret
        series shutdown skipped sort source stride substrate success target timeout trouble trusted unreachable update version window yes""",
    "computers": """addr admin advertise bytes ca catalog cert client config dir dns expressions https info metadata op phase
        proxy reflection rpc sec socket sync timestamp tls uid url""",
    "Kubernetes and its tools": """api burst conditions daemonset effect elect generation grafana kubeconfig namespace namespaces
        ordinal prometheus qps ref scrape selector spec status""",
}
ORDINARY = set(" ".join(PLAIN.values()).split())
METRIC_ROOT = re.compile(
    r"^bigfleet_(?:(?:shard|coordinator|operator|unschedulable_pod_controller|provider|dashboard)_)?"
)


def words() -> dict[str, set[str]]:
    metrics = {word for metric in CATALOGUE for word in METRIC_ROOT.sub("", metric.name).split("_")}
    labels = {word for metric in CATALOGUE for label in metric.labels for word in label.name.split("_")}
    flags = {
        word for flag in FLAGS if flag.islower() for word in flag.split("-")
    }  # arguments are in capitals
    fields = {word.lower() for path in custom_fields() for word in re.findall(r"[A-Z]?[a-z]+", path)}
    found = {"metrics": metrics | labels, "flags": flags, "custom resources": fields}
    return {kind: {re.sub(r"\W|\d", "", word) for word in told} - {""} for kind, told in found.items()}


def is_explained(word: str) -> bool:
    roots = {word, word.rstrip("s"), f"{word}s", *(word.removesuffix(end) for end in ("ed", "d", "ing"))}
    return bool(roots & PAGE)


@pytest.mark.rule("packaging#generated-pages")
@pytest.mark.parametrize("kind", sorted(words()))
def test_every_term_is_explained_or_ordinary(kind: str) -> None:
    assert sorted(word for word in words()[kind] - ORDINARY if not is_explained(word)) == []


def test_a_new_term_would_be_found() -> None:
    assert not is_explained("flumadiddle")
    assert is_explained("quarantined")


def test_nothing_is_excused_that_no_surface_uses() -> None:
    used = set().union(*words().values())
    assert sorted(word for word in ORDINARY - used) == []
