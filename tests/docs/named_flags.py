"""Flags that prose may name: those of our programs, and those of foreign tools by the tool that has them."""

import re
from importlib import import_module

from bigfleet.cli.framework.surface import entries

FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]+)")
MODULES = (
    *(
        "bigfleet",
        "bigfleetctl",
        "fake_provider",
        "fault_provider",
        "hook_provider",
        "kubectl_bigfleet",
        "operator",
    ),
    "unschedulable_pod_controller",
)
FLAGS = {
    name.lstrip("-")
    for module in MODULES
    for entry in entries(import_module(f"bigfleet.app.{module}").PROGRAM)
    for option in entry.options
    for name in (option.flag, *option.flag.split())
} | {"help", "version"}
OTHERS = {
    # Flags of programs that are not ours, by who has them.
    "pytest": {
        "rewrite",
        "evidence",
        "screenshots",
        "bigfleet-target",
        "bigfleet-fault-target",
        "bigfleet-profile",
        "bigfleet-seed",
        "bigfleet-machines",
    },
    "helm": {
        "values",
        "strict",
        "take-ownership",
        "set",
        "namespace",
        "create-namespace",
        "kube-context",
        "install",
    },
    "kubectl and kind": {
        *("context", "field-selector", "name", "dry-run", "namespace"),
        *("since", "previous", "raw", "as", "no-headers", "from-file"),
    },
    "buf and git": {"against", "diff", "exclude-source-info", "exit-code", "write"},
    "kube-apiserver, etcd and kube-scheduler": {
        *("emulated-version", "kube-api-burst", "kube-api-qps", "permit-port-sharing", "unsafe-no-fsync"),
    },
    "tools of this repository": {"check", "dirty", "out", "only", "json", "proto_path", "tag"},
    "examples of the pages": {"flag", "bool", "port", "who", "seed-count", "cluster", "x"},
    "sha256sum": {"check", "quiet"},
}
KNOWN = FLAGS.union(*OTHERS.values())
