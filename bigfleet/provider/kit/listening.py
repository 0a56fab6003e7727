"""How a provider listens that its program serves with `ProviderKit.serve`: its certificates, and warnings about them.

Why: such a program has none of the wiring that our own have, and its operator wants the same metrics and warnings.
Must never: listen beyond loopback without TLS and not say so.
Rules: `packaging#plaintext-exposed`, `packaging#warnings-at-start`, `providers#tls`.
"""

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.connection_report import ConnectionReport
from bigfleet.model.errors import InvalidFieldError
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.kit.admission import CallerRules, warn_of_opt_outs
from bigfleet.transport.address import PLAINTEXT, is_exposed, parse_listen
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsFiles, TlsStore


def make_net(
    tls: TlsFiles | None, admission: CallerRules, report: ConnectionReport, log: FilteringBoundLogger
) -> GrpcNet:
    """Return the network of a provider; requirements that do not fit the certificates are refused or warned of."""
    if tls is None:
        if admission.require_shard_san:
            raise InvalidFieldError("require_shard_san", True, "off without TLS, as there is no certificate")
        return GrpcNet(report=report)
    warn_of_opt_outs(log, admission)
    store = TlsStore(
        tls,
        lambda problem: log.error("tls_problem", problem=problem),
        lambda warning: log.warning("secret_open_to_others", file=warning),
    )
    return GrpcNet(store, report=report)


def show_exposure(address: str, metrics: Metrics, log: FilteringBoundLogger, *, secured: bool) -> None:
    """Export, and warn of it, whether other hosts can reach a port without TLS."""
    exposed = is_exposed(parse_listen(address), secured=secured)
    metrics.gauge("bigfleet_plaintext_exposed").set(exposed)
    if exposed:
        log.warning("plaintext", listen=address, what=PLAINTEXT)
