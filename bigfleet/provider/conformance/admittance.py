"""Finds out whether the target admits the kit, before the first behaviour.

Why: under TLS a provider may admit shards only, each in its own name and with a token. The kit has one certificate, calls in the
name of many shards, and sometimes without a token, as the behaviours demand. Against such a provider nearly all of them
would fail, which says nothing about the contract.
Must never: change a machine; what it sends names a machine that no provider has.
Rules: `providers#certify-under-tls`.
"""

from typing import Final

from bigfleet.aio.net import Code
from bigfleet.provider.conformance.caller import Caller, ListReply
from bigfleet.provider.conformance.calls import CallToken
from bigfleet.provider.conformance.errors import NotAdmittedError

_NEEDS_SHARD: Final = "give --tls-cert a certificate of a shard, such as bigfleet certs issue DIR --role shard --name conformance"
_NEEDS_OPT_OUT: Final = (
    "start the provider under test with --require-shard-san=false and --require-fencing=false, or without TLS, and never "
    "leave it so"
)


def refuse_stranger(target: str, listing: ListReply) -> None:
    """Raise `NotAdmittedError` if a listing was refused because of the kit's certificate."""
    if listing.code is Code.PERMISSION_DENIED:
        raise NotAdmittedError(target, str(listing), _NEEDS_SHARD)


async def require_admittance(target: str, calls: Caller, run_id: str) -> None:
    """Raise `NotAdmittedError` if the target refuses a shard other than the certificate's, or a call without a token."""
    ghost = f"conformance-ghost-{run_id}-admittance"
    named = await calls.create(ghost, CallToken(f"conformance-{run_id}-admittance", 1, 1))
    if named.code is Code.PERMISSION_DENIED:
        raise NotAdmittedError(target, str(named), _NEEDS_OPT_OUT)
    bare = await calls.create(ghost)
    if bare.code in (Code.PERMISSION_DENIED, Code.INVALID_ARGUMENT):
        raise NotAdmittedError(target, str(bare), _NEEDS_OPT_OUT)
