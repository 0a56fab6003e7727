"""The rules of a chart's roles, from the rights that stand beside the code which uses them.

Must never: add a verb; `bigfleet.kube.roles` is the only list.
Rules: `packaging#agent-charts`, `operator#roles`.
"""

from collections.abc import Sequence
from typing import Final

import yaml

from bigfleet.kube.roles import LEADER_ELECT, POD_EVENTS, WATCH_PODS, RbacRole, RbacRule

_VALUES: Final = {LEADER_ELECT: "leaderElect", POD_EVENTS: "podEvents", WATCH_PODS: "watchPods"}


def rules_template(role: RbacRole, head: str) -> str:
    """Return the template of the rules, with those that only an optional flag needs behind its value."""
    return (
        head
        + _define("bigfleet.rules.cluster", role.cluster)
        + "\n"
        + _define("bigfleet.rules.namespace", role.own_namespace)
    )


def _define(name: str, rules: Sequence[RbacRule]) -> str:
    return f'{{{{- define "{name}" -}}}}\n{"".join(map(_written, rules))}{{{{- end }}}}\n'


def _written(rule: RbacRule) -> str:
    document = yaml.safe_dump([rule.as_document()], sort_keys=False, default_flow_style=None, width=110)
    if not rule.needs:
        return document
    return f"{{{{- if .Values.{_VALUES[rule.needs]} }}}}\n{document}{{{{- end }}}}\n"
