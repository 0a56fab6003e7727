"""What `bigfleet new-provider` writes passes conformance core untouched (`providers#new-provider`)."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from bigfleet.app.bigfleet import main
from bigfleet.obs.logs import build_logger
from bigfleet.provider.conformance.report import ConformanceReport, RunVerdict
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import ConformanceProfile, Timings
from bigfleet.provider.conformance.system import system_settings
from bigfleet.providerkit import Backend, ProviderKit, Volatile

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
QUICK = Timings(
    poll_s=0.01,
    baseline_poll_s=0.02,
    window_s=0.05,
    error_window_s=0.05,
    fuzz_window_s=0.02,
    cursor_window_s=0.1,
    observe_s=0.05,
)


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["new-provider", "acme", "--directory", str(tmp_path / "acme")]) == 0
    capsys.readouterr()
    return tmp_path / "acme"


def backend(project: Path) -> Backend:
    """Return the backend as it was written."""
    spec = spec_from_file_location("written_backend", project / "acme_provider" / "backend.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)  # Any: made a moment ago
    spec.loader.exec_module(module)
    made: Backend = module.AcmeBackend()
    return made


async def certify(written: Backend) -> ConformanceReport:
    quiet = build_logger(level="error", form="json", stream=StringIO(), now=lambda: datetime.now(UTC))
    kit = ProviderKit(written, store=Volatile(), name="acme", log=quiet)
    await kit.start()
    try:
        server = await kit.listen("127.0.0.1:0")
        profiles = (ConformanceProfile.CORE, ConformanceProfile.CLOUD)
        return await run(f"127.0.0.1:{server.port}", system_settings(profiles=profiles, timings=QUICK))
    finally:
        await kit.stop(0)


@pytest.mark.rule("providers#certified", "providers#new-provider")
def test_the_written_backend_is_certified_for_core_and_cloud_as_it_is(project: Path) -> None:
    report = asyncio.run(certify(backend(project)))
    assert [result.message for result in report.results if result.status == "failed"] == []
    assert report.verdict is RunVerdict.CERTIFIED, report.reasons


@pytest.mark.rule("providers#new-provider")
@pytest.mark.long
def test_the_written_tests_pass_as_they_are(project: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


@pytest.mark.rule("providers#repair")
def test_the_written_program_serves_answers_probes_takes_repairs_and_ends_with_0(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "acme_provider", "--state", "state"),
            *("--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"),
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(60):
                lines = [json.loads(line) async for line in until_listening(process.stderr)]
                assert "provider_started" in [line["event"] for line in lines]
                port = lines[-1]["metrics_port"]
                assert "bigfleet_provider_machines" in await fetch(port, "/metrics")
                assert (await fetch(port, "/readyz")).startswith("HTTP/1.1 200")
                socket = str(project / "state" / "admin.sock")
                repair = ["repair", "acme/small-4/zone-a/000", "--to", "idle", "--socket", socket]
                code = await asyncio.to_thread(main, ["provider-admin", *repair])
                assert code != 0
                assert "Failed" in capsys.readouterr().err  # it answered, and that machine has not failed
                process.terminate()
                await process.stderr.read()
                assert await process.wait() == 0
            assert not (project / "state" / "admin.sock").exists()
        finally:
            if process.returncode is None:
                process.kill()

    asyncio.run(scenario())


async def until_listening(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    async for line in stream:
        yield line
        if b'"listening"' in line:
            return


async def fetch(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()
