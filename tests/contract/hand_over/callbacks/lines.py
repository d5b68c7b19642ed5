"""A callback of ansible-core that prints a line of JSON for each task: its name, and what it returned."""

from __future__ import annotations

import json
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: lines
type: stdout
short_description: a line of JSON for each result
description: the same
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # as above
    """Print what every task came to."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "lines"

    def v2_runner_on_ok(self, result: Any) -> None:
        print(json.dumps([result._task.get_name(), result._result], default=str))  # noqa: T201  # it is what it is for

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # ansible's
        del ignore_errors
        self.v2_runner_on_ok(result)
