"""The kit's own model as a process that can be killed: `model_process.py PORT STATE SEED_COUNT [FAULT_TIMEOUT_S]`.

Run by the tests beside it. Whatever a call changed is on disk before it is answered, as the contract wants. A violation
named by the variable MODEL_VIOLATION is committed.
"""

import asyncio
import contextlib
import os
import pickle
import sys
from pathlib import Path

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.net import Call
from bigfleet.aio.proc import SystemProc
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import (
    Mutation,
    ReferenceOperation,
    ReferenceOptions,
    ReferenceRecord,
    ReferenceStore,
)
from bigfleet.provider.methods import PROVIDER
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.conformance.table import VIOLATIONS


def chosen() -> type[ReferenceProvider]:
    """Return the honest model, or one that commits the violation of the environment."""
    name = os.environ.get("MODEL_VIOLATION")
    return next((violation.model for violation in VIOLATIONS if violation.name == name), ReferenceProvider)


class DurableModel(chosen()):  # type: ignore[misc]  # which one is known at run time only
    """Writes everything anew after each change; a fleet of a hundred bears that."""

    path: Path

    def save(self) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(pickle.dumps(self.store))
        os.replace(fresh, self.path)

    async def mutate(self, kind: ReferenceOperation, request: Mutation, call: Call) -> pb.TransitionAck:
        try:
            answer: pb.TransitionAck = await super().mutate(kind, request, call)
            return answer
        finally:
            self.save()

    def touch(self, record: ReferenceRecord) -> None:
        super().touch(record)
        self.save()


def load(path: Path) -> ReferenceStore | None:
    DurableModel.path = path
    with contextlib.suppress(FileNotFoundError):
        kept = pickle.loads(path.read_bytes())  # noqa: S301  written by ourselves
        assert isinstance(kept, ReferenceStore)
        return kept
    return None


async def main(port: str, state: str, seed_count: str, fault_timeout_s: str = "") -> int:
    store = load(Path(state))
    options = ReferenceOptions(
        slots=int(seed_count),
        latency_s=0.01,
        faults=bool(fault_timeout_s),
        timeout_s=float(fault_timeout_s or 300),
    )
    proc = SystemProc()
    with proc.listen():
        model = DurableModel(SystemClock(), options, store)
        server = await GrpcNet().serve(f"127.0.0.1:{port}", [PROVIDER.bind(model)])
        print(f"serving on {server.port}", flush=True)
        await proc.wait_stop()
        await server.stop(2.0)
        await model.stop()
    return proc.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
