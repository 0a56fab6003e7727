"""Reads kubeconfig files as kubectl does: merges several, and resolves one context.

Why: the loader of the client library takes the current context from the last file, where kubectl takes it from the first, and
leaves keys in temporary files.
Must never: touch a disk, or show a token or key in an error.
Rules: `operator#start-order`, `operator#raw-json`.
"""

import base64
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from bigfleet.document.strict_yaml import load_strict_yaml
from bigfleet.kube.errors import LoginError

_PARTS: Final = ("clusters", "contexts", "users")


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate or key: its data, or the file that holds it."""

    data: bytes = field(default=b"", repr=False)
    file: str = ""


NO_MATERIAL: Final = Material()


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the credentials for it."""

    server: str
    namespace: str = ""
    ca: Material = NO_MATERIAL
    cert: Material = NO_MATERIAL
    key: Material = NO_MATERIAL
    token: str = field(default="", repr=False)
    token_file: str = ""
    exec_plugin: Mapping[str, Any] | None = field(default=None, repr=False)
    insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    impersonate: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    document: Mapping[str, Any]
    path: str

    def text(self, name: str) -> str:
        value = self.document.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise LoginError(f"{self.path}: {name} must be a text")
        return value

    def flag(self, name: str) -> bool:
        return self.document.get(name) is True

    def file(self, name: str) -> str:
        """Return a path relative to the directory of the kubeconfig."""
        value = self.text(name)
        return posixpath.join(posixpath.dirname(self.path), value) if value else ""

    def material(self, name: str) -> Material:
        encoded = self.text(f"{name}-data")
        if not encoded:
            return Material(file=self.file(name))
        try:
            return Material(data=base64.b64decode(encoded, validate=True))
        except ValueError:  # also for text that is not ASCII
            raise LoginError(f"{self.path}: {name}-data is not base64") from None


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One or more files, merged."""

    paths: tuple[str, ...]
    current_context: str
    entries: Mapping[str, Mapping[str, _Entry]]

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of all contexts."""
        return tuple(sorted(self.entries["contexts"]))

    def resolve(self, context: str = "") -> Target:
        """Return the server and user of a context, by default the current one."""
        where = ", ".join(self.paths)
        name = context or self.current_context
        if not name:
            raise LoginError(f"{where}: no current-context is set")
        found = self._entry("contexts", name, where)
        cluster = self._entry("clusters", found.text("cluster"), where)
        user = self._entry("users", found.text("user"), where) if found.text("user") else _Entry({}, where)
        server = cluster.text("server").rstrip("/")
        if not server.startswith(("https://", "http://")):
            raise LoginError(f"{cluster.path}: server must begin with https:// or http://, found {server!r}")
        _refuse_unsupported(user)
        return Target(
            server=server,
            namespace=found.text("namespace"),
            ca=cluster.material("certificate-authority"),
            cert=user.material("client-certificate"),
            key=user.material("client-key"),
            token=user.text("token"),
            token_file=user.file("tokenFile"),
            exec_plugin=_exec_plugin(user),
            insecure=cluster.flag("insecure-skip-tls-verify"),
            tls_server_name=cluster.text("tls-server-name"),
            proxy=cluster.text("proxy-url"),
            impersonate=user.text("as"),
        )

    def _entry(self, part: str, name: str, where: str) -> _Entry:
        entry = self.entries[part].get(name)
        if entry is None:
            known = ", ".join(sorted(self.entries[part])) or "none"
            raise LoginError(f"{where}: found {part[:-1]} {name!r}, allowed is {known}")
        return entry


def merge(files: Sequence[tuple[str, str]]) -> Kubeconfig:
    """Merge files, given as path and text; what an earlier file sets, a later one cannot change."""
    entries: dict[str, dict[str, _Entry]] = {part: {} for part in _PARTS}
    current = ""
    for path, text in files:
        document = _load(path, text)
        current = current or str(document.get("current-context") or "")
        for part in _PARTS:
            items = document.get(part) or []
            if not isinstance(items, list):
                raise LoginError(f"{path}: {part} must be a list")
            for item in items:
                if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
                    raise LoginError(f"{path}: every entry of {part} must have a name")
                inner = item.get(part[:-1]) or {}
                if not isinstance(inner, Mapping):
                    raise LoginError(f"{path}: {part[:-1]} {item['name']!r} must be a map")
                entries[part].setdefault(item["name"], _Entry(inner, path))
    return Kubeconfig(tuple(path for path, _ in files), current, entries)


def _load(path: str, text: str) -> Mapping[str, Any]:
    try:
        document = load_strict_yaml(text)
    except yaml.YAMLError as error:
        # The text of the error quotes the file, secrets included, so only the line is shown.
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise LoginError(f"{path}: not readable as YAML{line}") from None
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise LoginError(f"{path}: a kubeconfig must be a map")
    return document


def _exec_plugin(user: _Entry) -> Mapping[str, Any] | None:
    plugin = user.document.get("exec")
    if plugin is None:
        return None
    if not isinstance(plugin, Mapping) or not plugin.get("command"):
        raise LoginError(f"{user.path}: exec must name a command")
    command = str(plugin["command"])
    if "/" in command and not posixpath.isabs(command):
        # With a slash it is relative to the directory of the kubeconfig; without one it is looked up in PATH.
        command = posixpath.join(posixpath.dirname(user.path), command)
    return {**plugin, "command": command}


def _refuse_unsupported(user: _Entry) -> None:
    for name in ("as-groups", "as-uid", "as-user-extra"):
        if user.document.get(name):
            raise LoginError(
                f"{user.path}: {name} is not supported; allowed is impersonation of a user by as"
            )
    if user.document.get("auth-provider") is not None:
        raise LoginError(
            f"{user.path}: auth-provider is no longer in use; allowed is exec, token or certificate"
        )
    if user.document.get("username") is not None:
        raise LoginError(f"{user.path}: API servers know no passwords; allowed is exec, token or certificate")
