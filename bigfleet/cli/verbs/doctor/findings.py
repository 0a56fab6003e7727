"""The results of `bigfleet doctor`, and its checks of the answers of an API server.

Why: these checks need no network, so each problem can be tested as a function call.
Must never: wait, or call.
Rules: `packaging#other-commands`, `operator#roles`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.roles import RbacRole, RbacRule

MOST_SKEW_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    is_good: bool
    seen: str


def good(what: str, seen: str) -> Finding:
    """Return a check that passed."""
    return Finding(what, True, seen)


def bad(what: str, seen: str) -> Finding:
    """Return a check that failed."""
    return Finding(what, False, seen)


def clock_finding(date: str, now: datetime) -> Finding:
    """Compare the clock of the API server, from the Date header of its answers, with ours."""
    try:
        skew_s = (now - parsedate_to_datetime(date)).total_seconds()
    except ValueError:
        return bad("clock", f"the API server sent no valid Date header: {date!r}")
    difference = f"{abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} the API server's"
    if abs(skew_s) > MOST_SKEW_S:
        return bad("clock", f"{difference}, allowed are {MOST_SKEW_S:g} s")
    return good("clock", difference)


def definition_finding(definition: Definition, stored: Mapping[str, Any] | None) -> Finding:
    """Check whether a custom resource is installed in this version."""
    what = f"definition {definition.name}"
    if stored is None:
        return bad(what, "is missing; install the chart bigfleet-crds")
    wanted = definition.manifest()["spec"]["versions"]
    found = {version["name"]: version for version in stored["spec"]["versions"]}
    for version in wanted:
        if version["name"] not in found:
            return bad(what, f"lacks the version {version['name']}; upgrade the chart bigfleet-crds")
        if found[version["name"]].get("schema") != version["schema"]:
            return bad(what, "has another version than this program; upgrade the chart bigfleet-crds")
    return good(what, "is installed in this version")


def rights(role: RbacRole, namespace: str, flags: frozenset[str]) -> Iterator[dict[str, str]]:
    """Yield every permission of a program as the attributes of an access review."""
    for rules, where in ((role.cluster, ""), (role.own_namespace, namespace)):
        for rule in rules:
            if not rule.needs or rule.needs in flags:
                yield from _attributes(rule, where)


def _attributes(rule: RbacRule, namespace: str) -> Iterator[dict[str, str]]:
    for named in rule.resources:
        resource, _, subresource = named.partition("/")
        for verb in rule.verbs:
            attributes = {"group": rule.group, "resource": resource, "verb": verb}
            attributes |= {"subresource": subresource} if subresource else {}
            yield attributes | ({"namespace": namespace} if namespace else {})


def right_name(attributes: Mapping[str, str]) -> str:
    """Return a permission as text."""
    subresource = attributes.get("subresource", "")
    return f"{attributes['verb']} {attributes['resource']}{'/' if subresource else ''}{subresource}"
