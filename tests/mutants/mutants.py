"""What can be wrong: the small changes of functions that mutmut makes, and how one gets into a process."""

from __future__ import annotations

import difflib
import gc
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

DECORATOR = re.compile(r"(?m)^( *)@([\w.]+(?:\(.*\))?)$")
HIDDEN = re.compile(r"(?m)^( *)#@")

Living = Mapping[CodeType, Sequence[FunctionType]]
"""The functions that this process has, by their code."""


@dataclass(frozen=True)
class Mutant:
    """One change of one function; `number` counts those of the function.

    `lines` are the lines of the file that the change is in, from the first one of its statement.
    """

    path: Path
    function: str
    number: int
    lines: range
    module: cst.Module
    before: cst.CSTNode
    after: cst.CSTNode

    @property
    def name(self) -> str:
        return f"{self.path}:{self.function}:{self.number}"

    @cached_property
    def source(self) -> str:
        changed = self.module.deep_replace(self.before, self.after)
        assert isinstance(changed, cst.Module)
        return HIDDEN.sub(r"\1@", changed.code)

    @cached_property
    def diff(self) -> str:
        original = self.path.read_text(encoding="utf-8").splitlines()
        lines = difflib.unified_diff(original, self.source.splitlines(), lineterm="", n=2)
        return "\n".join(list(lines)[2:])

    @property
    def edit(self) -> list[str]:
        """The lines that go and those that come: the same after the function has moved."""
        return [line for line in self.diff.splitlines() if line[0] in "+-"]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Make the mutants of a file's functions and lambdas, in the order of the file."""
    # mutmut leaves out functions with a decorator, since it copies functions: it gets to see no decorator.
    shown = DECORATOR.sub(r"\1#@\2", path.read_text(encoding="utf-8"))
    wrapper = MetadataWrapper(cst.parse_module(shown))
    visitor = MutationVisitor(mutation_operators, IgnoredCode(set(), set(), set()))
    wrapper.visit(visitor)
    parents, positions = wrapper.resolve(ParentNodeProvider), wrapper.resolve(PositionProvider)
    numbers: Counter[str] = Counter()
    for mutation in visitor.mutations:
        above = [mutation.original_node]
        while above[-1] in parents:
            above.append(parents[above[-1]])
        bodies = [node.body for node in above if isinstance(node, cst.FunctionDef | cst.Lambda)]
        if not any(body in above for body in bodies) and not isinstance(above[0], cst.Lambda):
            continue  # it would be made when the module is loaded, and there only
        names = [node.name.value for node in above if isinstance(node, cst.FunctionDef | cst.ClassDef)]
        function = ".".join(reversed(names)) or "<lambda>"
        numbers[function] += 1
        whole = (cst.BaseStatement, cst.BaseSmallStatement, cst.Lambda)
        first = next(positions[node].start.line for node in above if isinstance(node, whole))
        last = next(positions[node].end.line for node in above if node in positions)
        yield Mutant(
            path=path,
            function=function,
            number=numbers[function],
            lines=range(first, last + 1),
            module=wrapper.module,
            before=mutation.original_node,
            after=mutation.mutated_node,
        )


def sample(mutants: Sequence[Mutant], seed: int, per_function: int) -> list[Mutant]:
    """Shuffle the mutants, and keep the first few of each function."""
    taken: Counter[tuple[Path, str]] = Counter()
    kept = []
    for mutant in random.Random(seed).sample(mutants, len(mutants)):
        taken[mutant.path, mutant.function] += 1
        if taken[mutant.path, mutant.function] <= per_function:
            kept.append(mutant)
    return kept


def living_functions(folder: Path) -> Living:
    """Find the functions of a folder's modules that this process has."""
    found: defaultdict[CodeType, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # what is frozen is not among the objects
    for thing in gc.get_objects():
        if type(thing) is FunctionType and Path(thing.__code__.co_filename).is_relative_to(folder):
            found[thing.__code__].append(thing)
    return found


def put_in(mutant: Mutant, living: Living) -> bool:
    """Give the mutant's code to the functions that it changes; False where none changes.

    Whoever holds a function has the changed one then, tables and decorators too.
    """
    path = str(mutant.path.resolve())
    original = compile(mutant.path.read_text(encoding="utf-8"), path, "exec", dont_inherit=True)
    return _swap(original, compile(mutant.source, path, "exec", dont_inherit=True), living)


def _swap(before: CodeType, after: CodeType, living: Living) -> bool:
    if before == after:
        return False
    functions = living.get(before, ())
    for function in functions:
        function.__code__ = after
    inner = [_swap(*pair, living) for pair in zip(_codes_in(before), _codes_in(after), strict=False)]
    return bool(functions) or any(inner)


def _codes_in(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]
