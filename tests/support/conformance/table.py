"""The table of planted violations.

Must never: hold a name twice.
Rules: `providers#self-check`, `providers#lies`.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Final

from tests.support.conformance.violation import Violation
from tests.support.conformance.violations import fencing, lifecycle, listing, metadata, operations


def _of(module: ModuleType) -> Iterator[Violation]:
    # In the order of the source: a module's namespace keeps it. Names that were only imported are left out.
    for value in vars(module).values():
        if isinstance(value, Violation) and value.model.__module__ == module.__name__:
            yield value


VIOLATIONS: Final[tuple[Violation, ...]] = tuple(
    violation for module in (operations, lifecycle, fencing, metadata, listing) for violation in _of(module)
)
