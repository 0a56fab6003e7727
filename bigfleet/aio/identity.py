"""Who a peer of a gRPC edge is: one of four roles, two of which carry an id.

Why: every gate of the fleet compares one value, the `bigfleet://` URI of a certificate, byte for byte; here is its only
reading and its only spelling.
Must never: treat one role as part of another (admin is no shard), or accept an id that a URI path would change.
Rules: `wire#identity`, `coordinator#identity-gates`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.model.errors import InvalidFieldError

SCHEME: Final = "bigfleet://"
_ID: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


class Role(StrEnum):
    """The word after `bigfleet://`."""

    CLUSTER = "cluster"
    SHARD = "shard"
    ADMIN = "admin"
    READONLY = "readonly"

    @property
    def carries_id(self) -> bool:
        return self in (Role.CLUSTER, Role.SHARD)


@dataclass(frozen=True, slots=True)
class Identity:
    """One holder of a certificate; its text form is the URI."""

    role: Role
    id: str = ""

    def __post_init__(self) -> None:
        if self.role.carries_id and not _ID.fullmatch(self.id):
            raise InvalidFieldError(
                f"id of the role {self.role}", self.id, "one or more of A-Z a-z 0-9 . _ -"
            )
        if not self.role.carries_id and self.id:
            raise InvalidFieldError(f"id of the role {self.role}", self.id, "empty, as this role has no id")

    def __str__(self) -> str:
        return f"{SCHEME}{self.role}/{self.id}" if self.id else f"{SCHEME}{self.role}"

    @classmethod
    def parse(cls, uri: str) -> "Identity":
        """Read a URI; anything but the four exact forms is refused."""
        role, slash, id_ = uri.removeprefix(SCHEME).partition("/")
        known = uri.startswith(SCHEME) and role in list(Role)
        if not known or bool(slash) != Role(role).carries_id:
            allowed = (
                "bigfleet://cluster/<id>, bigfleet://shard/<id>, bigfleet://admin or bigfleet://readonly"
            )
            raise InvalidFieldError("identity", uri, allowed)
        return cls(Role(role), id_)

    @classmethod
    def cluster(cls, cluster_id: str) -> "Identity":
        return cls(Role.CLUSTER, cluster_id)

    @classmethod
    def shard(cls, shard_id: str) -> "Identity":
        return cls(Role.SHARD, shard_id)


ADMIN: Final = Identity(Role.ADMIN)
READONLY: Final = Identity(Role.READONLY)
