"""How customisation specifications show (vim `CustomizationSpecManager`), and the key of their passwords."""

from __future__ import annotations

from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.customization import OWN_KEY

CUSTOMIZATION_SPEC_MANAGER: dict[str, Render] = {
    "info": lambda context, _thing: [item.info for item in context.state.customization_specs.values()],
    "encryptionKey": lambda _context, _thing: OWN_KEY,
}
