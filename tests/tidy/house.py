"""What the house looks like in numbers: ``python -m tests.tidy.house`` prints them, for a look before and after a step.

They are no gates. Each stands for something that made the code harder to change, and says so in its line.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from tests.tidy.source import Module, imports, modules

SMALL_LINES = 60
ARGUMENTS = 9
SERVICE = "services/broker/service.py"
MODE = re.compile(
    r"\.(enable_controller_mode|leased|shows_confirmed|compares_logs|handshake)\b|isinstance\(.*(Mode|Replication)\)"
)
"""How a line asks which replication mode this is."""


def lines(source: Module) -> int:
    """Lines of its text."""
    return source.text.count("\n")


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many a caller gives: without self and cls."""
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def wide_functions(source: Module) -> Iterator[str]:
    """Functions, constructors among them, that take many arguments."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and arguments(node) >= ARGUMENTS:
            yield f"{source.path}:{node.lineno} {node.name} takes {arguments(node)}"


def assigned_from_outside(source: Module) -> Iterator[str]:
    """Attributes of other objects that are assigned: ``self.other.name = ...``, ``other.name = ...``."""
    for node in ast.walk(source.tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) not in ("self", "cls"):
                yield f"{source.path}:{target.lineno} {ast.unparse(target)}"


def circles(sources: list[Module]) -> list[list[str]]:
    """Groups of modules that import each other, by way of others too; Tarjan's strongly connected components."""
    names = {source.name for source in sources}
    graph: dict[str, set[str]] = {source.name: set() for source in sources}
    for source in sources:
        for _, name in imports(source):
            target = name if name in names else name.rpartition(".")[0]
            if target in names and target != source.name:
                graph[source.name].add(target)
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        path.append(name)
        for target in graph[name]:
            if target not in number:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in path:
                low[name] = min(low[name], number[target])
        if low[name] == number[name]:
            group = path[path.index(name) :]
            del path[path.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in number:
            visit(name)
    return found


def counts(sources: list[Module]) -> dict[str, int]:
    """Every number, by what it counts."""
    rooms = [source for source in sources if source.path.startswith(("services/", "broker/"))]
    service = [source for source in sources if source.path == SERVICE]
    return {
        "files of src/rocketha": len(sources),
        "lines of src/rocketha": sum(map(lines, sources)),
        f"modules of under {SMALL_LINES} lines": len([source for source in sources if 0 < lines(source) < SMALL_LINES]),
        "files of services/ and broker/": len(rooms),
        "modules of ours that BrokerService's imports": len(
            {
                name.rpartition(".")[0]
                for source in service
                for _, name in imports(source)
                if name.startswith("rocketha.")
            }
        ),
        f"functions with {ARGUMENTS} or more arguments": sum(len(list(wide_functions(each))) for each in sources),
        "# fmt: skip": sum(source.text.count("# fmt: skip") for source in sources),
        "attributes assigned from outside": sum(len(list(assigned_from_outside(each))) for each in sources),
        "circles of imports": len(circles(sources)),
        "lines that ask for the replication mode": sum(
            len([line for line in source.text.splitlines() if MODE.search(line)]) for source in rooms
        ),
    }


def main() -> None:
    """Print them, and the circles."""
    sources = modules()
    for what, count in counts(sources).items():
        sys.stdout.write(f"{count:8,}  {what}\n")
    for group in circles(sources):
        sys.stdout.write(f"circle: {', '.join(group)}\n")


if __name__ == "__main__":
    main()
