"""The kind script, with tools that only write down what they are asked: every chart call renders, and a second run makes no cluster.

That kind and a container engine do what they are asked is not shown here; there are none.
"""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.charts.rendering import ROOT, helm, helm_binary

FOLDER = ROOT / "deploy" / "kind"
TOOL = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$(basename "$0") $*" in
"kind get clusters") cat "$CLUSTERS" ;;
"kind create cluster --name "*) echo "$4" >>"$CLUSTERS" ;;
"helm version --short") echo "$HELM_SAYS" ;;
"docker image inspect "*) test "$IMAGE_IS_THERE" = 1 ;;
*"get nodes"*) printf 172.18.0.2 ;;
*"get service"*) printf 30780 ;;
esac
"""


@pytest.fixture
def laptop(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    for name in ("docker", "kind", "kubectl", "helm"):
        (tmp_path / "bin" / name).write_text(TOOL, encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "clusters").touch()
    (tmp_path / "calls").touch()
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "CALLS": str(tmp_path / "calls"),
        "CLUSTERS": str(tmp_path / "clusters"),
        "HELM_SAYS": "v3.21.4",
        "IMAGE_IS_THERE": "1",
    }


def run(script: str, environ: dict[str, str]) -> tuple[int, str, list[str]]:
    Path(environ["CALLS"]).write_text("", encoding="utf-8")
    done = subprocess.run(
        [FOLDER / script], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr, Path(environ["CALLS"]).read_text(encoding="utf-8").splitlines()


@pytest.mark.rule("packaging#compose", "packaging#kind")
@pytest.mark.integration
def test_every_chart_call_renders_and_a_second_run_makes_no_cluster(laptop: dict[str, str]) -> None:
    helm_binary()
    code, said, calls = run("up.sh", laptop)
    assert code == 0, said
    assert sum(call.startswith("kind create cluster") for call in calls) == 2
    installs = [shlex.split(call) for call in calls if call.startswith("helm upgrade --install")]
    assert len(installs) == 3
    for words in installs:
        given = [
            word
            for at, word in enumerate(words)
            if words[at - 1] in ("--set", "--values") or word in ("--set", "--values")
        ]
        flags = [str(ROOT / word) if word.startswith("deploy/") else word for word in given]
        rendered = helm("template", words[3], str(ROOT / words[4]), "--kube-version", "1.31.0", *flags)
        assert rendered.returncode == 0, rendered.stderr
        assert 'image: "bigfleet:local"' in rendered.stdout
    assert any("shardAddress=172.18.0.2:30780" in call for call in calls)
    code, said, calls = run("up.sh", laptop)
    assert code == 0, said
    assert not [call for call in calls if call.startswith("kind create cluster")]


def test_what_is_missing_is_told_before_anything_is_made(laptop: dict[str, str]) -> None:
    for change, words in (
        ({"IMAGE_IS_THERE": "0"}, "up.sh: no image bigfleet:local; run make image first"),
        ({"HELM_SAYS": "v3.7.2"}, "up.sh: Helm 3.8 or newer is needed, found v3.7.2"),
    ):
        code, said, calls = run("up.sh", laptop | change)
        assert (code, said.strip()) == (2, words)
        assert not [call for call in calls if "create" in call or "upgrade" in call]


def test_down_removes_both(laptop: dict[str, str]) -> None:
    assert run("down.sh", laptop)[2] == [
        "kind delete cluster --name bf-mgmt",
        "kind delete cluster --name bf-work",
    ]
