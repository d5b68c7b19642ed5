"""Which contexts of the config file several words mean: names, and globs over names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import DocumentError, NotFound
from vgpu_cfg.settings.connection import read_config
from vgpu_cfg.settings.folders import config_file


def servers_of_contexts(words: Sequence[str]) -> dict[str, str]:
    """Return the server of each context that the words mean: word by word, and in the config file's order.

    Raises DocumentError for a word that matches none, NotFound without a config file; both list the contexts.
    """
    config, document = read_config()
    found: dict[str, None] = {}
    for word in words:
        names = [word] if word in config.contexts else _matching(word, config.contexts)
        if not names:
            message = f"no context matches {word!r}"
            if document is None or not config.contexts:
                remedy = "add a context for each vCenter to it"
                raise NotFound(message, subject=str(config_file()), remedy=remedy)
            fault = document.fault(("contexts",), message, did_you_mean(word, config.contexts))
            raise DocumentError([fault], remedy=f"available: {', '.join(config.contexts)}")
        found |= dict.fromkeys(names)
    return {name: config.contexts[name].server for name in found}


def _matching(glob: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if fnmatchcase(name.casefold(), glob.casefold())]
