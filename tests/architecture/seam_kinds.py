"""What can be known cheaply of a value's kind from the text of one module: a set, a path, an event loop, or nothing.

Why: the seam check has no types; most sets, paths and loops can be told by how the name was annotated or made.
Must never: guess. A name bound to different kinds has none, and so has all that comes from another module.
Rules: `testing#constructor-seams`.
"""

import ast
import enum
from collections.abc import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Kind(enum.Enum):
    SET = "set"
    PATH = "path"
    LOOP = "loop"


_TYPES = {
    **dict.fromkeys(
        ("set", "frozenset", "typing.Set", "typing.FrozenSet", "typing.AbstractSet", "typing.MutableSet"),
        Kind.SET,
    ),
    **dict.fromkeys(("collections.abc.Set", "collections.abc.MutableSet", "weakref.WeakSet"), Kind.SET),
    **dict.fromkeys(("pathlib.Path", "pathlib.PosixPath"), Kind.PATH),
    **dict.fromkeys(("asyncio.AbstractEventLoop", "asyncio.BaseEventLoop"), Kind.LOOP),
}
_MAKERS = {
    **_TYPES,
    "asyncio.all_tasks": Kind.SET,
    **dict.fromkeys(
        ("asyncio.get_event_loop", "asyncio.get_running_loop", "asyncio.new_event_loop"), Kind.LOOP
    ),
    **dict.fromkeys(("pathlib.Path.cwd", "pathlib.Path.home"), Kind.PATH),
}
_WRAPPERS = ("typing.Final", "typing.ClassVar", "typing.Annotated", "typing.Optional", "typing.Union")
_METHODS_THAT_KEEP = {
    Kind.SET: {"copy", "difference", "intersection", "symmetric_difference", "union"},
    Kind.PATH: {"absolute", "expanduser", "joinpath", "resolve", "with_name", "with_stem", "with_suffix"},
    Kind.LOOP: set[str](),
}
_SET_OPERATORS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)

Binding = tuple[
    "Scope", ast.expr | None, ast.expr | None, Kind | None
]  # where, annotation, value, known kind


class Scope:
    """The names of one function, class, comprehension or module, and how each was bound."""

    def __init__(self, node: ast.AST, parent: "Scope | None", imports: dict[str, str]) -> None:
        self.node, self.parent, self.imports = node, parent, imports
        self.bindings: dict[str, list[Binding]] = {}
        self.attributes: dict[str, list[Binding]] = {}
        self._asked: dict[str, Kind | None] = {}
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            self._bind_arguments(node.args)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            for generator in node.generators:
                self._bind_target(generator.target, None)
        elif not isinstance(node, ast.Lambda):
            for child in own_nodes(node):
                self._bind(child)
        if isinstance(node, ast.ClassDef):
            self._bind_attributes(node)

    def qualified(self, node: ast.expr) -> str | None:
        """Return the full name that an expression stands for, through the imports; a plain builtin as itself."""
        if isinstance(node, ast.Attribute):
            owner = self.qualified(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        scope: Scope | None = self
        while scope is not None:
            if node.id in scope.bindings and not isinstance(scope.node, ast.ClassDef):
                return None
            scope = scope.parent
        return self.imports.get(node.id, node.id)

    def kind_of(self, node: ast.expr) -> Kind | None:
        """Return the kind of an expression's value, as far as it is plain."""
        match node:
            case ast.Set() | ast.SetComp():
                return Kind.SET
            case ast.Name(id=name):
                return self._kind_of_name(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self._kind_of_attribute(name)
            case ast.Attribute(value=value, attr="parent"):
                return Kind.PATH if self.kind_of(value) is Kind.PATH else None
            case ast.Call(func=func):
                return self._kind_of_call(func)
            case ast.BinOp(left=left, op=ast.Div()):
                return Kind.PATH if self.kind_of(left) is Kind.PATH else None
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _SET_OPERATORS):
                return Kind.SET if self._is_set_like(left) or self._is_set_like(right) else None
            case ast.IfExp(body=first, orelse=second):
                return self.kind_of(first) or self.kind_of(second)
            case ast.BoolOp(values=values):
                return next((kind for kind in map(self.kind_of, values) if kind), None)
            case ast.NamedExpr(value=value):
                return self.kind_of(value)
            case _:
                return None

    def kind_of_annotation(self, node: ast.expr) -> Kind | None:
        """Return the kind that an annotation promises; of a union, of any part."""
        match node:
            case ast.Constant(value=str(text)):
                return self.kind_of_annotation(ast.parse(text, mode="eval").body)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.kind_of_annotation(left) or self.kind_of_annotation(right)
            case ast.Subscript(value=value, slice=inner) if self.qualified(value) in _WRAPPERS:
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                if self.qualified(value) == "typing.Annotated":
                    parts = parts[:1]  # what follows the type is no type
                return next((kind for kind in map(self.kind_of_annotation, parts) if kind), None)
            case ast.Subscript(value=value):
                return _TYPES.get(self.qualified(value) or "")
            case ast.Name() | ast.Attribute():
                return _TYPES.get(self.qualified(node) or "")
            case _:
                return None

    def _kind_of_call(self, func: ast.expr) -> Kind | None:
        made = _MAKERS.get(self.qualified(func) or "")
        if made is None and isinstance(func, ast.Subscript):  # set[str]()
            made = _TYPES.get(self.qualified(func.value) or "")
        if made is None and isinstance(func, ast.Attribute):
            owner = self.kind_of(func.value)
            made = owner if owner is not None and func.attr in _METHODS_THAT_KEEP[owner] else None
        return made

    def _is_set_like(self, node: ast.expr) -> bool:
        # Views of dictionaries are ordered, but what the operators make of them is a set.
        views = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("keys", "items")
        )
        return views or self.kind_of(node) is Kind.SET

    def _kind_of_name(self, name: str) -> Kind | None:
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings:
                return scope._kind_bound(name, scope.bindings)
            scope = scope.parent
        return None

    def _kind_of_attribute(self, name: str) -> Kind | None:
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return None if scope is None else scope._kind_bound(name, scope.attributes)

    def _kind_bound(self, name: str, table: dict[str, list[Binding]]) -> Kind | None:
        key = f"{name}{'.' if table is self.attributes else ''}"
        if key not in self._asked:
            self._asked[key] = None  # a name that hangs on itself, as in x = x | y, gets no kind from that
            kinds = [_kind_of_binding(binding) for binding in table.get(name, ())]
            if kinds and all(kind is kinds[0] for kind in kinds):
                self._asked[key] = kinds[0]
        return self._asked[key]

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind_target(target, value)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                self._add(name, annotation, value)
            case ast.NamedExpr(target=target, value=value):
                self._bind_target(target, value)
            case ast.For(target=target) | ast.AsyncFor(target=target):
                self._bind_target(target, None)
            case ast.withitem(optional_vars=ast.expr() as target):
                self._bind_target(target, None)
            case (
                ast.FunctionDef(name=str(name))
                | ast.AsyncFunctionDef(name=str(name))
                | ast.ClassDef(name=str(name))
            ):
                self._add(name, None, None)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                self._add(name, None, None)

    def _bind_target(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._add(target.id, None, value)
        elif isinstance(target, ast.Tuple | ast.List):
            parts: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple) and len(value.elts) == len(parts):
                parts = list(value.elts)
            known = Kind.SET if self._is_asyncio_wait(value) else None
            for element, part in zip(target.elts, parts, strict=True):
                if known is not None and isinstance(element, ast.Name):
                    self.bindings.setdefault(element.id, []).append((self, None, None, known))
                else:
                    self._bind_target(element, part)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, None)

    def _is_asyncio_wait(self, value: ast.expr | None) -> bool:
        match value:
            case ast.Await(value=ast.Call(func=func)):
                return self.qualified(func) == "asyncio.wait"
            case _:
                return False

    def _bind_arguments(self, arguments: ast.arguments) -> None:
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._add(argument.arg, argument.annotation, None)
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                self._add(rest.arg, None, None)

    def _bind_attributes(self, node: ast.ClassDef) -> None:
        for name, bindings in self.bindings.items():
            if not any(isinstance(child, _FUNCTIONS) and child.name == name for child in node.body):
                self.attributes.setdefault(name, []).extend(bindings)
        for method in (child for child in node.body if isinstance(child, _FUNCTIONS)):
            scope = Scope(method, self, self.imports)
            for child in own_nodes(method):
                match child:
                    case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                        self.attributes.setdefault(name, []).append(
                            (scope, child.annotation, child.value, None)
                        )
                    case ast.Assign(targets=targets, value=value):
                        for target in targets:
                            self._bind_attribute(scope, target, value)

    def _bind_attribute(self, scope: "Scope", target: ast.expr, value: ast.expr | None) -> None:
        match target:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                known = self.attributes.setdefault(name, [])
                # A plain assignment to what the class annotates cannot change its kind; the type checker sees to that.
                if not any(annotation is not None for _, annotation, _, _ in known):
                    known.append((scope, None, value, None))
            case ast.Tuple(elts=elements):
                parts = (
                    value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(elements) else None
                )
                for position, element in enumerate(elements):
                    self._bind_attribute(scope, element, parts[position] if parts else None)

    def _add(self, name: str, annotation: ast.expr | None, value: ast.expr | None) -> None:
        self.bindings.setdefault(name, []).append((self, annotation, value, None))


def _kind_of_binding(binding: Binding) -> Kind | None:
    scope, annotation, value, known = binding
    if known is None and annotation is not None:
        known = scope.kind_of_annotation(annotation)
    if known is None and value is not None:
        known = scope.kind_of(value)
    return known


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield everything inside a scope that does not belong to a scope within it; inner definitions themselves included."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from own_nodes(child)


def import_table(tree: ast.Module) -> dict[str, str]:
    """Return what every imported name of a module stands for."""
    table: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                table[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            table.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return table
