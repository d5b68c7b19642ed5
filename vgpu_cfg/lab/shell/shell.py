"""The shell of a simulated ESXi host: access to it, the words of a line, and its tools by their paths.

An answer of esxcli is text: a list of like things is a table whose columns are as wide as their widest cell,
two blanks apart; a list of long ones has a paragraph for each, below its address; one thing is lines of
`Name: value`, three blanks in (recorded runs). Recalled is which stream an error goes to.

Pipes, lists, redirections, substitutions and patterns are not commands of this shell.

The output of the host's own scripts is in NVIDIA's and VMware's guides. Recalled are vmkload_mod's header and
numbers, and xorg's message while vGPUs run.

Lockdown mode keeps root out whatever the password; exception users are none in the lab.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pyVmomi import vmodl

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.lab.esxcli import (
    COMMANDS,
    FLAGS,
    OPTIONS,
    Answer,
    CommandError,
    PlainValue,
    Record,
    Row,
    Rows,
    UnknownCommandError,
    long_options,
    run,
)
from vgpu_cfg.lab.nvidia.gpus import Reply, Tool, complain, say
from vgpu_cfg.lab.nvidia.mlxconfig import run_mlxconfig, run_mst
from vgpu_cfg.lab.nvidia.smi import run_nvidia_smi
from vgpu_cfg.lab.operations.hosts.services import XORG, restart_service
from vgpu_cfg.lab.simulation.bends import printed
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host

MODULE_SIZES_KB = {"nvidia": 8420, "nmlx5_core": 1580, "nmlx5_rdma": 412}
"""The first is in NVIDIA's guide, the others are made up."""


def run_xorg(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Restart Xorg, which activates graphics types and the policy; or show its state."""
    match list(arguments):
        case ["restart"]:
            try:
                restart_service(lab, host, id=XORG)
            except vmodl.MethodFault as fault:
                return complain(str(getattr(fault, "msg", fault)))
            return say("Getting Exclusive access, please wait...", "Exclusive access granted.")
        case ["status"]:
            is_up = host.services[XORG].running
            return say(f"Xorg is {'' if is_up else 'not '}running", status=0 if is_up else 1)
        case _:
            return complain("Usage: xorg {start|stop|status|restart}")


def run_gpu_daemon(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Show that the GPU management daemon runs, as it always does if it is installed."""
    if list(arguments) != ["status"]:
        return complain("Usage: nvdGpuMgmtDaemon {start|stop|status|restart}")
    return say("daemon_nvdGpuMgmtDaemon is running")


def run_vmkload_mod(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """List the loaded VMkernel modules."""
    if list(arguments) not in (["-l"], ["--list"]):
        return complain("Usage: vmkload_mod -l")
    rows = [
        f"{module.name:<25}{5:<6}{MODULE_SIZES_KB.get(module.name, 64)}"
        for module in host.modules.values()
        if module.loaded
    ]
    return say(f"{'Name':<25}{'Used':<6}Size(kb)", *rows)


def run_grep(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Search the kernel's log, as `grep -iE PATTERN FILE` of BusyBox does; the lab has no other file."""
    match list(arguments):
        case ["-iE", pattern, "/var/log/vmkernel.log"]:
            found = [line for line in host.kernel_log if re.search(pattern, line, re.IGNORECASE)]
            return say(*found, status=0 if found else 1)
        case [_, _, file]:
            return complain(f"grep: {file}: No such file or directory", status=2)
        case _:
            return complain("Usage: grep [-HhnlLoqvsrRiwFE] PATTERN... [FILE]...", status=2)


REQUIRED = {
    "system.module.parameters.list": ("module",),
    "system.module.parameters.set": ("module", "parameter-string"),
    "system.settings.kernel.set": ("setting", "value"),
    "software.sources.vib.list": ("depot",),
    "software.vib.install": ("depot",),
    "network.nic.dcb.status.get": ("nic-name",),
}

TABLES = frozenset({"SettingsKernel", "ModuleParameter", "VIBSummary", "VIBSummaryExt"})
UNNAMED = frozenset({"GraphicsDevice"})
"""Structures whose address is the paragraph's heading and no line of it."""

TITLES = {"InstallationResult": "Installation Result"}

_OPERATORS = frozenset("|&;<>()\n")
_SUBSTITUTIONS = frozenset("$`")
_PATTERNS = frozenset("*?[~#")


def run_esxcli(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Carry one command out."""
    words = [word for word in arguments if not word.startswith("-")]
    first_option = next((at for at, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    name = ".".join(arguments[:first_option])
    if name not in OPTIONS or name not in COMMANDS:
        return complain(f"Error: Unknown command or namespace {' '.join(words)}".rstrip())
    try:
        given: dict[str, tuple[str, ...]] = {}
        for option, value in _options(name, arguments[first_option:]):
            given[option] = (*given.get(option, ()), value)
        for option in REQUIRED.get(name, ()):
            if option not in given:
                raise CommandError(f"Error: Missing required parameter {_shown(name, option)}")
        asked = {option.replace("-", ""): values for option, values in given.items()}
        answer = run(lab, host, name, asked, "shell")
    except UnknownCommandError:
        return complain(f"Error: Unknown command or namespace {name.replace('.', ' ')}")
    except CommandError as error:
        return complain(*error.lines)
    return say(*_text(answer))


def _options(name: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield long options with their values: `-m x`, `-m=x`, `--module x`, `--module=x`."""
    short, rest = OPTIONS[name], iter(words)
    known = set(long_options(name))
    for word in rest:
        option, equals, value = word.partition("=")
        long = (
            option[2:] if option.startswith("--") else short.get(option[1:], "") if len(option) == 2 else ""
        )
        if long not in known:
            raise CommandError(f"Error: Invalid option {option}")
        if long in FLAGS:
            yield long, "true"
        elif equals:
            yield long, value
        else:
            following = next(rest, None)
            if following is None:
                raise CommandError(f"Error: Option {option} needs a value")
            yield long, following


def _shown(name: str, option: str) -> str:
    short = next((short for short, longs in OPTIONS[name].items() if short and longs == option), "")
    return f"-{short}|--{option}" if short else f"--{option}"


def _text(answer: Answer) -> Iterator[str]:
    match answer:
        case PlainValue():
            return
        case Record(kind, fields):
            if kind in TITLES:
                yield TITLES[kind]
            yield from _lines(fields)
        case Rows(kind, rows) if kind in TABLES:
            yield from _table([{name: _cell(value) for name, value in row.items()} for row in rows])
        case Rows(kind, rows):
            for number, row in enumerate(rows):
                if number:
                    yield ""
                yield _cell(row["Address"])
                yield from _lines(
                    {name: row[name] for name in row if kind not in UNNAMED or name != "Address"}
                )


def _lines(fields: Row) -> Iterator[str]:
    return (f"   {name}: {_cell(value)}" for name, value in fields.items())


def _cell(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _table(rows: list[dict[str, str]]) -> Iterator[str]:
    if not rows:
        return
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    yield "  ".join(f"{name:<{width}}" for name, width in widths.items()).rstrip()
    yield "  ".join("-" * width for width in widths.values())
    for row in rows:
        yield "  ".join(f"{row[name]:<{width}}" for name, width in widths.items()).rstrip()


NOT_FOUND = 127
PATH = ("/bin", "/sbin", "/usr/bin", "/usr/sbin")
"""Folders in which a tool is found by its bare name; MFT's is not among them."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A tool and whether a host has it."""

    tool: Tool
    is_on: Callable[[Host], bool]


def _always(_host: Host) -> bool:
    return True


def _has_driver(host: Host) -> bool:
    return host.driver is not None


def _has_daemon(host: Host) -> bool:
    return host.driver is not None and host.driver.gpu_daemon


def _has_firmware_tools(host: Host) -> bool:
    return "mft" in host.software


def _has_xorg(host: Host) -> bool:
    return "xorg" in host.services


TOOLS = {
    "/bin/esxcli": Installed(run_esxcli, _always),
    "/bin/vmkload_mod": Installed(run_vmkload_mod, _always),
    "/bin/grep": Installed(run_grep, _always),
    "/bin/nvidia-smi": Installed(run_nvidia_smi, _has_driver),
    "/opt/mellanox/bin/mst": Installed(run_mst, _has_firmware_tools),
    "/opt/mellanox/bin/mlxconfig": Installed(run_mlxconfig, _has_firmware_tools),
    "/etc/init.d/xorg": Installed(run_xorg, _has_xorg),
    "/etc/init.d/nvdGpuMgmtDaemon": Installed(run_gpu_daemon, _has_daemon),
}


class LabShell:
    """A login on a host. It outlives nothing: once the host is away, every command fails."""

    def __init__(self, lab: Simulation, host: Host) -> None:
        self._lab = lab
        self._moid = host.moid
        self._boot_time = host.boot_time

    def execute(self, line: str) -> tuple[int, str, str]:
        """Run one command line; return its status, stdout and stderr. Raises HostShellError.

        That is raised if the host is gone, or was restarted since the login.
        """
        with self._lab.transaction():
            host = self._lab.state.get(self._moid, Host)
            if not is_reachable(host) or host.boot_time != self._boot_time:
                raise HostShellError(
                    "the connection was closed by the host",
                    subject=host.name,
                    remedy="wait until the host is back, then log in again",
                )
            reply = self._run(host, line)
        return reply.status, reply.stdout, reply.stderr

    def _run(self, host: Host, line: str) -> Reply:
        try:
            words = split_line(line)
        except BadLineError as error:
            return complain(str(error), status=error.status)
        if not words:
            return Reply()
        reply = run_words(self._lab, host, words)
        return replace(reply, stdout=printed(self._lab.state, words, reply.stdout))


def is_reachable(host: Host) -> bool:
    """Whether a host answers on its network at all."""
    return host.connection == "connected" and host.power_state == "poweredOn"


def run_words(lab: Simulation, host: Host, words: Sequence[str]) -> Reply:
    """Run one command, given as words."""
    name = words[0]
    places = [name] if "/" in name else [f"{folder}/{name}" for folder in PATH]
    found = next((TOOLS[place] for place in places if place in TOOLS), None)
    if found is None or not found.is_on(host):
        return complain(f"sh: {name}: not found", status=NOT_FOUND)
    return found.tool(lab, host, words[1:])


class BadLineError(Exception):
    """The line is not one that this shell runs; `status` is its exit status then."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def split_line(line: str) -> list[str]:
    """Return the words of a command line. Raises BadLineError."""
    _refuse_syntax(line)
    return shlex.split(line)


def _refuse_syntax(line: str) -> None:
    """Raise BadLineError for the first character outside quotes that means something else to a shell."""
    quote, skips = "", False
    for at, character in enumerate(line):
        if skips:
            skips = False
        elif quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            skips = True
        elif character in _SUBSTITUTIONS:
            raise BadLineError(f"sh: {line[at:].split(maxsplit=1)[0]}: not found", 127)
        elif quote == '"':
            quote = "" if character == '"' else quote
        elif character in "'\"":
            quote = character
        elif character in _OPERATORS:
            raise BadLineError(f"sh: {character.strip() or 'newline'}: not found", 127)
        elif character in _PATTERNS and (
            character not in "~#" or not line[:at].rstrip(" ") or line[at - 1] == " "
        ):
            raise BadLineError(f"sh: {character}: not found", 127)
    if quote or skips:
        raise BadLineError("sh: syntax error: unterminated quoted string", 2)


SERVICE = "TSM-SSH"
"""Key of the SSH service in `host.config.service` (recorded host dumps)."""

RULESET = "sshServer"
ROOT = "root"


@dataclass(frozen=True, slots=True)
class ShellAccess:
    """The credentials of root: a password (None: any that is not empty), and keys, as in `known_hosts`."""

    password: str | None = None
    keys: Collection[str] = ()

    def takes_password(self, host: Host, user: str, password: str) -> bool:
        """Whether a password opens a host's shell."""
        is_right = bool(password) if self.password is None else password == self.password
        return is_right and user == ROOT and is_unlocked(host)

    def takes_key(self, host: Host, user: str, key: str) -> bool:
        """Whether a key does, given as `ssh-ed25519 AAAA…`."""
        return key in self.keys and user == ROOT and is_unlocked(host)


ANY_PASSWORD = ShellAccess()


def is_unlocked(host: Host) -> bool:
    """Whether root may log in to the host itself."""
    return host.lockdown == "lockdownDisabled"


def why_closed(host: Host) -> str | None:
    """Return why a host's SSH port does not answer, None if it does."""
    if not is_reachable(host):
        return "connection timed out"
    service, ruleset = host.services.get(SERVICE), host.rulesets.get(RULESET)
    if ruleset is not None and not ruleset.enabled:
        return "connection timed out"
    return None if service is not None and service.running else "connection refused"


def open_shell(
    lab: Simulation,
    host_name: str,
    user: str = ROOT,
    *,
    password: str = "",
    key: str = "",
    access: ShellAccess = ANY_PASSWORD,
) -> LabShell:
    """Log in to a host's shell by its name, with a password or a public key. Raises HostShellError."""
    with lab.transaction():
        host = next((host for host in lab.state.all(Host) if host.name == host_name), None)
        if host is None:
            raise HostShellError(
                "the host's name is unknown", subject=host_name, remedy="see `vgpu-cfg inventory`"
            )
        closed = why_closed(host)
        if closed is not None:
            raise HostShellError(
                closed,
                subject=f"{host_name}:22",
                remedy=f"check that the host is up and its service {SERVICE} is running",
            )
        if not access.takes_password(host, user, password) and not access.takes_key(host, user, key):
            raise HostShellError(
                f"the login of {user} was rejected",
                subject=f"{host_name}:22",
                remedy="check the password, and whether the host is in lockdown mode",
            )
        return LabShell(lab, host)
