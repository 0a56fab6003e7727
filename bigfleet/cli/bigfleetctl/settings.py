"""Flags that every verb of `bigfleetctl` understands, and the file of contexts behind `--context`.

Why: with several fleets, an admin names one of them instead of typing addresses and certificate paths.
Must never: let a context override a flag, a variable or a config file, or mix TLS files from the context and the flags.
Rules: `packaging#settings-sources`, `packaging#bigfleetctl`, `coordinator#bigfleetctl`.

    contexts:
      prod:
        coordinator: coordinator.bigfleet-system.svc:7790
        tls-cert: /etc/bigfleet/admin/tls.crt
        tls-key: /etc/bigfleet/admin/tls.key
        tls-ca: /etc/bigfleet/admin/ca.crt
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from bigfleet.cli.framework.errors import CommandError, UnreadableValueError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, Duration
from bigfleet.cli.framework.settings import OutputFlags, TlsFlags
from bigfleet.cli.framework.tree import near_miss
from bigfleet.cli.framework.values import parse_dial_address

DEFAULT_COORDINATOR: Final = "127.0.0.1:7790"
_KEYS: Final = ("coordinator", "tls-cert", "tls-key", "tls-ca")


class CtlFlags(OutputFlags, TlsFlags):
    """Flags of every verb, before or after its name; verbs that work on local files ignore the addresses."""

    group_title: ClassVar[str] = "Global flags"

    coordinator: Annotated[str, Cli(metavar="ADDRESS,…", default=DEFAULT_COORDINATOR)] = Field(
        default="",
        description="addresses of the coordinator, or a name that resolves to all replicas; each is tried",
    )
    timeout: Duration = Field(default=10.0, gt=0, description="longest time of one call")
    context: Annotated[str, Cli(metavar="NAME")] = Field(
        default="", description="context to take address and certificate paths from"
    )


@dataclass(frozen=True, slots=True)
class CoordinatorTarget:
    """The addresses to call, and the certificate files; None means plaintext."""

    addresses: tuple[str, ...]
    tls: tuple[Path, Path, Path] | None = None


def target_of(settings: CtlFlags, environ: Mapping[str, str]) -> CoordinatorTarget:
    """Return the target of the flags, or else of the context."""
    given = _context(settings.context, environ) if settings.context else {}
    return CoordinatorTarget(
        _addresses(settings.coordinator or given.get("coordinator") or DEFAULT_COORDINATOR),
        _files(settings, given),
    )


def context_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the file of contexts."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    return Path(base) / "bigfleet" / "contexts.yaml"


def _addresses(text: str) -> tuple[str, ...]:
    try:
        return tuple(parse_dial_address(part.strip()) for part in text.split(",") if part.strip())
    except UnreadableValueError as error:
        raise UsageError(f"--coordinator: {error}") from None


def _files(settings: TlsFlags, given: Mapping[str, str]) -> tuple[Path, Path, Path] | None:
    if settings.tls_cert is not None and settings.tls_key is not None and settings.tls_ca is not None:
        return settings.tls_cert, settings.tls_key, settings.tls_ca
    named = [given.get(key) for key in _KEYS[1:]]
    if not any(named):
        return None
    if not all(named):
        missing = [key for key, value in zip(_KEYS[1:], named, strict=True) if not value]
        raise UsageError(f"context: {', '.join(missing)} missing, allowed is all three TLS files or none")
    cert, key, ca = (Path(str(path)) for path in named)
    return cert, key, ca


def _context(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    import yaml

    from bigfleet.aio.disk import DiskError
    from bigfleet.aio.given_files import UnfitFileError, read_given
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.document.strict_yaml import load_strict_yaml, problem_of

    path = context_file(environ)
    try:
        document: Any = load_strict_yaml(read_given(SystemDisk(), path))  # Any: written by the user
    except DiskError as error:
        raise UsageError(f"--context: {path}: {error.reason}") from None
    except UnfitFileError as error:
        raise UsageError(f"--context: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"--context: {path}: {problem_of(error)}") from None
    contexts = document.get("contexts") if isinstance(document, dict) else None
    if not isinstance(contexts, dict):
        raise UsageError(f"--context: {path}: found no mapping contexts, allowed is contexts by name")
    if name not in contexts:
        known = sorted(map(str, contexts))
        hint = near_miss(name, known) or f", allowed is one of {', '.join(known)}"
        raise CommandError(f"--context: {path}: no context {name!r}{hint}", ExitCode.USAGE)
    entry = contexts[name]
    unknown = sorted(set(entry) - set(_KEYS)) if isinstance(entry, dict) else ["no mapping"]
    if unknown:
        allowed = ", ".join(_KEYS)
        raise UsageError(
            f"--context: {path}: {name}: found {', '.join(map(str, unknown))}, allowed is {allowed}"
        )
    return {str(key): str(value) for key, value in entry.items()}
