"""Runs the blocks of a runbook page in a shell, unchanged."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

RUNBOOKS = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
_BLOCK = re.compile(r"^```bash\n# ([a-z ]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Page:
    """One runbook; every block has a title, and a test types in each of them."""

    def __init__(self, name: str) -> None:
        self.text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
        self.blocks = dict(_BLOCK.findall(self.text))
        self.typed: set[str] = set()

    def type_in(self, title: str, directory: Path, variables: Mapping[str, object]) -> str:
        """Run one block in bash, where the first failure ends it; return what it printed."""
        self.typed.add(title)
        environment = {
            "HOME": str(directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **{name: str(value) for name, value in variables.items()},
        }
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.blocks[title]],
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, f"{title}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    @property
    def left_out(self) -> set[str]:
        """Blocks that were not run."""
        return self.blocks.keys() - self.typed
