"""Errors of a test control plane; each text says what to do next.

Why: a cluster that does not come up must say which component ended and show the end of its log, not a bare timeout.
Must never: hold a token or a key; logs are shown, files of secrets are not.

    ControlPlaneError
    ├── BinaryMissingError     there is nothing to run: why, and the command that mends it
    │   └── ToolMissingError   the same of Helm, promtool or the kinds of other projects
    ├── BuildError             the Go toolchain refused
    ├── ComponentEndedError    a process of a cluster ended by itself
    ├── NotInTimeError         a fact that was waited for did not come
    ├── UnreachableError       the API server did not answer at all
    ├── ApiRefusedError        the API server answered, and the answer was no
    └── KubectlError           kubectl returned a code other than zero
"""

from bigfleet.model.errors import BigFleetError


class ControlPlaneError(BigFleetError):
    """Something foreseen went wrong with the test control plane."""


class BinaryMissingError(ControlPlaneError):
    """There is no testbed binary for these sources; nothing was compiled."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the test control plane is not there: {reason}")
        self.reason = reason


class ToolMissingError(BinaryMissingError):
    """A tool that tests use besides the control plane is not there; nothing was fetched."""

    def __init__(self, reason: str) -> None:
        ControlPlaneError.__init__(self, reason)
        self.reason = reason


class BuildError(ControlPlaneError):
    """The Go toolchain refused to build the testbed."""

    def __init__(self, step: str, output: str) -> None:
        super().__init__(f"{step} failed:\n{output}")
        self.step, self.output = step, output


class ComponentEndedError(ControlPlaneError):
    """A process of a cluster ended by itself."""

    def __init__(self, component: str, exit_code: int, log: str) -> None:
        super().__init__(f"{component} ended with exit code {exit_code}; the end of its log:\n{log}")
        self.component, self.exit_code = component, exit_code


class NotInTimeError(ControlPlaneError):
    """A fact that was waited for did not come."""

    def __init__(self, what: str, seconds: float, logs: str) -> None:
        super().__init__(f"{what}: not within {seconds:g} s\n{logs}")
        self.what, self.seconds = what, seconds


class UnreachableError(ControlPlaneError):
    """The API server did not answer at all."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"{url}: {problem}")
        self.url, self.problem = url, problem


class ApiRefusedError(ControlPlaneError):
    """The API server answered, and the answer was no."""

    def __init__(self, method: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {reason}: {message}")
        self.method, self.path, self.status, self.reason, self.message = method, path, status, reason, message


class KubectlError(ControlPlaneError):
    """kubectl returned a code other than zero."""

    def __init__(self, arguments: tuple[str, ...], exit_code: int, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: exit code {exit_code}\n{stderr}")
        self.arguments, self.exit_code, self.stderr = arguments, exit_code, stderr
