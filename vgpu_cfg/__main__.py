"""`python -m vgpu_cfg` and the `vgpu-cfg` command."""

from __future__ import annotations

import atexit
import gc
import os

from vgpu_cfg.cli.output.standard_streams import keep_standard_output, open_closed_streams, outlive_readers

COLLECT_AFTER = 500_000
"""New objects until the garbage collector looks at them: a command keeps nearly all to its end.

A plan of a few VMs makes some 300,000, most of them while modules are loaded.
"""

gc.set_threshold(COLLECT_AFTER)
# Python searches all memory once more before it ends: a sixth of a start, for what goes with the process.
atexit.register(gc.freeze)
# pydantic looks through all installed packages for plugins of its own: a tenth of a start, none is for us.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def main() -> None:
    """Run the command line in a process of its own, with standard output for its answer alone."""
    open_closed_streams()
    keep_standard_output()
    outlive_readers()
    from vgpu_cfg.cli import app  # its imports make objects, and may print

    app.main()


if __name__ == "__main__":
    main()
