# ruff: noqa: INP001 - mkdocs loads it by its path
"""The site's navigation: the headings and pages of docs/README.md. No page of the site fetches anything."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

_HEADING = re.compile(r"^(?P<level>##|###) (?P<title>.+)$")
_PAGE = re.compile(r"^\* \[(?P<title>[^\]]+)\]\((?P<path>[^)#]+\.md)\)")
_SHIM = re.compile(r'https://[^"]+/iframe-worker/shim')
_OWN_SHIM = "iframe-worker/shim/index.js"
_MOVED = "\n\nThis page moved to ["


def on_config(config: Any) -> Any:
    """Give the site its navigation: a tab for each section, a group for each heading in it."""
    folder = Path(config["docs_dir"])
    index = (folder / "docs" / "README.md").read_text(encoding="utf-8")
    config["nav"] = [{"vgpu-cfg": "README.md"}, *navigation(index)]
    return config


def navigation(index: str) -> list[dict[str, Any]]:
    """Return the sections of docs/README.md; a heading without pages, as of numbered lists, gets no group."""
    tabs: list[dict[str, list[Any]]] = []
    pages: list[Any] = []
    for line in index.splitlines():
        heading, page = _HEADING.match(line), _PAGE.match(line)
        if heading:
            pages = []
            (tabs if heading["level"] == "##" else _pages_of(tabs[-1])).append({heading["title"]: pages})
        elif page:
            pages.append({page["title"].replace("`", ""): normpath(f"docs/{page['path']}")})
    return [
        {title: [one for one in found if _has_pages(one)] for title, found in tab.items()} for tab in tabs
    ]


def _pages_of(section: dict[str, list[Any]]) -> list[Any]:
    (pages,) = section.values()
    return pages


def _has_pages(entry: dict[str, Any]) -> bool:
    return all(entry.values())


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> None:
    """Leave pages that moved out of the search."""
    if _MOVED in markdown:
        page.meta["search"] = {"exclude": True}


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
