"""Two hosts that an image manages: from wherever a run was killed, the same command gets to the same end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import is_reading, is_tidy, state_file, watch_labs
from tests.cli.locks import leave_proofs
from tests.cli.test_images import NEW, Images
from tests.extent import examples

EVERY = 9
"""So many states lie between two that are tried without --all."""


def states_of(folder: Path) -> list[tuple[str, bytes]]:
    """Follow a run, and return the states that it goes through with the calls before them."""
    found: list[tuple[str, bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        images = Images(CommandLine(folder, patch))
        watch = watch_labs(patch)
        place = state_file(images.run, images.estate)

        def keep(name: str) -> None:
            content = place.read_bytes() if place.exists() else b""
            if content and (not found or found[-1][1] != content):
                found.append((name, content))

        watch.after_call = keep
        images.run.done("apply", "--yes", "plan.yaml")
    return found


def test_the_same_command_gets_to_the_same_end(
    tmp_path_factory: pytest.TempPathFactory, vgpu_cfg: CommandLine
) -> None:
    images = Images(vgpu_cfg)
    states = states_of(tmp_path_factory.mktemp("followed"))
    tried = [one for one in states if not is_reading(one[0])][:: examples(EVERY, 1)]
    assert any("/api/esx/settings/clusters" in name for name, _ in states)
    for name, content in tried:
        place = state_file(vgpu_cfg, images.estate)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        leave_proofs(vgpu_cfg.state_folder, vgpu_cfg.lab(images.estate).state)
        ran = vgpu_cfg("apply", "--yes", "plan.yaml")
        assert ran.code == 0, f"killed after {name}: {ran.told[-600:]}"
        assert images.versions == [NEW, NEW], name
        assert len(images.image.commits) == 1, name
        assert not images.image.drafts, name
        assert is_tidy(vgpu_cfg.lab(images.estate).state), name
