"""Counts what the relay's code does, without a clock: its modules are compiled so that they count themselves.

Call `install` before anything of `stomprelay` is imported; `operations` then counts, in the code of the package:

- each call of a function, method, property or class, and each turn of a loop or comprehension;
- for what is written in C the length of every container that it is given or belongs to, where it may go through it
  (`sorted(each)`, `list(each)`, `each.remove(x)`, `[*each]`, `each[1:]`, `x in a_list`, `a_set | another`), and for a
  dict that is iterated the places of what was deleted from it, which the iteration passes;
- of bytes, one for 256 of them that are searched, split or copied.

It does not see what a C function does with things inside of its arguments, nor what regular expressions look at, nor
what is moved when a container grows or shrinks at its end, which is amortised.
"""

import ast
import gc
import importlib.machinery
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import BuiltinFunctionType, CodeType, MethodDescriptorType, ModuleType
from typing import Any, Final

operations = 0
"""How many there were."""

_VIEWS: Final[tuple[Any, ...]] = (type({}.keys()), type({}.values()), type({}.items()))
_CONTAINERS: Final = (list, dict, set, frozenset, tuple, deque, OrderedDict, Counter, *_VIEWS)
_CONSTANT: Final = frozenset(
    {len, isinstance, issubclass, id, type, bool, getattr, hasattr, callable, hash, range, heappop, heappush}
)
"""What does not go through its arguments, or only up to the logarithm of their length."""
_LINEAR: Final = frozenset(
    {
        "remove",
        "index",
        "count",
        "insert",
        "copy",
        "sort",
        "reverse",
        "rotate",
        "find",
        "rfind",
        "split",
        "translate",
    }
    | {
        "partition",
        "rpartition",
        "replace",
        "strip",
        "rstrip",
        "lstrip",
        "decode",
        "encode",
        "join",
        "rsplit",
    }
)
_HASHED: Final = (dict, set, frozenset, OrderedDict, Counter)
_BLOCK: Final = 256
_PLACE: Final = 128
"""No fewer bytes than a place in a dict takes, when it was just made larger."""


def _add(number: int) -> None:
    global operations  # noqa: PLW0603
    operations += number


def _length(value: object) -> int:
    """How much there is to go through."""
    if isinstance(value, bytes | bytearray | str):
        return len(value) // _BLOCK
    return _places(value) if type(value) in _CONTAINERS else 0


def _places(value: Any) -> int:
    """The length of a container; with the places of what was deleted from a dict."""
    if isinstance(value, _VIEWS):
        value = next(each for each in gc.get_referents(value) if isinstance(each, dict))
    if type(value) is dict:
        return max(len(value), sys.getsizeof(value) // _PLACE)
    return len(value)


def _holes(value: Any) -> int:
    """How many places of a dict hold nothing any more."""
    return _places(value) - len(value) if type(value) is dict or isinstance(value, _VIEWS) else 0


def _gone_through(owner: object, name: str, args: Sequence[Any]) -> int:
    """The length of what a method of `owner`, or a function, that is written in C may go through."""
    length = 0
    if isinstance(owner, bytes | bytearray | str):
        length = 0 if name in ("startswith", "endswith") else _length(owner)
    elif type(owner) is list and name == "pop" and args:
        length = len(owner)
    elif type(owner) in _CONTAINERS:
        if name in ("append", "add", "appendleft", "get", "pop", "setdefault"):
            return 0
        if name in _LINEAR and not isinstance(owner, _HASHED):
            length = _length(owner)
    return length + sum(map(_length, args))


def _counted_call(function: Any, *args: Any, **keywords: Any) -> Any:
    _add(1)
    kind = type(function)
    if (
        kind is BuiltinFunctionType
        or kind is MethodDescriptorType
        or (kind is type and not function.__module__.startswith("stomprelay"))
    ):
        owner = getattr(function, "__self__", None)
        if isinstance(owner, bytes | bytearray) and function.__name__ == "find":
            at = function(*args)
            start, stop = (*args[1:3], 0, len(owner))[:2] if len(args) != 2 else (args[1], len(owner))
            _add(((at if at >= 0 else stop) - start) // _BLOCK)
            return at
        if function is iter:
            _add(
                _places(args[0]) - len(args[0]) if type(args[0]) is dict or isinstance(args[0], _VIEWS) else 0
            )
        elif function not in _CONSTANT:
            _add(_gone_through(owner, getattr(function, "__name__", ""), args))
    return function(*args, **keywords)


def _counted_iteration(values: Iterable[Any]) -> Iterator[Any]:
    _add(_holes(values))
    for each in values:
        _add(1)
        yield each


def _counted_slice(value: Any, part: Any) -> Any:
    result = value[part]
    _add(1 + _length(result))
    return result


def _counted_operand(value: Any) -> Any:
    _add(_length(value))
    return value


def _counted_search(value: Any) -> Any:
    if not isinstance(value, _HASHED):
        _add(_length(value))
    return value


def _counted_entry() -> None:
    _add(1)


_NAMES: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each
    for each in (
        _counted_call,
        _counted_iteration,
        _counted_slice,
        _counted_operand,
        _counted_search,
        _counted_entry,
    )
}
_OPERATORS: Final = (ast.Add, ast.Sub, ast.BitOr, ast.BitAnd, ast.BitXor)


def _asked(name: Callable[..., Any], *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name.__name__, ast.Load()), list(args), [])


class _Counted(ast.NodeTransformer):
    """Makes the code of a module count itself."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Every call but `super()`, which looks at its caller."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node
        return ast.Call(ast.Name(_counted_call.__name__, ast.Load()), [node.func, *node.args], node.keywords)

    def visit_For(self, node: ast.For) -> ast.AST:
        """Each turn of a loop."""
        self.generic_visit(node)
        node.iter = _asked(_counted_iteration, node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Each turn of a comprehension."""
        self.generic_visit(node)
        node.iter = _asked(_counted_iteration, node.iter)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        """What a container is made of."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _asked(_counted_iteration, node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Slices."""
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Slice) or not isinstance(node.ctx, ast.Load):
            return node
        none = ast.Constant(None)
        bounds = [node.slice.lower or none, node.slice.upper or none, node.slice.step or none]
        return _asked(
            _counted_slice, node.value, ast.Call(ast.Name("slice", ast.Load()), list[ast.expr](bounds), [])
        )

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Containers that are added, joined or cut."""
        self.generic_visit(node)
        if isinstance(node.op, _OPERATORS):
            node.left, node.right = _asked(_counted_operand, node.left), _asked(_counted_operand, node.right)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """What a container is extended by."""
        self.generic_visit(node)
        if isinstance(node.op, _OPERATORS):
            node.value = _asked(_counted_operand, node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Lists that are searched, and containers that are compared."""
        self.generic_visit(node)
        for at, operator in enumerate(node.ops):
            if isinstance(operator, ast.In | ast.NotIn):
                node.comparators[at] = _asked(_counted_search, node.comparators[at])
            elif isinstance(operator, ast.Eq | ast.NotEq | ast.LtE | ast.GtE | ast.Lt | ast.Gt):
                node.comparators[at] = _asked(_counted_operand, node.comparators[at])
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Functions that are called by C, properties among them."""
        self.generic_visit(node)
        node.body.insert(bool(ast.get_docstring(node)), ast.Expr(_asked(_counted_entry)))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """The same without a name."""
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.Or(), [_asked(_counted_entry), node.body])
        return node


class _Loader(SourceFileLoader):
    """Compiles without the cache of compiled modules, which is for others."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = _Counted().visit(ast.parse(self.get_data(path)))
        return compile(ast.fix_missing_locations(tree), path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_NAMES)
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("stomprelay."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install() -> None:
    """Count from now on, in modules of the package that were not imported yet."""
    assert not any(name.startswith("stomprelay.") for name in sys.modules)
    sys.meta_path.insert(0, _Finder())


def counted(act: Callable[[], object]) -> int:
    """Return how many operations a call of `act` takes."""
    before = operations
    act()
    return operations - before
