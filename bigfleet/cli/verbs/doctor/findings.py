"""What `bigfleet doctor` found, and its judgement of what a cluster's API server says.

Why: the judgement needs no network, so each planted fault is a test of a function.
Must never: wait, or call.
Rules: packaging 1.10, operator 10.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.roles import Role, Rule

MOST_SKEW_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, whether it is well, and what was seen."""

    what: str
    is_good: bool
    seen: str


def good(what: str, seen: str) -> Finding:
    """Return a check that is well."""
    return Finding(what, True, seen)


def bad(what: str, seen: str) -> Finding:
    """Return a check that is not."""
    return Finding(what, False, seen)


def clock_finding(date: str, now: datetime) -> Finding:
    """Compare the API server's clock, as its answers tell it, with ours."""
    try:
        skew_s = (now - parsedate_to_datetime(date)).total_seconds()
    except ValueError:
        return bad("clock", f"the API server tells no readable time: {date!r}")
    told = f"{abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the API server's"
    if abs(skew_s) > MOST_SKEW_S:
        return bad("clock", f"{told}, allowed are {MOST_SKEW_S:g} s")
    return good("clock", told)


def definition_finding(definition: Definition, stored: Mapping[str, Any] | None) -> Finding:
    """Tell whether a custom resource is there, and as this version defines it."""
    what = f"definition {definition.name}"
    if stored is None:
        return bad(what, "is not there; install the chart bigfleet-crds")
    wanted = definition.manifest()["spec"]["versions"]
    found = {version["name"]: version for version in stored["spec"]["versions"]}
    for version in wanted:
        if version["name"] not in found:
            return bad(what, f"lacks the version {version['name']}; upgrade the chart bigfleet-crds")
        if found[version["name"]].get("schema") != version["schema"]:
            return bad(what, "is of another version than this program; upgrade the chart bigfleet-crds")
    return good(what, "is there, and of this version")


def rights(role: Role, namespace: str, flags: frozenset[str]) -> Iterator[dict[str, str]]:
    """Yield every right of a program as the attributes of an access review."""
    for rules, where in ((role.cluster, ""), (role.own_namespace, namespace)):
        for rule in rules:
            if not rule.needs or rule.needs in flags:
                yield from _attributes(rule, where)


def _attributes(rule: Rule, namespace: str) -> Iterator[dict[str, str]]:
    for named in rule.resources:
        resource, _, subresource = named.partition("/")
        for verb in rule.verbs:
            attributes = {"group": rule.group, "resource": resource, "verb": verb}
            attributes |= {"subresource": subresource} if subresource else {}
            yield attributes | ({"namespace": namespace} if namespace else {})


def right_name(attributes: Mapping[str, str]) -> str:
    """Return a right in words."""
    subresource = attributes.get("subresource", "")
    return f"{attributes['verb']} {attributes['resource']}{'/' if subresource else ''}{subresource}"
