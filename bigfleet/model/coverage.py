"""Coverage: the machines of a need by how far they are, and what is missing.

Why: the shard computes it, explanations, the command line and pages show it.
Rules: `shard#coverage-split`.
"""

from dataclasses import dataclass

from bigfleet.model.resources import ZERO, Resources


@dataclass(frozen=True, slots=True)
class CoverageSplit:
    """The machines of a need, of a cluster or of everything, by how far they are."""

    running: int = 0
    """Configured."""
    joining: int = 0
    """Configuring."""
    on_order: int = 0
    """Creating, and accepted by the provider."""
    wanted: int = 0
    """Decided, and not accepted by the provider: not called yet, held off or failed."""
    missing: Resources = ZERO
    """What running, joining and on order leave of the demand."""
    held_off: str = ""
    """Why wanted machines do not come, such as `provider-unreachable`; empty when nothing holds them off."""
    waiting_s: float = 0.0
    """For how long machines have been wanted and none was accepted."""

    @property
    def covered(self) -> bool:
        """Whether running, joining and on order cover the demand."""
        return self.missing.is_zero
