"""Which names are bound on every path to a statement: a conservative definite-assignment analysis.

A set of names stands for "bound whenever control is here"; None stands for "control never gets here".
Where in doubt a name is unbound: a loop may run zero times, a `with` may swallow an exception from any point of
its body, a handler may be entered before the first statement of its `try`.
"""

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from kvscope.vllm import anchors
from kvscope.vllm.anchors import FunctionNode

State = frozenset[str] | None
Found = dict[ast.stmt, frozenset[str]]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound_names(tree: ast.Module, wanted: Iterable[ast.stmt]) -> Found:
    """For each wanted statement the names, local to global, that are bound on every path to it."""
    targets = set(wanted)
    module = _Flow(set())
    end = module.block(tree.body, frozenset()) or frozenset()
    visible = (end - _unbinds(anchors.statements(tree))) | (frozenset(dir(builtins)) - _assigned(tree.body))
    found: Found = {}
    for function, outer in _functions(tree.body):
        if outer is None and _holds(function, targets):
            _function(function, visible, targets, found)
    return found


def _holds(function: FunctionNode, targets: set[ast.stmt]) -> bool:
    last = function.end_lineno or function.lineno
    return any(function.lineno <= target.lineno <= last for target in targets)


def _function(node: FunctionNode, visible: frozenset[str], targets: set[ast.stmt], found: Found) -> None:
    parameters = _parameters(node.args)
    own = _assigned(node.body) | parameters
    inherited = visible - (own - _declared(node.body, ast.Nonlocal)) - _declared(node.body, ast.Global)
    inner = [f for f, outer in _functions(node.body) if outer is None]
    flow = _Flow(targets | set(inner))
    flow.block(node.body, inherited | parameters)
    stolen = frozenset().union(*(_deleted(f.body) & _declared(f.body, ast.Nonlocal) for f in inner))
    found.update({s: names - stolen for s, names in flow.found.items() if s in targets})
    unsafe = _deleted(node.body) | stolen
    for nested in inner:
        # A closure runs later than its definition: what is bound by then stays so unless something deletes it.
        state = flow.found.get(nested, frozenset())
        _function(nested, (state | {nested.name}) - unsafe, targets, found)


def _functions(body: Sequence[ast.stmt]) -> Iterator[tuple[FunctionNode, FunctionNode | None]]:
    """The functions of a scope, methods of its classes included; those inside them come with the outer one."""

    def walk(node: ast.AST, outer: FunctionNode | None) -> Iterator[tuple[FunctionNode, FunctionNode | None]]:
        if isinstance(node, FunctionNode):
            yield node, outer
            outer = node
        for child in anchors.parts(node):
            yield from walk(child, outer)

    for statement in body:
        yield from walk(statement, None)


def _parameters(args: ast.arguments) -> frozenset[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return frozenset(a.arg for a in every if a is not None)


def _scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of one scope: nested definitions are given, but not entered."""
    for node in nodes:
        yield node
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, _COMPREHENSIONS):
            # Its targets are its own; a walrus in it binds out here.
            yield from (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
            continue
        yield from _scope(ast.iter_child_nodes(node))


def _assigned(body: Iterable[ast.AST]) -> frozenset[str]:
    """Names that the scope binds or deletes anywhere: these are its locals."""
    return frozenset(name for node in _scope(body) for name in _binds(node))


def _binds(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.NamedExpr(target=ast.Name(id=name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.split(".")[0] for alias in names)


def _declared(body: Iterable[ast.AST], kind: type[ast.Global] | type[ast.Nonlocal]) -> frozenset[str]:
    return frozenset(n for node in _scope(body) if isinstance(node, kind) for n in node.names)


def _deleted(body: Iterable[ast.AST]) -> frozenset[str]:
    """Names that some statement of the scope unbinds."""
    return _unbinds(_blocks(body))


def _blocks(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements of one scope, nested definitions not entered."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _blocks(anchors.parts(node))


def _unbinds(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names that `del` takes away, and those of handlers, which are unbound when the handler ends."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Delete):
            names |= _assigned([node])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return frozenset(names)


def _meet(*states: State) -> State:
    reached = [s for s in states if s is not None]
    return frozenset.intersection(*reached) if reached else None


def _certain(node: ast.AST | None) -> frozenset[str]:
    """Names that a walrus binds whenever the expression is evaluated to its end."""
    if node is None or isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
        return frozenset()
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    own: frozenset[str] = frozenset()
    match node:
        case ast.NamedExpr(target=ast.Name(id=name)):
            own = frozenset({name})
        case ast.BoolOp(values=[first, *_]):
            children = [first]
        case ast.IfExp(test=test):
            children = [test]
        case ast.Compare(left=left, comparators=[second, *_]):
            children = [left, second]
    return own.union(*(_certain(child) for child in children))


def _always(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


class _Flow:
    """Walks the statements of one scope and notes the state before each wanted one."""

    def __init__(self, wanted: set[ast.stmt]) -> None:
        self.found: Found = {}
        self._wanted = wanted
        self._breaks: list[State] = []

    def block(self, body: Sequence[ast.stmt], state: State) -> State:
        """The state after `body`, given the state before it."""
        for statement in body:
            if state is not None and statement in self._wanted:
                before = self.found.get(statement, state)
                self.found[statement] = before & state
            state = self._statement(statement, state) if state is not None else None
        return state

    def _statement(self, node: ast.stmt, state: frozenset[str]) -> State:
        handler = self._handlers.get(type(node))
        if handler is not None:
            return handler(self, node, state)
        named = frozenset(name for part in _scope([node]) for name in _binds(part))
        named -= frozenset(n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return state
        return state | named | _certain(node)

    def _delete(self, node: ast.stmt, state: frozenset[str]) -> State:
        return state - _assigned([node])

    def _assert(self, node: ast.stmt, state: frozenset[str]) -> State:
        return state  # `python -O` evaluates nothing of it

    def _leave(self, node: ast.stmt, state: frozenset[str]) -> State:
        return None

    def _break(self, node: ast.stmt, state: frozenset[str]) -> State:
        self._breaks[-1] = _meet(self._breaks[-1], state)
        return None

    def _if(self, node: ast.If, state: frozenset[str]) -> State:
        state |= _certain(node.test)
        return _meet(self.block(node.body, state), self.block(node.orelse, state))

    def _while(self, node: ast.While, state: frozenset[str]) -> State:
        head = (state - _deleted([node])) | _certain(node.test)
        left = None if _always(node.test) else head
        return self._loop(node, head, left)

    def _for(self, node: ast.For | ast.AsyncFor, state: frozenset[str]) -> State:
        state |= _certain(node.iter)
        head = state - _deleted([node])
        return self._loop(node, head | _assigned([node.target]), head)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, inside: frozenset[str], left: State) -> State:
        """`inside`: at the body's start; `left`: when the loop ends by itself."""
        self._breaks.append(None)
        self.block(node.body, inside)
        broken = self._breaks.pop()
        return _meet(broken, self.block(node.orelse, left) if left is not None else None)

    def _with(self, node: ast.With | ast.AsyncWith, state: frozenset[str]) -> State:
        for item in node.items:
            state |= _certain(item.context_expr)
            if item.optional_vars is not None:
                state |= _assigned([item.optional_vars])
        return _meet(self.block(node.body, state), state - _deleted(node.body))

    def _try(self, node: ast.Try | ast.TryStar, state: frozenset[str]) -> State:
        raised = state - _deleted(node.body)
        body = self.block(node.body, state)
        ends = [self.block(node.orelse, body) if body is not None else None]
        for handler in node.handlers:
            named = frozenset({handler.name} if handler.name else ())
            end = self.block(handler.body, raised | named)
            ends.append(None if end is None else end - named)
        # A `break` goes through `finally`, and out of a handler it unbinds the handler's name.
        unbound = _deleted([*node.handlers, *node.finalbody])
        self._breaks = [None if broken is None else broken - unbound for broken in self._breaks]
        self.block(node.finalbody, raised - _deleted([*node.handlers, *node.orelse]))
        end = _meet(*ends)
        return self.block(node.finalbody, end) if end is not None else None

    def _match(self, node: ast.Match, state: frozenset[str]) -> State:
        state |= _certain(node.subject)
        ends: list[State] = []
        for case in node.cases:
            inside = state | _assigned([case.pattern])
            ends.append(self.block(case.body, inside | _certain(case.guard)))
        last = node.cases[-1]
        exhaustive = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        return _meet(*ends, None if exhaustive else state)

    def _define(self, node: FunctionNode | ast.ClassDef, state: frozenset[str]) -> State:
        return state | {node.name}

    _handlers: ClassVar[dict[type[ast.stmt], Callable[..., State]]] = {
        ast.Delete: _delete,
        ast.Assert: _assert,
        ast.Return: _leave,
        ast.Raise: _leave,
        ast.Continue: _leave,
        ast.Break: _break,
        ast.If: _if,
        ast.While: _while,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Try: _try,
        ast.TryStar: _try,
        ast.Match: _match,
        ast.ClassDef: _define,
        ast.FunctionDef: _define,
        ast.AsyncFunctionDef: _define,
    }
