"""The tree of a parsed template."""

from dataclasses import dataclass, field

Literal = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value."""

    value: Literal


@dataclass(frozen=True, slots=True)
class Chain:
    """Fields of the dot (no start), of a variable, or of a pipeline in parentheses."""

    start: "str | Pipeline | None"
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its name."""

    name: str


Operand = Constant | Chain | Function


@dataclass(frozen=True, slots=True)
class TemplateCommand:
    """An operand, with arguments when it is a function."""

    operands: tuple[Operand, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each applied to the result of the one before, and the variables that are set to the result."""

    commands: tuple[TemplateCommand, ...]
    line: int
    variables: tuple[str, ...] = ()
    assigns: bool = False


@dataclass(frozen=True, slots=True)
class TextNode:
    """Text that is printed as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Show:
    """A pipeline whose result is printed, unless it sets a variable."""

    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Branch:
    """if, with or range: a pipeline, its body, and its else branch."""

    kind: str
    pipeline: Pipeline
    body: "tuple[Node, ...]"
    other: "tuple[Node, ...]" = field(default=())


@dataclass(frozen=True, slots=True)
class Jump:
    """break or continue."""

    kind: str
    line: int


Node = TextNode | Show | Branch | Jump
