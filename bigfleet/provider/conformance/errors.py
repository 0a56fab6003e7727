"""What can end a behaviour, and what can end a whole run.

    BigFleetError
    ├── ConformanceError        the run itself cannot go on; exit 2
    │   ├── TargetError         no answer from the target
    │   ├── NotAdmittedError    the target does not admit the kit
    │   ├── DeclinedError       the person at the terminal said no
    │   └── LaunchError         the process under test did not come up, or did not end
    ├── ViolationError          a provider did what the contract forbids: the behaviour failed
    ├── SkippedError            the provider does not offer what the behaviour is about
    ├── NotRunError             the kit was not given what the behaviour needs
    └── NoMachineError          there was no machine to work on, so nothing was tested

Must never: carry a bootstrap blob or key material in its text, since the text is printed and written to reports.
"""

from bigfleet.model.errors import BigFleetError


class ConformanceError(BigFleetError):
    """The run cannot go on; this says nothing about the provider."""


class TargetError(ConformanceError):
    """The target does not answer."""

    def __init__(self, target: str, problem: str) -> None:
        super().__init__(f"no provider answers at {target}: {problem}")
        self.target, self.problem = target, problem


class NotAdmittedError(ConformanceError):
    """The target refuses the kit because of its certificate, or demands a token where the contract demands none."""

    def __init__(self, target: str, problem: str, remedy: str) -> None:
        super().__init__(f"the provider at {target} does not admit the kit: {problem}; {remedy}")
        self.target, self.problem, self.remedy = target, problem, remedy


class DeclinedError(ConformanceError):
    """The user did not allow the kit to change machines."""


class LaunchError(ConformanceError):
    """A process that the kit was to own did not come up, or did not end."""


class ViolationError(BigFleetError):
    """A provider did what the contract forbids."""


class SkippedError(BigFleetError):
    """The provider does not offer what the behaviour is about, which is its right."""


class NotRunError(BigFleetError):
    """The kit was not given what the behaviour needs, so nothing was tested."""


class NoMachineError(BigFleetError):
    """No machine was found to work on, so nothing was tested."""

    def __init__(self, wanted: int, found: int, state: str, machines: str) -> None:
        which = "" if machines == "*" else f" among the machines that match {machines!r}"
        super().__init__(f"needs {wanted} {state} machine(s){which}, found {found}")
        self.wanted, self.found = wanted, found
