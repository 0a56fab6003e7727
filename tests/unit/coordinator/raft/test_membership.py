"""Members from flags: by ordinal, by list, alone; and what is refused."""

import pytest

from bigfleet.coordinator.raft.membership import MemberAddress, RaftMembers, members_from_flags
from bigfleet.model.errors import InvalidFieldError

LIST = "a-0@h0:1@h0:2,a-1@h1:1@h1:2,a-2@h2:1@h2:2"


def members(
    node_id: str = "bigfleet-coordinator-1",
    *,
    replicas: int = 3,
    join_addr: str = "bigfleet-coordinator.ns.svc:7790",
    peers: str = "",
    raft_advertise: str = "",
    raft_bind: str = ":7791",
) -> RaftMembers:
    return members_from_flags(
        node_id=node_id,
        replicas=replicas,
        join_addr=join_addr,
        peers=peers,
        raft_advertise=raft_advertise,
        raft_bind=raft_bind,
        listen="127.0.0.1:7790",
    )


def test_members_follow_from_the_ordinal_and_the_headless_service() -> None:
    found = members()
    assert found.ordinal == 1
    assert found.all == tuple(
        MemberAddress(
            f"bigfleet-coordinator-{n}",
            f"bigfleet-coordinator-{n}.bigfleet-coordinator.ns.svc:7791",
            f"bigfleet-coordinator-{n}.bigfleet-coordinator.ns.svc:7790",
        )
        for n in range(3)
    )
    assert [member.node_id for member in found.others] == ["bigfleet-coordinator-0", "bigfleet-coordinator-2"]


def test_an_advertised_address_gives_the_domain_and_port_of_all() -> None:
    found = members(raft_advertise="bigfleet-coordinator-1.other.svc:9000")
    assert found.all[2].raft_address == "bigfleet-coordinator-2.other.svc:9000"
    assert found.all[2].grpc_address == "bigfleet-coordinator-2.other.svc:7790"
    assert found.by_raft_address("bigfleet-coordinator-0.other.svc:9000") == found.all[0]
    assert found.by_raft_address(None) is None


def test_members_can_be_listed_and_one_can_be_alone() -> None:
    assert members("a-2", join_addr="", peers=LIST).me == MemberAddress("a-2", "h2:1", "h2:2")
    alone = members("node-1", replicas=1, join_addr="")
    assert alone.all == (MemberAddress("node-1", "127.0.0.1:7791", "127.0.0.1:7790"),)


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        pytest.param({"replicas": 2}, "--replicas", id="two replicas"),
        pytest.param({"join_addr": ""}, "--replicas", id="three without a way to each other"),
        pytest.param({"node_id": "coordinator"}, "--id", id="no ordinal"),
        pytest.param({"node_id": "coordinator-3"}, "--id", id="ordinal beyond the replicas"),
        pytest.param({"node_id": "coordinator-01"}, "--id", id="ordinal with a leading zero"),
        pytest.param({"join_addr": "nowhere"}, "--join-addr", id="join address without port"),
        pytest.param({"raft_advertise": "x.y:1"}, "--raft-advertise", id="advertised address of another"),
        pytest.param({"peers": LIST}, "--peers", id="both ways at once"),
        pytest.param({"peers": "a-0@h:1", "join_addr": ""}, "--peers", id="half a member"),
        pytest.param({"peers": LIST, "join_addr": "", "node_id": "b-0"}, "--id", id="not in the list"),
        pytest.param(
            {"peers": LIST.replace("a-2", "a-1"), "join_addr": "", "node_id": "a-0"}, "--peers", id="id twice"
        ),
        pytest.param({"peers": LIST, "join_addr": "", "replicas": 1}, "--peers", id="too many members"),
    ],
)
def test_flags_that_cannot_work_are_refused_by_name(flags: dict[str, str | int], field: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        members(**flags)  # type: ignore[arg-type]  # the table mixes types
    assert refused.value.field == field
