"""This project's questions about boards: the facts of a profile, and the owner of these PCI ids.

A file is named after the prefix of its profiles. Every other word (an alias, a key, a PCI id) is looked for
in the text of the files, and only those that hold it are taken apart: reading all of them takes a quarter of
a second, and a plan names one or two.

A profile that no table lists may follow from those that are listed. NVIDIA documents the C types board by
board. Desktops on the same GPUs use A, B and Q types, whose sizes follow the same arithmetic. How many of one
fit a GPU is known where a board's file says it (`other_series`); elsewhere the room in its framebuffer is no
more than a bound, and the entry says so: the RTX PRO 4500 takes fewer than would fit.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.catalog.board import Board, ProfileEntry
from vgpu_cfg.catalog.data_files import data_path
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.model.wording import listed

if TYPE_CHECKING:
    from vgpu_cfg.model.observed.inventory import PciDevice


NVIDIA = 0x10DE
"""The PCI vendor of every board here."""


@cache
def load_catalog() -> Catalog:
    """Return the catalogue that comes with the program; no board is read before it is asked for."""
    return Catalog.from_folder(data_path())


class Catalog:
    """Boards, each read when it is first needed; the answers are remembered."""

    def __init__(self, folder: BoardFolder) -> None:
        self._folder = folder
        self._entries: dict[str, tuple[ProfileEntry, ...]] = {}
        self._by_pci: dict[tuple[int, int | None], Board | None] = {}

    @classmethod
    def from_folder(cls, folder: str | Path) -> Catalog:
        """Take the boards from another folder."""
        return cls(BoardFolder(Path(folder)))

    @property
    def boards(self) -> Mapping[str, Board]:
        """Every board by its key; one that is asked for is read, all of them when they are iterated over."""
        return self._folder

    def board(self, name: str) -> Board:
        """Return the board with this key, prefix or alias, whatever the case; else KeyError with advice."""
        if (found := self._folder.find(name)) is not None:
            return found
        known = {key.casefold(): key for key in self.boards}
        close = [known[word] for word in difflib.get_close_matches(name.casefold(), known, n=3)]
        advice = f"did you mean {' or '.join(close)}?" if close else "see `vgpu-cfg profiles`"
        raise KeyError(f"board {name!r} is not in the catalog: {advice}")

    def matching(self, pattern: str) -> list[Board]:
        """Return the boards whose key is the pattern, else those that it is a glob or a part of.

        If the key is also the product's name, as A100, its other forms and sizes are included.
        """
        folded = pattern.casefold()
        exact = [board for key, board in self.boards.items() if key.casefold() == folded]
        if any(_is_product(folded, board) for board in exact):
            return [board for board in self.boards.values() if _is_product(folded, board)]
        if exact:
            return exact
        glob = folded if any(sign in folded for sign in "*?[") else f"*{folded}*"
        return [
            board
            for board in self.boards.values()
            if any(fnmatchcase(text.casefold(), glob) for text in (board.key, board.prefix, *board.names))
        ]

    def by_profile(self, name: str | VgpuProfile) -> tuple[ProfileEntry, ...]:
        """Return the facts of a profile of any series; empty if no board has it, or it is no vGPU name.

        The entry keeps the requested name, also if it is an alias's.
        """
        text = str(name)
        if text not in self._entries:
            self._entries[text] = tuple(self._resolve(text))
        return self._entries[text]

    def by_pci(self, vendor_id: int, device_id: int, subsystem_id: int | None = None) -> Board | None:
        """Return the board with these ids; they may be signed shorts, as vSphere gives them.

        The subsystem decides only if two boards share a device id. If it must decide and does not, the answer
        is None.
        """
        if vendor_id & 0xFFFF != NVIDIA:
            return None
        ids = (device_id & 0xFFFF, None if subsystem_id is None else subsystem_id & 0xFFFF)
        if ids not in self._by_pci:
            self._by_pci[ids] = self._find_by_pci(*ids)
        return self._by_pci[ids]

    def of_device(self, device: PciDevice) -> Board | None:
        """Return the board of a PCI device, None if it is none of the catalog's."""
        return self.by_pci(device.vendor_id, device.device_id, device.subsystem_id)

    def without(self, names: Sequence[str]) -> tuple[str, str]:
        """Return the message that no board has any of these profiles, and its remedy."""
        close = [name for wrong in names for name in self.suggest(wrong)][:3]
        remedy = (
            f"did you mean {' or '.join(close)}?"
            if close
            else "run `vgpu-cfg profiles` to list all known profiles"
        )
        return f"no known board supports the profile {listed(names)}", remedy

    def suggest(self, text: str) -> list[str]:
        """Return at most three listed profile names close to a wrong one, the closest first.

        For a size that a board does not offer these are its nearest sizes, shared the same way;
        a missing or mistaken `grid_` or `nvidia_` is put right.
        """
        spelled = "_".join(text.strip().lower().split())
        bare = spelled.removeprefix("grid_").removeprefix("nvidia_")
        for guess in (spelled, f"grid_{bare}", f"nvidia_{bare}"):
            if nearest := self._nearest_sizes(guess)[:3]:
                return nearest
        known = [
            prefix + entry.name.removeprefix(board.prefix)
            for board in self.boards.values()
            for prefix in board.prefixes
            for entry in board.profiles
        ]
        return difflib.get_close_matches(spelled, known, n=3)

    def whole_profile(self, product: str) -> str:
        """Return the largest C profile of the plainest board of a product, as A100; "" if there is none."""
        word = product.casefold()
        boards = [one for one in self.matching(product) if _is_product(word, one) and one.profiles]
        board = min(boards, key=lambda one: (len(one.key), one.framebuffer_mib), default=None)
        return board.profiles[0].name if board is not None else ""

    def _resolve(self, text: str) -> Iterator[ProfileEntry]:
        try:
            profile = VgpuProfile.parse(text)
        except ValueError:
            return
        for board in self._folder.with_prefix(profile.prefix):
            if (entry := resolve_profile(board, profile)) is not None:
                yield entry

    def _find_by_pci(self, device_id: int, subsystem_id: int | None) -> Board | None:
        same_device = [
            (pci, board)
            for board in self._folder.holding(f"{device_id:04x}")
            for pci in board.pci_ids
            if pci.device_id == device_id
        ]
        boards = list(dict.fromkeys(board for _, board in same_device))
        if len(boards) > 1:
            boards = [board for pci, board in same_device if pci.subsystem_id == subsystem_id]
        return boards[0] if len(boards) == 1 else None

    def _nearest_sizes(self, spelled: str) -> list[str]:
        try:
            profile = VgpuProfile.parse(spelled)
        except ValueError:
            return []
        entries = [
            entry
            for board in self._folder.with_prefix(profile.prefix)
            for entry in board.profiles
            if entry.profile.sharing is profile.sharing
        ]
        entries.sort(key=lambda entry: abs(entry.profile.framebuffer_gb - profile.framebuffer_gb))
        return [profile.prefix + entry.name.removeprefix(entry.profile.prefix) for entry in entries]


def _is_product(word: str, board: Board) -> bool:
    """Whether the first of a board's names begins with this word: "A100 SXM4 40GB" is an A100."""
    return board.names[0].casefold().split()[0] == word


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


MOST_PER_GPU = 32
"""No time-sliced type runs more often on one GPU, however small: A40-1Q and H200-4C stop here.
Source: the same configuration."""


_INSTANCE_SUFFIXES = {"me": "+me", "meall": "+me.all", "nome": "-me", "gfx": "+gfx"}
"""nvidia-smi's suffixes of a GPU instance for the letters in a type's name."""


_ONE_PER_GPU = ("me", "meall")
"""The media engines that these take are there once. Source: NVIDIA MIG User Guide."""


_SAME_NUMBER = ("gfx", "nome")
"""Of these a GPU has as many instances as without: `mig -lgip` prints 4/4 for 1g.24gb, +gfx and -me."""


def resolve_profile(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    """Return a profile's facts on a board; None if the board cannot have it.

    A C type is had as documented or not at all, save that a MIG type with an undocumented suffix follows the
    same type without. A, B and Q types follow by rule.
    """
    if profile.prefix not in board.prefixes:
        return None
    if (documented := _listed(board, profile, profile.series, profile.suffix)) is not None:
        is_peer = documented.is_nvlink_p2p and _has_nvlink(board, profile.prefix)
        return replace(documented, profile=profile, is_nvlink_p2p=is_peer)
    if profile.sharing is Sharing.MIG:
        found = _unlisted_mig(board, profile)
    else:
        found = None if profile.series == "C" else _unlisted_time_sliced(board, profile)
    return found if found is None or profile.series == "C" else _as_far_as_known(board, found)


def _as_far_as_known(board: Board, entry: ProfileEntry) -> ProfileEntry:
    """Give an A, B or Q type the maximum that the board's file names, or mark its own as a bound."""
    profile = entry.profile
    plain = profile.model_copy(update={"suffix": ""}) if profile.suffix in _SAME_NUMBER else profile
    most = board.other_series.get(plain.name.removeprefix(f"{profile.prefix}-"))
    if most is None:
        is_known = entry.max_per_gpu == 1
        return replace(entry, is_max_known=is_known)
    if entry.mig is not None:
        entry = replace(entry, mig=replace(entry.mig, max_per_gpu=most))
    return replace(entry, max_per_gpu=most)


def _listed(board: Board, profile: VgpuProfile, series: str, suffix: str) -> ProfileEntry | None:
    """Find the listed entry of the profile's slices and size with this series and suffix."""
    wanted = (profile.slices, profile.framebuffer_gb, series, suffix)
    for entry in board.profiles:
        found = entry.profile
        if (found.slices, found.framebuffer_gb, found.series, found.suffix) == wanted:
            return entry
    return None


def _has_nvlink(board: Board, prefix: str) -> bool:
    return prefix == board.prefix or any(
        alias.is_nvlink_p2p for alias in board.aliases if prefix in alias.prefixes
    )


def _unlisted_time_sliced(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    """Count whole GB, since framebuffers fall some MiB short of them (94 GB is 96246 MiB)."""
    whole_gb = board.framebuffer_gb
    size_gb = profile.framebuffer_gb
    if size_gb > whole_gb or not board.profiles:
        return None
    twin = _listed(board, profile, "C", "")
    starts = (board.mixed_placement or {}).get(size_gb)
    return ProfileEntry(
        profile=profile,
        board=board,
        framebuffer_mib=_size_mib(board, size_gb),
        max_per_gpu=min(MOST_PER_GPU, whole_gb // size_gb if size_gb else 2 * whole_gb),
        max_mixed=len(starts) if starts else twin.max_mixed if twin else None,
        mixed_starts=starts,
        is_full_framebuffer=size_gb == whole_gb,
        listed=False,
    )


def _unlisted_mig(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    twin = _listed(board, profile, "C", profile.suffix) or _with_suffix(board, profile)
    if twin is not None:
        return replace(twin, profile=profile, listed=False)
    if profile.series == "C":
        return None
    return _unlisted_in_shared_instance(board, profile)


def _with_suffix(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    plain = _listed(board, profile, "C", "")
    if plain is None or plain.mig is None:
        return None
    most = 1 if profile.suffix in _ONE_PER_GPU else plain.max_per_gpu
    instance = plain.mig.instance + _INSTANCE_SUFFIXES.get(profile.suffix, "")
    shape = replace(plain.mig, instance=instance, max_per_gpu=most)
    if profile.suffix:
        shape = replace(shape, profile_id=None)
    return replace(plain, mig=shape, max_per_gpu=most)


def _unlisted_in_shared_instance(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    """Cut the instance of these slices evenly, on a board whose instances can be shared."""
    alike = [entry for entry in board.profiles if entry.mig and entry.profile.slices == profile.slices]
    if profile.framebuffer_gb == 0 or not any(entry.mig and entry.mig.per_instance > 1 for entry in alike):
        return None
    whole = max(alike, key=lambda entry: entry.profile.framebuffer_gb)
    per_instance = whole.profile.framebuffer_gb // profile.framebuffer_gb
    if whole.mig is None or per_instance == 0:
        return None
    most = whole.max_per_gpu * per_instance
    return ProfileEntry(
        profile=profile,
        board=board,
        framebuffer_mib=_size_mib(board, profile.framebuffer_gb),
        max_per_gpu=most,
        mig=replace(whole.mig, max_per_gpu=most, per_instance=per_instance),
        listed=False,
    )


def _size_mib(board: Board, size_gb: int) -> int:
    return min(size_gb * 1024, board.framebuffer_mib) or 512
