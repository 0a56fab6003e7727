"""Settings of commands: one field is a flag, an environment variable and a key of the config file.

Why: charts, scripts and people set the same value in three ways.
Must never: read the environment or a file (a settings object in a test has its defaults and the arguments of the test), or
hold a secret: secrets are files, and a field with the name of a secret is refused when its class is created.
Rules: `packaging#settings-sources`.

    class ShardSettings(ProcessFlags, TlsFlags, env_prefix="BIGFLEET_SHARD_"):
        dry_run: bool = Field(default=False, description="decide and report, touch nothing")

is `--dry-run`, `BIGFLEET_SHARD_DRY_RUN` and `dry-run:`.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bigfleet.cli.framework.kinds import Cli, Duration, OptionalPath

if TYPE_CHECKING:  # cryptography takes longer to import than --help may
    from bigfleet.transport.tls import TlsFiles, TlsStore

# Variables of the original that keep their names; no command refuses them as unknown.
KEPT_VARIABLES = {
    "BIGFLEET_PHASEDUMP": "1 logs where the time of each cycle went",
    "BIGFLEET_FAKE_CREATE_LATENCY": "how long the fake provider takes to create a machine",
    "BIGFLEET_PROVIDER_TARGET": "address of the provider under conformance test",
    "KUBECONFIG": "credentials of the Kubernetes cluster",
}

_SECRET_WORD = re.compile(r"(?:^|_)(?:password|passphrase|secret|token|credentials?)(?:_|$)")


class Flags(BaseSettings):
    """Flags of every command, besides `--help` and `--version`."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, validate_default=True)

    group_title: ClassVar[str] = "Common flags"

    config: Annotated[OptionalPath, Cli(in_file=False)] = Field(
        default=None, description="YAML file keyed by flag name; flags and environment take precedence"
    )
    print_config: Annotated[bool, Cli(in_file=False, in_environment=False)] = Field(
        default=False, description="print each effective value with its source, and exit"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest severity to log; debug also shows tracebacks"
    )

    def __init_subclass__(cls, *, env_prefix: str = "", **kwargs: Any) -> None:  # Any: pydantic's own
        """Accept `env_prefix` as a class keyword; pydantic-settings has already stored it."""
        super().__init_subclass__(**kwargs)

    @classmethod
    def __pydantic_init_subclass__(cls, **_kwargs: Any) -> None:
        """Refuse a field that takes a secret as a flag value."""
        for name, field in cls.model_fields.items():
            if _SECRET_WORD.search(name) and field.annotation not in (Path, Path | None):
                raise TypeError(f"{cls.__name__}.{name}: a secret is a file, so its type must be a path")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use only the arguments: `bigfleet.cli.framework.load` reads the other sources."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


class ProcessFlags(Flags):
    """Flags of every long-running process."""

    group_title: ClassVar[str] = "Process flags"

    log_format: Annotated[Literal["json", "console"] | None, Cli(default="json; console on a terminal")] = (
        Field(default=None, description="format of the log lines on standard error")
    )
    shutdown_grace: Duration = Field(
        default=10.0, description="time that calls in flight get after SIGTERM before they are cancelled"
    )
    reflection: bool = Field(default=False, description="serve gRPC reflection")


class OutputFlags(Flags):
    """Flags of commands whose output a program may read."""

    group_title: ClassVar[str] = "Output flags"

    output: Annotated[Literal["table", "wide", "json", "yaml"], Cli(short="o")] = Field(
        default="table", description="format of the output"
    )
    no_color: bool = Field(
        default=False,
        description="never use colour; NO_COLOR and output to a file or pipe have the same effect",
    )


class TlsFlags(Flags):
    """Mutual TLS: a certificate, its key and the CA that signs the peers, or none of them."""

    group_title: ClassVar[str] = "TLS flags"

    tls_cert: OptionalPath = Field(
        default=None, description="PEM certificate chain; reloaded when it changes"
    )
    tls_key: OptionalPath = Field(default=None, description="PEM private key of the certificate")
    tls_ca: OptionalPath = Field(default=None, description="PEM bundle of the CA that signed the peers")

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        given = {"--tls-cert": self.tls_cert, "--tls-key": self.tls_key, "--tls-ca": self.tls_ca}
        missing = [flag for flag, path in given.items() if path is None]
        if 0 < len(missing) < len(given):
            found = ", ".join(flag for flag in given if flag not in missing)
            raise ValueError(
                f"found {found} without {', '.join(missing)}, allowed is all three TLS flags or none"
            )
        return self

    def tls_files(self) -> "TlsFiles | None":
        """Return the three files; None means plaintext."""
        from bigfleet.transport.tls import TlsFiles

        if self.tls_cert is None or self.tls_key is None or self.tls_ca is None:
            return None
        return TlsFiles(self.tls_cert, self.tls_key, self.tls_ca)

    def tls_store(
        self,
        on_problem: Callable[[str], None],
        on_warning: Callable[[str], None] = lambda _warning: None,
    ) -> "TlsStore | None":
        """Load the three files and follow their changes; None means plaintext."""
        from bigfleet.transport.tls import TlsStore

        files = self.tls_files()
        return None if files is None else TlsStore(files, on_problem, on_warning)
