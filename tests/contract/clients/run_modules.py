"""Runs modules of Ansible one after another, by the Python of script/build-ansible.

Each has a process of its own, forked off one that has imported what all of them import: that saves nine
tenths of the time that a playbook takes. A module's arguments are taken by the same code of ansible-core.
Lines of JSON come in: name, module, arguments in YAML; lines of JSON go out: name, what the module returned.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from typing import Any

SECONDS = 30
"""What a module may take."""


def returned(module: str, arguments: str) -> dict[str, Any]:
    """Return what a module prints; what else it said as `exception` where it prints no JSON."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            signal.alarm(SECONDS)
            run(module, arguments)
        os.waitpid(child, 0)
        said.seek(0)
        text = said.read()
    try:
        found = json.loads(text.strip().rpartition("\n")[2])
    except ValueError:
        return {"exception": text}
    return found if isinstance(found, dict) else {"exception": text}


def run(module: str, arguments: str) -> None:
    """Run a module in this process, and end it."""
    read = importlib.import_module("yaml").safe_load
    given = importlib.import_module("ansible.module_utils.testing").patch_module_args
    try:
        with given(read(arguments)):
            importlib.import_module(module).main()
    except SystemExit:
        pass
    except BaseException:  # noqa: BLE001  # a module may end by anything
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Run what standard input names."""
    shared = "ansible_collections.community.vmware.plugins.module_utils.vmware_rest_client"
    for library in ("ansible.module_utils.testing", "pyVim.connect", "requests", "yaml", shared):
        importlib.import_module(library)
    importlib.import_module("pyVmomi.VmomiSupport").GetWsdlTypes()  # else each process loads types anew
    for line in sys.stdin:
        name, module, arguments = json.loads(line)
        print(json.dumps([name, returned(module, arguments)]), flush=True)  # noqa: T201  # it is what it is for


if __name__ == "__main__":
    main()
