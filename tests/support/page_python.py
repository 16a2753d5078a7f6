"""Programs of the documentation, read without running them: syntax, imports, names, calls."""

import ast
import builtins
import importlib
import importlib.util
import inspect
from collections.abc import Iterator, Set
from typing import Any

import pyromq

_OURS = ("pyromq", "pyspark_rocketmq")


def faults_of(text: str, known: Set[str]) -> list[str]:
    """Return what is wrong with a program; `known` are names that stand for what the reader has."""
    try:
        tree = ast.parse(text.replace("…", "..."))
        compile(tree, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    imported: dict[str, Any] = {}
    faults = [*_import_faults(tree, imported)]
    # A page that has shown the import once does not repeat it.
    values = {name: getattr(pyromq, name) for name in pyromq.__all__} | imported
    unknown = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - (
        names_made(tree) | known | set(values) | set(dir(builtins))
    )
    faults += [f"nobody says what {name} is" for name in sorted(unknown)]
    return faults + _call_faults(tree, values)


def names_made(tree: ast.AST) -> set[str]:
    """Return the names that a program makes."""
    made: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            made.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            made.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            made.update((one.asname or one.name).partition(".")[0] for one in node.names)
    return made


def _import_faults(tree: ast.AST, imported: dict[str, Any]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _OURS:
            module = importlib.import_module(node.module or "")
            for one in node.names:
                if not hasattr(module, one.name):
                    yield f"{node.module} has no {one.name}"
                else:
                    imported[one.asname or one.name] = getattr(module, one.name)
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] in _OURS and importlib.util.find_spec(one.name) is None:
                    yield f"there is no {one.name}"


def _call_faults(tree: ast.AST, values: dict[str, Any]) -> list[str]:
    """Return calls of what the page imports, and of its instances, that take no such arguments."""
    kinds = dict(_instances(tree, values))
    faults = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and callable(values.get(called.id)):
            faults += _argument_faults(node, values[called.id], called.id, is_method=False)
        elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            kind = kinds.get(called.value.id)
            if kind is None:
                continue
            if not hasattr(kind, called.attr):
                faults.append(f"{kind.__name__} has no {called.attr}")
            else:
                faults += _argument_faults(node, getattr(kind, called.attr), called.attr, is_method=True)
    return faults


def _instances(tree: ast.AST, values: dict[str, Any]) -> Iterator[tuple[str, type]]:
    for node in ast.walk(tree):
        made: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            made.append((node.targets[0], node.value))
        elif isinstance(node, ast.With | ast.AsyncWith):
            made += [(item.optional_vars, item.context_expr) for item in node.items]
        for target, value in made:
            if (
                isinstance(target, ast.Name)
                and isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and isinstance(kind := values.get(value.func.id), type)
            ):
                yield target.id, kind


def _argument_faults(node: ast.Call, called: Any, name: str, *, is_method: bool) -> list[str]:
    if any(isinstance(one, ast.Starred) for one in node.args) or any(
        one.arg is None for one in node.keywords
    ):
        return []
    given = [None] * (len(node.args) + is_method)
    # The way in which a page leaves out what the reader knows: send(…).
    if node.args and isinstance(node.args[-1], ast.Constant) and node.args[-1].value is ...:
        return []
    try:
        inspect.signature(called).bind(*given, **{one.arg or "": None for one in node.keywords})
    except TypeError as error:
        return [f"{name}: {error}"]
    except ValueError:
        pass
    return []
