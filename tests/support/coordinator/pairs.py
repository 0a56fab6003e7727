"""A small state machine of keys and values, so that tests of the log do not depend on the coordinator's tables."""

import json
from typing import Any

from bigfleet.coordinator.log import Tables
from bigfleet.model.errors import BigFleetError, InvalidFieldError


class Pairs:
    """Commands: `put` a value under a key, `poison` (raises), `barrier`, `begin_epoch`."""

    def __init__(self) -> None:
        self._epoch = 0
        self.pairs: dict[str, Any] = {}
        self.applied: list[str] = []
        """Keys in the order they were put, since the last load."""

    @property
    def epoch(self) -> int:
        return self._epoch

    def apply(self, batch: str) -> str:
        request = json.loads(batch)
        items = request["items"]
        if items[0]["kind"] != "begin_epoch" and request["epoch"] != self._epoch:
            return json.dumps(
                [_refusal("stale_epoch", f"{request['epoch']}, now {self._epoch}")] * len(items)
            )
        return json.dumps([self._apply_one(item) for item in items])

    def _apply_one(self, item: dict[str, Any]) -> dict[str, Any]:
        match item["kind"]:
            case "begin_epoch" if item["term"] <= self._epoch:
                return _refusal("stale_epoch", f"{item['term']}, now {self._epoch}")
            case "begin_epoch":
                self._epoch = item["term"]
            case "put":
                self.pairs[item["key"]] = item["value"]
                self.applied.append(item["key"])
            case "barrier":
                pass
            case "poison":
                raise ZeroDivisionError("poisoned")
            case kind:
                return _refusal("invalid", f"kind: found {kind!r}")
        return {"ok": True}

    def dump(self) -> Tables:
        return {"epoch": self._epoch, "pairs": dict(self.pairs)}

    def load(self, tables: Tables) -> None:
        if set(tables) != {"epoch", "pairs"}:
            raise InvalidFieldError("tables", sorted(tables), "epoch and pairs")
        if not isinstance(tables["pairs"], dict):
            raise BigFleetError("pairs: expected an object")
        self._epoch, self.pairs, self.applied = tables["epoch"], dict(tables["pairs"]), []


def put(key: str, value: object) -> dict[str, object]:
    """Return the command that puts a value under a key."""
    return {"kind": "put", "key": key, "value": value}


def _refusal(code: str, detail: str) -> dict[str, Any]:
    return {"ok": False, "refusal": code, "detail": detail}
