"""The resources that one pod requests, computed as kube-scheduler does.

Why: with other arithmetic the pod may not fit on the node that it gets.
Must never: read a limit, or round: sums are exact.
Rules: `operator#pod-requirements`; ADR-0027.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.quantity_text import canonical_text, parse_with_family
from bigfleet.model.resources import Resources

# What `spec.resources` of a pod may set for the pod as a whole.
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


@dataclass(frozen=True, slots=True)
class _Amount:
    nano: int = 0
    binary: bool = True  # zero is both binary and decimal: what is added decides

    def __add__(self, other: "_Amount") -> "_Amount":
        if not other.nano:
            return self
        if not self.nano:
            return other
        return _Amount(self.nano + other.nano, self.binary and other.binary)


_NOTHING: Final = _Amount()
_Amounts = dict[str, _Amount]


def pod_request(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the requests of a pod by resource name, in order."""
    return {
        name: canonical_text(amount.nano, binary=amount.binary)
        for name, amount in sorted(_request(spec).items())
    }


def pod_resources(spec: Mapping[str, Any]) -> Resources:
    """Return the requests of a pod as amounts to calculate with."""
    return Resources({name: max(0, amount.nano) for name, amount in _request(spec).items()})


def _request(spec: Mapping[str, Any]) -> _Amounts:
    containers = _total(_requested(container) for container in spec.get("containers") or ())
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _requested(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _total((sidecars, own))
            at_once = sidecars
        else:
            at_once = _total((own, sidecars))
        peak = _largest(peak, at_once)
    request = _largest(_total((containers, sidecars)), peak)
    for name, amount in _requested(spec).items():
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
            request[name] = amount
    return _total((request, _read(spec.get("overhead"))))


def _requested(holder: Mapping[str, Any]) -> _Amounts:
    return _read((holder.get("resources") or {}).get("requests"))


def _read(amounts: Mapping[str, Any] | None) -> _Amounts:
    found: _Amounts = {}
    for name, text in (amounts or {}).items():
        try:
            nano, binary = parse_with_family(str(text))
        except InvalidFieldError:
            continue  # the API server admits none; to miss one resource is better than to miss the pod
        found[name] = _Amount(nano, binary)
    return found


def _total(summands: Iterable[_Amounts]) -> _Amounts:
    total: _Amounts = {}
    for amounts in summands:
        for name, amount in amounts.items():
            total[name] = total.get(name, _NOTHING) + amount
    return total


def _largest(first: _Amounts, second: _Amounts) -> _Amounts:
    """Return the larger amount of each resource; the first one if they are equal."""
    larger = {
        name: amount for name, amount in second.items() if name not in first or amount.nano > first[name].nano
    }
    return {**first, **larger}
