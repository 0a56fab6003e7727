"""gRPC servers and channels, mutual TLS, identity, health, HTTP server.

The TLS floor is set here, on import, because it must be set before the gRPC library is loaded. That library has no
option for a minimum version, but reads the suites it offers for TLS 1.2 from an environment variable, once, when it is
imported. A list of suites that only work with pre-shared keys leaves TLS 1.2 without a usable suite, while those of
TLS 1.3 are not affected; hence a handshake below TLS 1.3 fails, on servers and on channels (`shard#tls`; held by
tests/integration/transport/test_tls_floor.py). A value set from outside is replaced, since it could only weaken this.

Where something imported gRPC before this package, the library's own floor holds: TLS 1.2 with AEAD suites only.
`TLS_FLOOR` says which of the two is in force. Servers refuse the identity of a peer below TLS 1.3 in both cases.
"""

import os
import sys
from typing import Final

_VARIABLE: Final = "GRPC_SSL_CIPHER_SUITES"
_NO_TLS_1_2_SUITE: Final = "ECDHE-PSK-CHACHA20-POLY1305"

_in_time = "grpc" not in sys.modules or os.environ.get(_VARIABLE) == _NO_TLS_1_2_SUITE
os.environ[_VARIABLE] = _NO_TLS_1_2_SUITE

# Keeps the library's own lines about every connection that ends out of our logs, unless the variable is set.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

TLS_FLOOR: Final = "TLS 1.3" if _in_time else "TLS 1.2 with AEAD suites"
"""What no handshake of this process goes below."""
