"""Parses a template into a tree, and refuses with line and word what can be refused without data.

Why: a mistake in a template must stop the operator at its start, not a machine that joins.
Must never: accept a function, a keyword or a field that rendering does not know.
Rules: `operator#bootstrap`; ADR-0011.
"""

from typing import Final

from bigfleet.operator.core.template.errors import TemplateError
from bigfleet.operator.core.template.lexer import TemplateAction, TemplateText, TemplateToken, split, unquoted
from bigfleet.operator.core.template.nodes import (
    Branch,
    Chain,
    Constant,
    Function,
    Jump,
    Node,
    Operand,
    Pipeline,
    Show,
    TemplateCommand,
    TextNode,
)

FUNCTIONS: Final = frozenset(
    ("and", "eq", "ge", "gt", "index", "le", "len", "lt", "ne", "not", "or", "print", "printf", "println")
)
FIELDS: Final = frozenset({"ClusterID", "MachineID", "Requirements", "Key", "Operator", "Values"})
_BLOCKS: Final = ("if", "with", "range")
_KEYWORDS: Final = frozenset({*_BLOCKS, "else", "end", "break", "continue"})
_REFUSED: Final = frozenset({"define", "template", "block", "call", "html", "js", "urlquery", "slice"})
_MOST_DEEP: Final = 50  # blocks in blocks and parentheses in parentheses; parsing and rendering recurse
_DECLARATION: Final = 4  # words of the longest one, `$i, $r :=`
_WORDS_OF_VALUES: Final = {"true": True, "false": False, "nil": None}


def parse(source: str) -> tuple[Node, ...]:
    """Return the tree of a template; TemplateError if it is invalid."""
    return _Parser(split(source)).whole()


class _Parser:
    def __init__(self, pieces: list[TemplateText | TemplateAction]) -> None:
        self._pieces, self._place = pieces, 0
        self._scopes: list[set[str]] = [{"$"}]
        self._ranges = 0

    def whole(self) -> tuple[Node, ...]:
        nodes, ended = self._nodes()
        if ended is not None:
            raise TemplateError(ended.line, _first(ended), "without a block to belong to")
        return nodes

    def _nodes(self) -> tuple[tuple[Node, ...], TemplateAction | None]:
        """Read nodes up to an `end` or `else`, which is returned too, or to the end of the template."""
        nodes: list[Node] = []
        while self._place < len(self._pieces):
            piece = self._pieces[self._place]
            self._place += 1
            if isinstance(piece, TemplateText):
                nodes.append(TextNode(piece.text))
                continue
            first = _first(piece)
            if first in ("end", "else"):
                return tuple(nodes), piece
            nodes.append(self._node(piece, first))
        return tuple(nodes), None

    def _node(self, action: TemplateAction, first: str) -> Node:
        if first in _BLOCKS:
            return self._block(action, action.words[1:], first)
        if first in ("break", "continue"):
            if not self._ranges:
                raise TemplateError(action.line, first, "outside of a range")
            if len(action.words) > 1:
                raise TemplateError(action.line, action.words[1].text, f"after {first} nothing may follow")
            return Jump(first, action.line)
        return Show(_Line(self._scopes, action.words, action.line).pipeline())

    def _block(self, action: TemplateAction, words: tuple[TemplateToken, ...], kind: str) -> Branch:
        if len(self._scopes) > 2 * _MOST_DEEP:
            raise TemplateError(action.line, kind, f"blocks more than {_MOST_DEEP} deep")
        self._scopes.append(set())
        pipeline = _Line(self._scopes, words, action.line).pipeline(in_range=kind == "range")
        self._scopes.append(set())
        self._ranges += kind == "range"
        body, ended = self._nodes()
        self._ranges -= kind == "range"
        self._scopes.pop()
        other: tuple[Node, ...] = ()
        if ended is not None and _first(ended) == "else":
            other, ended = self._otherwise(ended, kind)
        if ended is None:
            raise TemplateError(action.line, kind, "without its end")
        self._scopes.pop()
        return Branch(kind, pipeline, body, other)

    def _otherwise(self, action: TemplateAction, kind: str) -> tuple[tuple[Node, ...], TemplateAction | None]:
        rest = action.words[1:]
        if rest:
            if kind != "if" or rest[0].text != "if":
                raise TemplateError(rest[0].line, rest[0].text, f"after the else of {kind}")
            # `else if` shares the end of the block it belongs to.
            branch = self._block(action, rest[1:], "if")
            return (branch,), action
        self._scopes.append(set())
        nodes, ended = self._nodes()
        self._scopes.pop()
        if ended is not None and _first(ended) == "else":
            raise TemplateError(ended.line, "else", "after an else")
        return nodes, ended


class _Line:
    """Parses the tokens of one action."""

    def __init__(self, scopes: list[set[str]], words: tuple[TemplateToken, ...], line: int) -> None:
        self._scopes, self._words, self._place, self._line = scopes, words, 0, line
        self._open = 0

    def pipeline(self, *, in_range: bool = False) -> Pipeline:
        """Read the whole action as one pipeline."""
        found = self._pipeline(in_range)
        if self._place < len(self._words):
            word = self._words[self._place]
            raise TemplateError(word.line, word.text, "too much")
        return found

    def _pipeline(self, in_range: bool = False) -> Pipeline:
        variables, assigns = self._declared(in_range)
        commands: list[TemplateCommand] = []
        while True:
            commands.append(self._command(len(commands)))
            if not self._take("|"):
                break
        if not assigns:
            self._scopes[-1].update(variables)
        return Pipeline(tuple(commands), self._line, variables, assigns)

    def _declared(self, in_range: bool) -> tuple[tuple[str, ...], bool]:
        words = self._words[self._place : self._place + _DECLARATION]
        names = [words[0].text] if words and words[0].kind == "variable" else []
        used = 1
        if names and in_range and len(words) > 2 and words[1].text == "," and words[2].kind == "variable":
            names.append(words[2].text)
            used = 3
        if not names or len(words) <= used or words[used].text not in (":=", "="):
            return (), False
        assigns = words[used].text == "="
        for name in names:
            if assigns:
                self._check_variable(name, words[0].line)
        self._place += used + 1
        return tuple(names), assigns

    def _command(self, number: int) -> TemplateCommand:
        operands: list[Operand] = []
        ahead = self._peek()
        line = ahead.line if ahead is not None else self._line
        while (word := self._peek()) is not None and word.text not in ("|", ")"):
            operands.append(self._operand(word))
        if not operands:
            raise TemplateError(line, "", "an action or a stage of it that says nothing")
        first = operands[0]
        shown = self._words[self._place - 1].text
        if isinstance(first, Constant):
            if first.value is None:
                raise TemplateError(line, "nil", "is no command")
            if number:
                raise TemplateError(line, str(first.value), "cannot take what comes before it")
        if len(operands) > 1 and not isinstance(first, Function):
            raise TemplateError(line, shown, "an argument to something that is no function")
        return TemplateCommand(tuple(operands), line)

    def _operand(self, word: TemplateToken) -> Operand:
        self._place += 1
        match word.kind:
            case "string" | "raw":
                return Constant(unquoted(word))
            case "number":
                return Constant(_whole(word))
            case "dot":
                return Chain(None)
            case "field":
                return Chain(None, (_known_field(word), *self._fields()))
            case "variable":
                self._check_variable(word.text, word.line)
                return Chain(word.text, self._fields())
            case "word":
                return self._named(word)
        if word.text == "(":
            self._open += 1
            if self._open > _MOST_DEEP:
                raise TemplateError(word.line, "(", f"parentheses more than {_MOST_DEEP} deep")
            inner = self._pipeline()
            if not self._take(")"):
                raise TemplateError(word.line, "(", "a parenthesis that is not closed")
            self._open -= 1
            return Chain(inner, self._fields())
        raise TemplateError(word.line, word.text, "not expected here")

    def _named(self, word: TemplateToken) -> Operand:
        if word.text in _WORDS_OF_VALUES:
            return Constant(_WORDS_OF_VALUES[word.text])
        if word.text in FUNCTIONS:
            return Function(word.text)
        if word.text in _REFUSED:
            raise TemplateError(word.line, word.text, "is not supported here")
        if word.text in _KEYWORDS:
            raise TemplateError(word.line, word.text, "a keyword in the middle of an action")
        raise TemplateError(word.line, word.text, f"is no function; there are {', '.join(sorted(FUNCTIONS))}")

    def _fields(self) -> tuple[str, ...]:
        """Read the fields that follow the operand without a space."""
        fields = []
        while (word := self._peek()) is not None and word.kind == "field" and word.joined:
            fields.append(_known_field(word))
            self._place += 1
        return tuple(fields)

    def _check_variable(self, name: str, line: int) -> None:
        if not any(name in scope for scope in self._scopes):
            raise TemplateError(line, name, "a variable that was never set")

    def _peek(self) -> TemplateToken | None:
        return self._words[self._place] if self._place < len(self._words) else None

    def _take(self, text: str) -> bool:
        word = self._peek()
        if word is None or word.text != text or word.kind in ("string", "raw"):
            return False
        self._place += 1
        return True


def _first(action: TemplateAction) -> str:
    return action.words[0].text if action.words and action.words[0].kind == "word" else ""


def _known_field(word: TemplateToken) -> str:
    name = word.text[1:]
    if name not in FIELDS:
        raise TemplateError(word.line, word.text, f"is no field; there are {', '.join(sorted(FIELDS))}")
    return name


def _whole(word: TemplateToken) -> int:
    try:
        return int(word.text, 0)
    except ValueError:
        raise TemplateError(word.line, word.text, "is no whole number") from None
