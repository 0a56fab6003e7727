"""Only this room knows the Kubernetes client, and inside of it only the transport."""

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "bigfleet"
IMPORT = re.compile(r"^\s*(?:import|from) kubernetes\b", re.MULTILINE)


def test_only_the_http_transport_imports_the_client_library() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    users = {path.relative_to(PACKAGE).as_posix() for path, text in sources.items() if IMPORT.search(text)}
    assert users == {"kube/http_transport.py"}
