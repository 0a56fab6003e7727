"""Walks one module and finds each place that goes past a seam or shows a set's order.

Why: one clock read or one walk over a set in a thousand modules, and one seed is no longer one run.
Must never: know which module it looks at; exemptions are the caller's.
Rules: `testing#constructor-seams`.
"""

import ast
from dataclasses import dataclass

from tests.architecture.seam_kinds import Kind, Scope, import_table
from tests.architecture.seam_rules import (
    IMPORTS,
    LOOP_METHODS,
    NAMES,
    ORDERED_CONSUMERS,
    ORDERED_METHODS,
    OS_FREE,
    OS_OTHERS,
    PATH_METHODS_BY_NAME,
    PATH_METHODS_OF_PATHS,
    UNORDERED_CONSUMERS,
    Rule,
)

_LOOP_NAMES = ("loop", "_loop")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One place in one module."""

    path: str
    line: int
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}: {self.rule}"


def check_source(source: str, path: str) -> list[tuple[Rule, Finding]]:
    """Return every finding in a module's text, by line, exempt or not."""
    tree = ast.parse(source, filename=path)
    visitor = _Visitor(path, Scope(tree, None, import_table(tree)))
    visitor.visit(tree)
    return sorted(visitor.findings, key=lambda found: found[1])


class _Visitor(ast.NodeVisitor):
    def __init__(self, path: str, scope: Scope) -> None:
        self.findings: list[tuple[Rule, Finding]] = []
        self._path = path
        self._scope = scope
        self._harmless: set[int] = set()  # ids of what an order-blind consumer takes in

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if not self._check_import(node, node.module or "") and not self._check_import(node, full):
                self._check_name(node, full)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and node.id not in self._scope.imports:
            self._check_name(node, self._scope.qualified(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._scope.qualified(node)
        if name is not None and name.split(".")[0] != "self" and self._check_name(node, name):
            return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._scope.qualified(node.func)
        self._check_dynamic_import(node, name)
        if isinstance(node.func, ast.Attribute):
            self._check_method(node, node.func)
        if name in UNORDERED_CONSUMERS:
            if name in ("min", "max") and any(keyword.arg == "key" for keyword in node.keywords):
                self._check_order(node.args, f"{name} by a key, where ties fall as the set lies")
            self._harmless.update(map(id, node.args))
        elif name in ORDERED_CONSUMERS and id(node) not in self._harmless:
            self._check_order(node.args, f"{name}() of a set")
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._check_order([node.iter], "a loop over a set")
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        if id(node) not in self._harmless:
            self._check_order([node.value], "a set spread out")
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._harmless.update(map(id, node.elts))
        self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        self._check_order([node.value], "a set in a text")
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._check_order([node.value], "a set yielded")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            # A set of one has one order, so (only,) = some_set is fine.
            if isinstance(target, ast.Tuple | ast.List) and len(target.elts) > 1:
                self._check_order([node.value], "a set taken apart")
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._visit_comprehension(node, node.generators)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._visit_comprehension(node, node.generators)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._visit_comprehension(node, node.generators)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inside(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inside(node)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp, generators: list[ast.comprehension]
    ) -> None:
        if id(node) not in self._harmless:
            self._check_order([generator.iter for generator in generators], "a comprehension over a set")
        self._inside(node)

    def _inside(self, node: ast.AST) -> None:
        outer = self._scope
        self._scope = Scope(node, outer, outer.imports)
        self.generic_visit(node)
        self._scope = outer

    def _check_import(self, node: ast.AST, module: str) -> bool:
        parts = module.split(".")
        for length in range(len(parts), 0, -1):
            rule = IMPORTS.get(".".join(parts[:length]))
            if rule is not None:
                self._found(node, rule, f"import of {module}")
                return True
        return False

    def _check_dynamic_import(self, node: ast.Call, name: str | None) -> None:
        if name in ("__import__", "importlib.import_module") and node.args:
            match node.args[0]:
                case ast.Constant(value=str(module)):
                    self._check_import(node, module)

    def _check_name(self, node: ast.AST, name: str | None) -> bool:
        """Report a full name that stands for something outside; return whether it did."""
        if name is None:
            return False
        rule = NAMES.get(name)
        if rule is None and name.startswith("os.") and name not in OS_FREE and name != "os.path":
            rule = OS_OTHERS.get(name.split(".")[1], Rule.DISK)
        if rule is not None:
            self._found(node, rule, f"use of {name}")
        return rule is not None

    def _check_method(self, node: ast.Call, func: ast.Attribute) -> None:
        kind = self._scope.kind_of(func.value)
        if func.attr in PATH_METHODS_BY_NAME or (kind is Kind.PATH and func.attr in PATH_METHODS_OF_PATHS):
            self._found(node, Rule.DISK, f"call of .{func.attr}() on a path")
        named_loop = getattr(func.value, "id", getattr(func.value, "attr", None)) in _LOOP_NAMES
        if func.attr in LOOP_METHODS and (kind is Kind.LOOP or named_loop):
            self._found(node, LOOP_METHODS[func.attr], f"call of .{func.attr}() on an event loop")
        if func.attr in ORDERED_METHODS:
            self._check_order(node.args, f".{func.attr}() of a set")
        if kind is Kind.SET and func.attr == "pop":
            self._found(node, Rule.ORDER, "some element popped off a set")

    def _check_order(self, nodes: list[ast.expr], what: str) -> None:
        for node in nodes:
            if self._scope.kind_of(node) is Kind.SET:
                self._found(node, Rule.ORDER, what)

    def _found(self, node: ast.AST, rule: Rule, what: str) -> None:
        line = getattr(node, "lineno", 1)
        self.findings.append((rule, Finding(self._path, line, rule.value, what)))
