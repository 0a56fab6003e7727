"""The errors of parsing and rendering a template.

Must never: quote what a template rendered; it holds join credentials.
"""

from bigfleet.model.errors import BigFleetError


class TemplateError(BigFleetError):
    """A template cannot be parsed; line and word say where."""

    def __init__(self, line: int, word: str, problem: str) -> None:
        super().__init__(f"line {line}: {word!r}: {problem}")
        self.line, self.word, self.problem = line, word, problem


class RenderError(BigFleetError):
    """A parsed template could not be rendered with its context."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line, self.problem = line, problem
