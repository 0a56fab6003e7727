"""A fleet of real processes whose parts can each be of one version or the other.

Three coordinators, a shard, an operator before an API server in memory, and a fake provider that keeps its state. Every part
keeps its ports and directories when it is replaced, as in a rolling upgrade.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from google.protobuf import unknown_fields

from bigfleet.aio.clock import SystemClock
from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.roles import OPERATOR as ROLE
from bigfleet.kube.transport import ApiCall
from bigfleet.transport.coordinator import ASSIGN_DOMAIN, LIST_DOMAIN_ASSIGNMENTS
from bigfleet.transport.leader import LeaderClient
from bigfleet.transport.resolve import system_resolve
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.upgrade.builds import NOTE_FIELD, Build
from tests.support.coordinator.processes import PATIENCE_S, ProcessCluster, settled_port
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.http import HttpFront
from tests.support.program import RunningProgram
from tests.support.programs import http_get

REQUESTS: Final = "/apis/bigfleet.lucy.sh/v1alpha1/namespaces/shop/capacityrequests"
POOLS: Final = (
    "pools:\n"
    "  - {name: idle, count: 40, state: Idle, instance_type: m4, zones: [za], resources: {cpu: 4, memory: 16Gi}}\n"
)
TOLD: Final = 'bigfleet_shard_coordinator_instructions_total{kind="assign_domain",outcome="accepted"}'
_LENGTH_DELIMITED: Final = 2


class Fleet:
    """All parts; `builds` says which version each of them is."""

    def __init__(self, directory: Path, api: InMemoryApi, front: HttpFront, cluster: ProcessCluster) -> None:
        self.directory, self.api, self.front, self.coordinators = directory, api, front, cluster
        self.programs: dict[str, RunningProgram] = {}
        self.builds: dict[str, Build] = {}
        self.served: set[str] = set()
        self.rows: dict[str, str] = {}
        self._ports = {"shard": settled_port(), "provider": settled_port()}
        self._requests = 0
        (directory / "pools.yaml").write_text(POOLS)
        (directory / "kubeconfig").write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
            f"clusters: [{{name: x, cluster: {{server: '{front.url}'}}}}]\n"
            "users: [{name: x, user: {}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
        )

    # ---- parts

    async def start(self, build: Build) -> None:
        """Start everything in one version and wait until it works."""
        for member in self.coordinators.members:
            self.builds[member.node_id] = build
            member.checkout = build.root
        self.coordinators.start_all()
        self._run("provider", build)
        await self.until("the provider listens", lambda: self.programs["provider"].port("control_port"))
        self._run("shard", build)
        self._run("operator", build)
        await self.coordinators.formed()
        await self.works()

    async def replace(self, part: str, build: Build) -> None:
        """Stop one part in good order and start it in a version, where it was."""
        self.builds[part] = build
        if part.startswith("coordinator-"):
            await self._replace_coordinator(int(part.rpartition("-")[2]), build)
            return
        code = await asyncio.to_thread(self.programs[part].end)
        assert code == 0, self.programs[part].text()
        self._run(part, build)
        await self.until(f"{part} is ready", lambda: self.programs[part].http("/readyz")[0] == 200)
        _, page = await asyncio.to_thread(self.programs[part].http, "/metrics")
        assert f'version="{build.version}"' in page, f"{part} is not {build.version}"

    async def _replace_coordinator(self, ordinal: int, build: Build) -> None:
        self.coordinators.signal(ordinal, signal.SIGTERM)
        assert await self.coordinators.exit_code(ordinal) == 0, self.coordinators.tails()
        member = self.coordinators.members[ordinal]
        member.checkout = build.root
        self.coordinators.start(ordinal)
        await self.coordinators.formed()
        _, page = await http_get(member.metrics_port, "/metrics")
        assert f'version="{build.version}"' in page, f"{member.node_id} is not {build.version}"

    def _run(self, part: str, build: Build) -> None:
        self.builds[part] = build
        where = self.directory / part
        flags = {
            "provider": (
                "bigfleet-fake-provider",
                f"--inventory={self.directory / 'pools.yaml'}",
                f"--addr=127.0.0.1:{self._ports['provider']}",
                "--control-addr=127.0.0.1:0",
                f"--state={where}",
                "--sync",
            ),
            "shard": (
                "bigfleet",
                "shard",
                "--id=shard-0",
                f"--listen=127.0.0.1:{self._ports['shard']}",
                f"--provider-addr=127.0.0.1:{self._ports['provider']}",
                f"--data-dir={where}",
                "--cycle-interval=500ms",
                f"--coordinator-addr={self.coordinators.members[1].grpc_address}",
                "--coordinator-heartbeat-interval=200ms",
            ),
            "operator": (
                "bigfleet-operator",
                "--cluster-id=prod-1",
                f"--shard-addr=127.0.0.1:{self._ports['shard']}",
                f"--kubeconfig={self.directory / 'kubeconfig'}",
                "--rollup-interval=500ms",
            ),
        }[part]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "NO_PROXY": "127.0.0.1"}
        count = sum(1 for _ in self.directory.glob(f"{part}-*.log"))
        self.programs[part] = RunningProgram(
            flags[0],
            *flags[1:],
            "--metrics-addr=127.0.0.1:0",
            "--log-format=json",
            log=self.directory / f"{part}-{count}.log",
            environ={**environ, **build.environ},
            root=build.root,
        )

    def install(self, definitions: tuple[Definition, ...]) -> None:
        """Let the API server serve these custom resources from now on; what is stored stays."""
        for definition in definitions:
            self.api.install(definition)

    # ---- what must hold at every moment of an upgrade

    async def works(self) -> None:
        """One more pod is served, nobody lost a machine, the coordinator takes a row, keeps all others and tells the shard."""
        await self.ask_for_a_machine()
        wanted = self._requests

        async def all_served() -> bool:
            return len(await self.serving()) == wanted

        await self.fact(f"{wanted} machines serve", all_served)
        now = await self.serving()
        assert self.served <= now, f"lost {sorted(self.served - now)}"
        self.served = now
        await self.assign(f"r{wanted}")

    async def ask_for_a_machine(self, **spec: str) -> dict[str, Any]:
        """Create a request as large as one machine; return the object as the API server keeps it."""
        self._requests += 1
        body = {
            "apiVersion": "bigfleet.lucy.sh/v1alpha1",
            "kind": "CapacityRequest",
            "metadata": {"name": f"pod-{self._requests}", "namespace": "shop"},
            "spec": {"priority": 1000, "resources": {"cpu": "4"}, **spec},
        }
        answer = await self.api.transport().send(ApiCall("POST", REQUESTS, body=body))
        assert answer.status == 201, answer.body
        assert isinstance(answer.body, dict)
        return answer.body

    async def serving(self) -> set[str]:
        """Return the machines that the provider has configured."""
        port = self.programs["provider"].port("control_port")
        _, text = await http_get(port, "/machines?state=Configured&cluster=prod-1")
        return {machine["id"] for machine in json.loads(text)}

    async def assign(self, value: str, note: str = "") -> None:
        """Give the shard a domain, see it told, and see every row that was ever given."""
        before = await self._told()
        request = pb.AssignDomainRequest(topology_key="rack", topology_value=value, shard_id="shard-0")
        if note:
            raw = note.encode()
            tag = _varint(NOTE_FIELD << 3 | _LENGTH_DELIMITED)
            request.MergeFromString(request.SerializeToString() + tag + _varint(len(raw)) + raw)
        # Leadership may change under the call: it may be repeated, as every command may.
        async with self._leader() as leader:
            await leader.unary(ASSIGN_DOMAIN, request, timeout_s=20)
            self.rows[value] = note
            listed = (
                await leader.unary(LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest(), timeout_s=20)
            ).message
        found = {row.topology_value: _note(row) for row in listed.assignments}
        assert set(found) == set(self.rows)

        async def heard() -> bool:
            return await self._told() > before

        await self.fact(f"the shard is told of {value}", heard)

    async def notes(self) -> dict[str, str]:
        """Return the notes that the leader keeps, by domain."""
        async with self._leader() as leader:
            reply = await leader.unary(
                LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest(), timeout_s=20
            )
        return {row.topology_value: _note(row) for row in reply.message.assignments if _note(row)}

    async def level(self, ordinal: int) -> float:
        """Return the level of commands that one replica has been raised to; 0 where it does not tell."""
        _, page = await http_get(self.coordinators.members[ordinal].metrics_port, "/metrics")
        return _series(page, 'bigfleet_coordinator_command_level{which="raised"}')

    async def _told(self) -> float:
        _, page = await asyncio.to_thread(self.programs["shard"].http, "/metrics")
        return _series(page, TOLD)

    def _leader(self) -> LeaderClient:
        addresses = [member.grpc_address for member in self.coordinators.members]
        return LeaderClient(self.coordinators.net, addresses, resolve=system_resolve)

    # ---- waiting

    async def until(self, what: str, condition: Callable[[], object]) -> None:
        """Wait for something that is asked for in another thread."""

        async def fact() -> bool:
            return bool(await asyncio.to_thread(condition))

        await self.fact(what, fact)

    async def fact(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for something; a part that ended meanwhile is told at once."""
        give_up_s = asyncio.get_running_loop().time() + 2 * PATIENCE_S
        while not await condition():
            for program in self.programs.values():
                assert program.code is None, f"{program.name} ended before {what}\n{program.text()}"
            if asyncio.get_running_loop().time() > give_up_s:
                told = "\n".join(f"--- {part}\n{one.text()[-1500:]}" for part, one in self.programs.items())
                raise AssertionError(f"not in time: {what}\n{told}\n{self.coordinators.tails()}")
            await asyncio.sleep(0.05)

    def end(self) -> None:
        """End whatever still runs."""
        for program in self.programs.values():
            program.kill()


@asynccontextmanager
async def fleet(directory: Path, definitions: tuple[Definition, ...]) -> AsyncIterator[Fleet]:
    """Surroundings for one fleet, with these custom resources; every process is ended with it."""
    api = InMemoryApi(SystemClock(), definitions)
    async with (
        HttpFront(api.transport(ROLE)).serving() as front,
        ProcessCluster(directory, proxied=False) as cluster,
    ):
        one = Fleet(directory, api, front, cluster)
        try:
            yield one
        finally:
            one.end()


def _note(row: pb.DomainAssignment) -> str:
    unknown = unknown_fields.UnknownFieldSet(row)
    fields = [unknown[place] for place in range(len(unknown))]
    found = [field.data for field in fields if field.field_number == NOTE_FIELD]
    return found[-1].decode() if found else ""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _series(page: str, series: str) -> float:
    values = [line.rpartition(" ")[2] for line in page.splitlines() if line.rpartition(" ")[0] == series]
    return float(values[0]) if values else 0.0
