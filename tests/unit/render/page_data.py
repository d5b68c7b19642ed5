"""The JSON that a page carries."""

from __future__ import annotations

import json
import re
from typing import Any

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def data_in(page: str) -> Any:
    found = _DATA.search(page)
    assert found is not None
    return json.loads(found[1])
