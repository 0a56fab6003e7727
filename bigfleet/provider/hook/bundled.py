"""The bundled hook sets, by name; a test compares them with the files in the package.
Rules: `providers#hook-sets`.
"""

import posixpath
from typing import Final

from bigfleet.provider.hook.core.documents import HookSets
from bigfleet.provider.hook.core.inventory import HookKind as K

_FOLDER: Final = posixpath.join(posixpath.dirname(__file__), "sets")
_KINDS: Final = {
    "ssh": (K.CONFIGURE, K.DRAIN, K.PROBE),
    "process": (K.CREATE, K.CONFIGURE, K.READY, K.DRAIN, K.DELETE, K.PROBE),
    "ipmi": (K.CREATE, K.DELETE, K.PROBE),
}

BUNDLED: Final[HookSets] = {
    name: {kind: posixpath.join(_FOLDER, name, kind) for kind in kinds} for name, kinds in _KINDS.items()
}
