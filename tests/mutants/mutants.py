"""What can be wrong: the small changes of functions that mutmut makes, one at a time."""

from __future__ import annotations

import difflib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

DECORATOR = re.compile(r"(?m)^( *)@([\w.]+(?:\(.*\))?)$")
HIDDEN = re.compile(r"(?m)^( *)#@")


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
