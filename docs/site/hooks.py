# ruff: noqa: INP001 - mkdocs loads it by its path
"""How the site is put together: its sections are the headings of docs/README.md, with their pages."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath
from typing import Any

_HEADING = re.compile(r"^## (?P<title>.+)$")
_PAGE = re.compile(r"^\* \[(?P<title>[^\]]+)\]\((?P<path>[^)#]+\.md)\)")
_SHIM = re.compile(r'https://[^"]+/iframe-worker/shim')
_OWN_SHIM = "iframe-worker/shim/index.js"


def on_config(config: Any) -> Any:
    """Give the site its navigation."""
    folder = Path(config["docs_dir"])
    sections: list[dict[str, Any]] = []
    for line in (folder / "docs" / "README.md").read_text(encoding="utf-8").splitlines():
        heading, page = _HEADING.match(line), _PAGE.match(line)
        if heading:
            sections.append({heading["title"]: []})
        elif page and sections:
            (pages,) = sections[-1].values()
            pages.append({page["title"].replace("`", ""): f"docs/{page['path']}"})
    about = [{"Changes": "CHANGELOG.md"}, {"Contribute": "CONTRIBUTING.md"}]
    config["nav"] = [{"vgpu-cfg": "README.md"}, *sections, {"About": about}]
    return config


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Let a page fetch nothing from elsewhere."""
    return _without_others(output, Path(page.file.dest_uri).parent.as_posix(), config)


def on_post_template(output_content: str, *, template_name: str, config: Any) -> str:
    """Do the same for pages that are no Markdown, such as that of what is not found."""
    return _without_others(output_content, Path(template_name).parent.as_posix(), config)


def _without_others(html: str, folder: str, config: Any) -> str:
    """Return a page with the search's script from beside it, or without where that could not be fetched."""
    if not (Path(config["docs_dir"]) / _OWN_SHIM).exists():
        return re.sub(f'<script src="{_SHIM.pattern}"></script>', "", html)
    return _SHIM.sub(relpath(_OWN_SHIM, folder), html)
