"""The JSON that a page carries."""

from __future__ import annotations

import json
import re
from typing import Any

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def data_in(page: str) -> Any:
    found = DATA.search(page)
    assert found is not None
    return json.loads(found[1])
