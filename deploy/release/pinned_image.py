"""The values file of a release: its image by digest.

Why: a tag can be moved, a digest cannot, and users need not know the registry.
"""

import re
from typing import Final

from bigfleet.kube.crds.render import chart_version
from deploy.release.errors import ReleaseError

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE: Final = re.compile(r"(?P<registry>[a-z0-9][a-z0-9.-]*(?::\d+)?)/(?P<repository>[a-z0-9._/-]+)")


def values_file(image: str, digest: str, version: str) -> str:
    """Return the file; refuses an image without a registry, and an invalid digest."""
    place = _IMAGE.fullmatch(image)
    if place is None:
        raise ReleaseError(
            f"image: found {image!r}, allowed is registry/name in small letters, without a tag"
        )
    if _DIGEST.fullmatch(digest) is None:
        raise ReleaseError(f"digest: found {digest!r}, allowed is sha256: and 64 hexadecimal digits")
    return (
        f"# The image of BigFleet {version}, for all charts: helm install … --values release-values-{chart_version(version)}.yaml\n"
        f"image:\n  registry: {place['registry']}\n  repository: {place['repository']}\n"
        f"  tag: v{chart_version(version)}\n  digest: {digest}\n"
    )
