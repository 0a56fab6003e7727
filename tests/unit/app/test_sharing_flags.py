"""Flags of a shard that shares its provider (`coordinator#partition-mode`)."""

from typing import Any

import pytest

from bigfleet.app.shard.command import ShardSettings, check
from bigfleet.cli.framework.errors import UsageError

GIVEN: dict[str, Any] = {  # Any: flags of every kind
    "shared_provider": True,
    "provider_addr": "provider:9000",
    "coordinator_addr": "coordinator:7790",
}


@pytest.mark.rule("coordinator#partition-mode")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"provider_addr": ""}, "--provider-addr"),
        ({"coordinator_addr": ""}, "--coordinator-addr"),
        ({"incremental_reconcile": True}, "--incremental-reconcile"),
    ],
)
def test_sharing_is_refused_without_what_it_needs(change: dict[str, Any], named: str) -> None:
    check(ShardSettings(**GIVEN))
    check(ShardSettings(**{**GIVEN, **change, "shared_provider": False}))
    with pytest.raises(UsageError, match=named):
        check(ShardSettings(**{**GIVEN, **change}))
