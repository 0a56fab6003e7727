"""Renders a parsed template with one context.

Must never: make a call, loop beyond its input, or keep state between renderings.
Rules: `operator#bootstrap`.
"""

from collections.abc import Sequence
from enum import Enum, auto

from bigfleet.operator.core.template.errors import RenderError
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
from bigfleet.operator.core.template.values import (
    TemplateContext,
    UnfitValueError,
    Value,
    call,
    field_of,
    is_true,
    shown,
)


class _Flow(Enum):
    ON = auto()
    BREAK = auto()
    CONTINUE = auto()


def render(nodes: Sequence[Node], context: TemplateContext) -> str:
    """Return the text of a template for a context; RenderError if it cannot be rendered."""
    rendering = _Rendering(context)
    rendering.walk(nodes, context)
    return "".join(rendering.out)


class _Rendering:
    def __init__(self, context: TemplateContext) -> None:
        self.out: list[str] = []
        self._variables: list[tuple[str, Value]] = [("$", context)]

    def walk(self, nodes: Sequence[Node], dot: Value) -> _Flow:
        for node in nodes:
            flow = self._node(node, dot)
            if flow is not _Flow.ON:
                return flow
        return _Flow.ON

    def _node(self, node: Node, dot: Value) -> _Flow:
        match node:
            case TextNode():
                self.out.append(node.text)
            case Show():
                value = self._pipeline(node.pipeline, dot)
                if not node.pipeline.variables:
                    self.out.append(shown(value))
            case Jump():
                return _Flow.BREAK if node.kind == "break" else _Flow.CONTINUE
            case Branch():
                mark = len(self._variables)
                flow = self._range(node, dot) if node.kind == "range" else self._choice(node, dot)
                del self._variables[mark:]
                return flow
        return _Flow.ON

    def _choice(self, node: Branch, dot: Value) -> _Flow:
        value = self._pipeline(node.pipeline, dot)
        if is_true(value):
            return self._scoped(node.body, value if node.kind == "with" else dot)
        return self._scoped(node.other, dot)

    def _range(self, node: Branch, dot: Value) -> _Flow:
        value = self._value(node.pipeline, dot)
        if value is not None and not isinstance(value, tuple):
            raise RenderError(node.pipeline.line, f"range cannot go over {shown(value)!r}")
        for place, item in enumerate(value or ()):
            mark = len(self._variables)
            names = node.pipeline.variables
            given: tuple[Value, ...] = (item,) if len(names) == 1 else (place, item)
            for name, each in zip(names, given, strict=False):
                self._set(name, each, assigns=node.pipeline.assigns)
            flow = self._scoped(node.body, item)
            if not node.pipeline.assigns:
                del self._variables[mark:]
            if flow is _Flow.BREAK:
                break
        if not value:
            return self._scoped(node.other, dot)
        return _Flow.ON

    def _scoped(self, nodes: Sequence[Node], dot: Value) -> _Flow:
        mark = len(self._variables)
        flow = self.walk(nodes, dot)
        del self._variables[mark:]
        return flow

    def _pipeline(self, pipeline: Pipeline, dot: Value) -> Value:
        value = self._value(pipeline, dot)
        for name in pipeline.variables:
            self._set(name, value, assigns=pipeline.assigns)
        return value

    def _value(self, pipeline: Pipeline, dot: Value) -> Value:
        value: Value = None
        for number, command in enumerate(pipeline.commands):
            try:
                value = self._command(command, dot, [value] if number else [])
            except UnfitValueError as problem:
                raise RenderError(command.line, str(problem)) from None
        return value

    def _command(self, command: TemplateCommand, dot: Value, passed: list[Value]) -> Value:
        first, *rest = command.operands
        if not isinstance(first, Function):
            if passed:
                raise UnfitValueError("something that is no function was given an argument")
            return self._operand(first, dot)
        if first.name in ("and", "or"):
            return self._junction(first.name, rest, dot, passed)
        return call(first.name, [*(self._operand(operand, dot) for operand in rest), *passed])

    def _junction(self, name: str, operands: Sequence[Operand], dot: Value, passed: list[Value]) -> Value:
        """Return the first argument that decides; later ones are not evaluated."""
        if not operands and not passed:
            raise UnfitValueError(f"{name}: of nothing")
        value: Value = None
        for operand in operands:
            value = self._operand(operand, dot)
            if is_true(value) == (name == "or"):
                return value
        return passed[0] if passed else value

    def _operand(self, operand: Operand, dot: Value) -> Value:
        match operand:
            case Constant():
                return operand.value
            case Function():
                return call(operand.name, []) if operand.name not in ("and", "or") else None
            case Chain():
                value = self._start(operand, dot)
                for name in operand.fields:
                    value = field_of(value, name)
                return value

    def _start(self, chain: Chain, dot: Value) -> Value:
        if chain.start is None:
            return dot
        if isinstance(chain.start, Pipeline):
            return self._pipeline(chain.start, dot)
        return next(value for name, value in reversed(self._variables) if name == chain.start)

    def _set(self, name: str, value: Value, *, assigns: bool) -> None:
        if not assigns:
            self._variables.append((name, value))
            return
        for place in range(len(self._variables) - 1, -1, -1):
            if self._variables[place][0] == name:
                self._variables[place] = (name, value)
                return
