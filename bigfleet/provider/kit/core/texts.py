"""Error texts for records: one line, bounded, without the secrets that an exception may quote.

Why: `last_error` reaches shards, logs and dashboards, and a backend's exception may quote the blob.
Must never: let a line break, a control character or a line of the bootstrap blob through.
Rules: `providers#blob-secret`, `providers#record-fields`.
"""

import re

from bigfleet.provider.contract import MAX_ERROR_BYTES

MASK = "****"
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SHORTEST_SECRET = 6  # masking shorter lines of a blob, such as `fi`, would only hide other text


def one_line(text: str, limit: int = MAX_ERROR_BYTES) -> str:
    """Return the text on one line, with passwords in URLs masked, cut to at most so many bytes of whole characters."""
    line = _USER_INFO.sub(MASK, _BLANKS.sub(" ", text)).strip()
    data = line.encode("utf-8", "replace")
    return data[:limit].decode("utf-8", "ignore") if len(data) > limit else data.decode()


def without_secret(text: str, secret: bytes) -> str:
    """Return the text with the secret, and every line of it, masked."""
    if not secret:
        return text
    whole = secret.decode("utf-8", "replace")
    parts = {whole.strip(), *(line.strip() for line in whole.splitlines())}
    # Longest first, so that no part of a masked line is left over.
    for part in sorted(parts, key=lambda part: (-len(part), part)):
        if len(part) >= _SHORTEST_SECRET:
            text = text.replace(part, MASK)
    # An exception may also quote the bytes by their repr.
    return text.replace(repr(secret), MASK)
