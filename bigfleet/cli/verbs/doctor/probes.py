"""The network checks of `bigfleet doctor`: names, ports, handshakes, readiness.

Must never: send a request of the wire contract, or wait longer than its deadline.
Rules: `packaging#other-commands`.
"""

import asyncio
import ssl
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

from bigfleet.aio.identity import Role
from bigfleet.cli.verbs.doctor.findings import Finding, bad, good
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.transport.address import parse_listen
from bigfleet.transport.dev_ca import describe
from bigfleet.transport.identity import sole_identity
from bigfleet.transport.tls import TlsFiles

DEADLINE_S: Final = 5.0


def own_certificate(files: TlsFiles, role: Role | None, now: datetime) -> list[Finding]:
    """Check our own certificate and its role."""
    what = f"certificate {files.cert}"
    try:
        about = describe(Path(files.cert), now=now)
    except (BigFleetError, OSError, ValueError) as error:
        return [bad(what, str(error))]
    if about.problems:
        return [bad(what, problem) for problem in about.problems]
    identity = about.uris[0] if about.uris else "no identity"
    if role is not None and about.role is not role:
        return [bad(what, f"names {identity}, allowed is the role {role.value}")]
    return [good(what, f"names {identity}, valid until {about.not_after:%Y-%m-%d %H:%M}Z")]


async def reachable(address: str, files: TlsFiles | None, wanted: Role | None) -> list[Finding]:
    """Check whether a name resolves, its port is open and, with certificates, the role of the peer."""
    place = parse_listen(address)
    try:
        async with asyncio.timeout(DEADLINE_S):
            found = await asyncio.get_running_loop().getaddrinfo(place.host, place.port)
    except (OSError, TimeoutError) as error:
        return [bad(f"name {place.host}", f"does not resolve: {error}")]
    resolved = good(f"name {place.host}", f"is {', '.join(sorted({str(each[4][0]) for each in found}))}")
    try:
        async with asyncio.timeout(DEADLINE_S):
            _, writer = await asyncio.open_connection(place.host, place.port)
            writer.close()
    except (OSError, TimeoutError) as error:
        return [resolved, bad(f"port {address}", f"cannot be reached: {str(error) or 'no answer in time'}")]
    findings = [resolved, good(f"port {address}", "is open")]
    if files is not None:
        findings.append(await _handshake(address, files, wanted))
    return findings


async def _handshake(address: str, files: TlsFiles, wanted: Role | None) -> Finding:
    what, place = f"handshake {address}", parse_listen(address)
    try:
        context = ssl.create_default_context(cafile=str(files.ca))
        context.load_cert_chain(str(files.cert), str(files.key))
        context.set_alpn_protocols(["h2"])
        async with asyncio.timeout(DEADLINE_S):
            _, writer = await asyncio.open_connection(
                place.host, place.port, ssl=context, server_hostname=place.host
            )
    except (OSError, TimeoutError) as error:
        return bad(what, f"refused: {str(error) or 'no answer in time'}")
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    try:
        identity = sole_identity(x509.load_der_x509_certificate(der))
    except (InvalidFieldError, ValueError) as error:
        return bad(what, str(error))
    if wanted is not None and identity.role is not wanted:
        return bad(what, f"is {identity}, allowed is the role {wanted.value}")
    return good(what, f"is {identity}")


async def ready(url: str) -> Finding:
    """Check the readiness probe at the metrics port of a process."""
    what, parts = f"ready {url}", urlsplit(url)
    try:
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            writer.write(
                f"GET /readyz HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode()
            )
            answer = (await reader.read()).decode(errors="replace")
            writer.close()
    except (OSError, TimeoutError) as error:
        return bad(what, f"cannot be reached: {str(error) or 'no answer in time'}")
    head, _, body = answer.partition("\r\n\r\n")
    status = head.split(" ", 2)[1:2]
    if status == ["200"]:
        return good(what, "yes")
    return bad(what, f"no: {' '.join(body.split()) or head.partition(chr(13))[0]}")
