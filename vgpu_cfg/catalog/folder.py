"""A folder of board files, and which of them must be read for a question.

A file is named after the prefix of its profiles. Every other word (an alias, a key, a
PCI id) is looked for in the text of the files, and only those that hold it are taken
apart: reading all of them takes a quarter of a second, and a plan names one or two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from vgpu_cfg.catalog.board import Board


class BoardFolder(Mapping[str, Board]):
    """The boards by their key, in the order of the files.

    A file that is broken raises DocumentError when it is needed, and not before.
    """

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
        self._texts: dict[str, str] = {}
        self._boards: dict[str, Board] = {}
        self._found: dict[str, Board] = {}

    def __getitem__(self, key: str) -> Board:
        board = self.find(key)
        if board is None or board.key != key:
            raise KeyError(key)
        return board

    def __iter__(self) -> Iterator[str]:
        return (self._read(stem).key for stem in self._files)

    def __len__(self) -> int:
        return len(self._files)

    def find(self, name: str) -> Board | None:
        """Find a board by key, prefix or alias, whatever the case."""
        if name not in self._found:
            wanted = name.strip().casefold()
            stem = wanted.replace(" ", "_")
            likely = (
                self._read(guess)
                for guess in (stem, f"grid_{stem}", f"nvidia_{stem}")
                if guess in self._files
            )
            for board in chain(likely, self.holding(wanted)):
                names = (board.key, *board.prefixes, *(alias.key for alias in board.aliases))
                if wanted in {known.casefold() for known in names}:
                    self._found[name] = board
                    break
        return self._found.get(name)

    def with_prefix(self, prefix: str) -> Iterator[Board]:
        """Find the boards whose profiles have this prefix, their own or an alias's."""
        if prefix in self._files:
            yield self._read(prefix)
            return
        for board in self.holding(prefix):
            if prefix in board.prefixes:
                yield board

    def holding(self, word: str) -> Iterator[Board]:
        """Read the boards whose file holds this word, given in lower case, somewhere."""
        for stem, path in self._files.items():
            if stem not in self._texts:
                try:
                    self._texts[stem] = path.read_text(encoding="utf-8", errors="replace").casefold()
                except OSError:
                    self._read(stem)  # complains as about any document
                    raise
            if word in self._texts[stem]:
                yield self._read(stem)

    def _read(self, stem: str) -> Board:
        if stem not in self._boards:
            from vgpu_cfg.catalog.board_file import read_board  # YAML, once it is needed

            self._boards[stem] = read_board(self._files[stem])
        return self._boards[stem]
