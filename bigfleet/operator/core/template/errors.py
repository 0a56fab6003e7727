"""What can be wrong with a template, before and while it is rendered.

Must never: quote what a template rendered; it holds join credentials.
"""

from bigfleet.model.errors import BigFleetError


class TemplateError(BigFleetError):
    """A template cannot be used; line and word say where."""

    def __init__(self, line: int, word: str, problem: str) -> None:
        super().__init__(f"line {line}: {word!r}: {problem}")
        self.line, self.word, self.problem = line, word, problem


class RenderError(BigFleetError):
    """A template that parsed could not be rendered with what it was given."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line, self.problem = line, problem
