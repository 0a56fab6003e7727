"""The tree of a parsed template."""

from dataclasses import dataclass, field

Literal = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: Literal


@dataclass(frozen=True, slots=True)
class Chain:
    """Fields of something: of the dot (no start), of a variable, or of a pipeline in parentheses."""

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
    """Commands, each given what the one before it returned, and the variables that take the result."""

    commands: tuple[TemplateCommand, ...]
    line: int
    variables: tuple[str, ...] = ()
    assigns: bool = False


@dataclass(frozen=True, slots=True)
class TextNode:
    """Text that goes out as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Show:
    """A pipeline whose result goes out, unless it sets a variable."""

    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Branch:
    """if, with or range: a pipeline, what follows it, what follows its failure."""

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
