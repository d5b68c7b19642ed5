"""`python -m vgpu_cfg` and the `vgpu-cfg` command."""

from __future__ import annotations

from vgpu_cfg.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
