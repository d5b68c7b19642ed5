"""Find a server, an account and its password: flags, then environment, then the context.

A context is a named connection in the config file. A plan's `vcenter:` names one, or an address, or a lab. A
password is never a flag and never stored in a file of ours: it comes from a file or a command the user names,
the environment, the keyring, or a prompt.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from vgpu_cfg.documents import Document, build, did_you_mean, read_document
from vgpu_cfg.errors import Ambiguous, DocumentError, LoginFailed, NotFound
from vgpu_cfg.model.desired import ProtectingContext
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.locks import BEAT_SECONDS
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.model.plan_file.values import parse_secret
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.model.ranges import is_glob
from vgpu_cfg.settings.environment import APP_NAME, config_file, keep_from_others
from vgpu_cfg.settings.flags import ConnectionFlags
from vgpu_cfg.settings.secrets import ask_password, read_keyring, resolve_reference
from vgpu_cfg.settings.variables import read_variables

FetchedLogins = dict[tuple[str, str, str], str | None]
"""Passwords and tokens from their sources, by source, server and user."""

LAB_PREFIX = "lab:"
LAB_USER = "administrator@vsphere.local"
LAB_ADDRESS, LAB_PORT = "127.0.0.1", 8989
"""The default address of `lab serve`."""
LONGEST_TIMEOUT_SECONDS = 3600
LONGEST_OUTAGE_SECONDS = 86_400
Timeout = Annotated[float, Field(gt=0, le=LONGEST_TIMEOUT_SECONDS)]
Outage = Annotated[float, Field(ge=0, le=LONGEST_OUTAGE_SECONDS)]
AnswerMib = Annotated[int, Field(ge=1, le=4096)]
AnswerPages = Annotated[int, Field(ge=1, le=1_000_000)]
InFlight = Annotated[int, Field(ge=1, le=16)]
LAB_PASSWORD = "lab"  # noqa: S105 - the lab's own, printed by `vgpu-cfg lab`


def _reference(value: str) -> str:
    """Check a reference to a secret; as in a plan file, no message holds the value."""
    found = parse_secret(value)
    return f"{found.kind}:{found.value}"


Reference = Annotated[str, AfterValidator(_reference)]


def _pattern(value: str) -> str:
    """Check a regular expression."""
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"this is not a valid regular expression: {error}") from error
    return value


class LocksEntry(Frozen):
    """The folder of locks and reservations, by its inventory path, and the period of a run's heartbeat."""

    at: Annotated[str, Field(min_length=1)] | None = None
    heartbeat_seconds: Annotated[int, Field(ge=30, le=240)] = int(BEAT_SECONDS)


class Context(Frozen):
    """A named connection of the config file."""

    server: Annotated[str, Field(min_length=1)]
    user: str | None = None
    password: Reference | None = None
    token: Reference | None = None
    datacenter: str | None = None
    ca_file: Path | None = None
    thumbprint: str | None = None
    insecure: bool = False
    timeout_seconds: Timeout | None = None
    outage_seconds: Outage | None = None
    answer_mib: AnswerMib | None = None
    answer_pages: AnswerPages | None = None
    in_flight: InFlight | None = None
    protect: ProtectEntry = ProtectEntry()
    most_deletions: Annotated[int, Field(ge=0)] | None = None
    require_change: bool = False
    change_pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    require_signature: Path | None = None
    quotas: Path | None = None
    locks: LocksEntry | None = None


class ConfigFile(Frozen):
    """The config file: `current` names the context that holds where nothing else is said."""

    current: str | None = None
    journal_folder: Path | None = None
    syslog: str | None = None
    contexts: dict[str, Context] = Field(default_factory=dict)


class Environment(Frozen):
    """The `VGPU_CFG_*` variables that say how to connect."""

    context: str | None = None
    server: str | None = None
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    datacenter: str | None = None
    ca_file: Path | None = None
    thumbprint: str | None = None
    insecure: bool | None = None
    timeout_seconds: Timeout | None = None
    outage_seconds: Outage | None = None
    answer_mib: AnswerMib | None = None
    answer_pages: AnswerPages | None = None
    in_flight: InFlight | None = None
    quotas: Path | None = None


@dataclass(frozen=True, slots=True)
class RequiringContext:
    """A context whose runs must name a change or carry a signature.

    `pattern` must match the whole of a change's id, `signers` is the file of accepted signers.
    """

    name: str
    is_required: bool
    pattern: str | None
    signers: Path | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """A server and how to reach it. `password` or `token` is fetched when it is first needed.

    If `token_source` names one, the token of vCenter's single sign-on is the login, and no user is needed.

    `protecting` are the contexts of this server that protect something, whichever way it was named,
    `requiring` those that ask for the id of a change, or for a signature, and `quotas` the files of shares.
    `login` was fetched before it is needed, `log_calls` is the file that lists the requests, and `locks` are
    the settings for the locks of runs.
    """

    server: str
    user: str = ""
    datacenter: str | None = None
    ca_file: Path | None = None
    thumbprint: str | None = None
    insecure: bool = False
    limits: Limits = field(default_factory=Limits)
    recording: Path | None = None
    password_sources: tuple[str, ...] = ()
    token_source: str = ""
    protecting: tuple[ProtectingContext, ...] = ()
    requiring: tuple[RequiringContext, ...] = ()
    quotas: tuple[Path, ...] = ()
    login: SecretStr | None = None
    log_calls: Path | None = None
    locks: LocksEntry = field(default_factory=LocksEntry)
    of_plan: str = ""
    """The option that names it to a command without the plan file, if only the plan file does."""

    @property
    def is_lab(self) -> bool:
        """Whether it is a simulated vCenter."""
        return self.server.startswith(LAB_PREFIX)

    @property
    def lab_estate(self) -> str:
        """The name or file of the lab's estate."""
        return self.server.removeprefix(LAB_PREFIX)

    def with_login(self, fetched: FetchedLogins) -> Connection:
        """Fetch the password or the token now; there is no later prompt, and no source is read twice.

        `fetched` are the answers of other connections' sources, and is added to: standard input has one
        password, and two contexts of one server and user need one answer. Raises LoginFailed.
        """
        login = self.token(fetched) if self.token_source else self.password(fetched)
        return replace(self, login=SecretStr(login))

    def password(self, fetched: FetchedLogins | None = None) -> str:
        """Return the password from the first source that has one.

        The lab needs none; one that is named for it must be right. Raises LoginFailed if none has, and no
        prompt is possible.
        """
        if self.login is not None:
            return self.login.get_secret_value()
        for source in self.password_sources:
            found = self._fetch(source, fetched)
            if found is not None:
                return found
        if self.is_lab:
            return LAB_PASSWORD
        message = f"no password for {self.user}"
        raise LoginFailed(
            message,
            subject=self.server,
            remedy="set VGPU_CFG_PASSWORD, add --password-file, or store it: `keyring set "
            f"{APP_NAME}:{self.server} {self.user}`",
        )

    def token(self, fetched: FetchedLogins | None = None) -> str:
        """Return the token of single sign-on. Raises LoginFailed where its source has none."""
        if self.login is not None:
            return self.login.get_secret_value()
        found = self._fetch(self.token_source, fetched)
        if found is None:
            raise LoginFailed(
                "token not found",
                subject=self.token_source,
                remedy="store a token there, such as one from `govc session.login -issue`",
            )
        return found

    def _fetch(self, source: str, fetched: FetchedLogins | None) -> str | None:
        """Ask one source, unless it has answered before. Raises LoginFailed where it fails."""
        is_own = source in ("keyring", "prompt")
        key = (source, self.server if is_own else "", self.user if is_own else "")
        known = {} if fetched is None else fetched
        if key not in known:
            match source:
                case "prompt":
                    known[key] = ask_password(self.user, self.server)
                case "keyring":
                    known[key] = read_keyring(self.server, self.user)
                case _:
                    known[key] = _resolve(source)
        return known[key]


def _resolve(reference: str) -> str | None:
    """Fetch a secret; paths of encrypted files count from the config file."""
    return resolve_reference(reference, config_file().parent)


def resolve_connection(
    flags: ConnectionFlags, *, plan_server: str | None = None, plan_datacenter: str | None = None
) -> Connection:
    """Decide which server to talk to, and as whom.

    `plan_server` is the plan file's `vcenter:`, a context's name, an address or `lab:...`; a
    server or context given by flag or environment goes before it.

    Raises DocumentError for a config file that is broken, NotFound for a context that is not in it.
    """
    if flags.recording is not None:
        datacenter = flags.datacenter or plan_datacenter
        said = (flags.quotas,) if flags.quotas is not None else ()
        return Connection(
            server=str(flags.recording), recording=flags.recording, datacenter=datacenter, quotas=said
        )
    environment = read_variables(Environment, "VGPU_CFG_")
    config, document = read_config()
    chosen, context = _choose(flags, environment, plan_server, config, document)
    # A file beside the plan may have a server's name, but no server has a name with a slash or these endings.
    file = chosen.removeprefix("recording:")
    if ("/" in file or file.endswith((".json", ".gz"))) and Path(file).is_file():
        message = "is a file, not a server"
        raise NotFound(message, subject=chosen, remedy=f"to read a recording, use --from {file}")
    # The lab has an account of its own: the one in the environment is for somebody's vCenter.
    is_lab = chosen.startswith(LAB_PREFIX)
    user = flags.user or ("" if is_lab else environment.user) or context.user or (LAB_USER if is_lab else "")
    token_source = _token_source(flags, environment, context, is_lab=is_lab)
    if not user and not token_source:
        message = "no user specified for this server"
        raise LoginFailed(
            message, subject=chosen, remedy="add --user, or set VGPU_CFG_USER or `user:` in the context"
        )
    return Connection(
        server=chosen,
        user=user,
        datacenter=flags.datacenter or environment.datacenter or plan_datacenter or context.datacenter,
        ca_file=flags.ca_file or environment.ca_file or context.ca_file,
        thumbprint=flags.thumbprint or environment.thumbprint or context.thumbprint,
        insecure=flags.insecure
        or (context.insecure if environment.insecure is None else environment.insecure),
        limits=_limits(flags, environment, context),
        password_sources=_password_sources(flags, environment, context, is_lab=is_lab),
        token_source=token_source,
        protecting=_protecting(chosen, config),
        requiring=_requiring(chosen, config),
        quotas=_quotas(chosen, flags, environment, config),
        log_calls=flags.log_calls,
        locks=_locks(chosen, config),
        of_plan=_of_plan(flags, environment, plan_server, chosen, config),
    )


def _of_plan(
    flags: ConnectionFlags, environment: Environment, plan_server: str | None, chosen: str, config: ConfigFile
) -> str:
    if flags.server or flags.context or environment.server or environment.context or not plan_server:
        return ""
    return f"--context={plan_server}" if plan_server in config.contexts else f"--server={chosen}"


def _locks(server: str, config: ConfigFile) -> LocksEntry:
    """Return the settings for a server's locks, which all of its contexts share. Raises Ambiguous."""
    found = {
        name: context.locks
        for name, context in config.contexts.items()
        if context.locks is not None and is_same_server(context.server, server)
    }
    if len(set(found.values())) > 1:
        raise Ambiguous(
            f"contexts {', '.join(found)} have different `locks` values",
            subject=str(config_file()),
            remedy="use the same `locks` in all contexts for this server, or set it in only one",
        )
    return next(iter(found.values()), LocksEntry())


def _quotas(
    server: str, flags: ConnectionFlags, environment: Environment, config: ConfigFile
) -> tuple[Path, ...]:
    """Return every file of shares: the one that is named here, and those of the server's contexts."""
    named = flags.quotas or environment.quotas
    of_contexts = (
        config_file().parent / context.quotas.expanduser()
        for context in config.contexts.values()
        if context.quotas is not None and is_same_server(context.server, server)
    )
    return tuple(dict.fromkeys((*of_contexts, *([named] if named is not None else []))))


def _limits(flags: ConnectionFlags, environment: Environment, context: Context) -> Limits:
    """Return the limits of input: of each the first that is stated, else its default."""
    stated = {
        name: value
        for source in (context, environment, flags)
        for name in Limits.model_fields
        if (value := getattr(source, name, None)) is not None
    }
    return Limits.model_validate(stated)


def _protecting(server: str, config: ConfigFile) -> tuple[ProtectingContext, ...]:
    """Return every context of a server that protects something: a plan may name the server by its address."""
    return tuple(
        ProtectingContext(
            name=name, file=str(config_file()), protect=context.protect, most_deletions=context.most_deletions
        )
        for name, context in config.contexts.items()
        if is_same_server(context.server, server)
        and (context.protect != ProtectEntry() or context.most_deletions is not None)
    )


def _requiring(server: str, config: ConfigFile) -> tuple[RequiringContext, ...]:
    """Return every context of a server that says something of a run's change."""
    return tuple(
        RequiringContext(name, context.require_change, context.change_pattern, context.require_signature)
        for name, context in config.contexts.items()
        if is_same_server(context.server, server)
        and (context.require_change or context.change_pattern or context.require_signature)
    )


def is_same_server(server: str, other: str) -> bool:
    """Whether two addresses are spelled for one server."""
    return _plain(server) == _plain(other)


def _plain(server: str) -> str:
    return server.casefold().removesuffix(":443").removesuffix(".")


def read_config() -> tuple[ConfigFile, Document | None]:
    """Read the config file; an empty one where there is none. Raises DocumentError with its faults."""
    path = config_file()
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ConfigFile(), None
    except OSError:
        pass  # it is there and cannot be reached: reading it says why
    document = read_document(path)
    config = build(document, ConfigFile)
    keep_from_others(one for each in config.contexts.values() for one in (each.password, each.token) if one)
    return config, document


def _choose(
    flags: ConnectionFlags,
    environment: Environment,
    plan_server: str | None,
    config: ConfigFile,
    document: Document | None,
) -> tuple[str, Context]:
    """Return the server's address and its context (an empty one for a bare address)."""
    if flags.server or flags.context:
        named = flags.context
        server = flags.server
    elif environment.server or environment.context:
        named, server = environment.context, environment.server
    elif plan_server:
        return _server_of_plan(plan_server, config)
    else:
        named, server = config.current, None
    if not named and not server:
        message = "no vCenter specified"
        raise NotFound(
            message,
            subject="command line",
            remedy="add --server ADDRESS (or lab:two-a100 to try it out), set VGPU_CFG_SERVER, or add a "
            f"context to {config_file()}",
        )
    context = _named_context(named, config, document) if named else Context(server=server or "")
    return server or context.server, context


def _server_of_plan(plan_server: str, config: ConfigFile) -> tuple[str, Context]:
    if plan_server in config.contexts:
        context = config.contexts[plan_server]
        return context.server, context
    if (
        plan_server.startswith(LAB_PREFIX)
        or "." in plan_server
        or plan_server == "localhost"
        or ":" in plan_server
    ):
        return plan_server, Context(server=plan_server)
    message = f"the plan uses the context {plan_server!r}, which is not in the config file"
    raise NotFound(
        message,
        subject=str(config_file()),
        remedy=_context_hint(plan_server, config) or "add it to the config file, or use --server ADDRESS",
    )


def _named_context(name: str, config: ConfigFile, document: Document | None) -> Context:
    if name in config.contexts:
        return config.contexts[name]
    message = f"context {name!r} not found"
    hint = _context_hint(name, config)
    if is_glob(name):
        hint = "use one context; `inventory`, `fit` and `status` accept several with --context"
    if document is not None:
        raise DocumentError(
            [document.fault(("contexts",), message, hint)],
            remedy="correct the name, add it to the file, or use --server ADDRESS",
        )
    raise NotFound(
        message, subject=str(config_file()), remedy="add it to the config file, or use --server ADDRESS"
    )


def _context_hint(name: str, config: ConfigFile) -> str:
    return did_you_mean(name, config.contexts)


def _token_source(flags: ConnectionFlags, environment: Environment, context: Context, *, is_lab: bool) -> str:
    """Return where the token is that is the login; "" where a password is."""
    if flags.token_file:
        return f"file:{flags.token_file}"
    if flags.password_file:
        return ""
    if environment.token is not None and not is_lab:
        return "env:VGPU_CFG_TOKEN"
    return context.token or ""


def _password_sources(
    flags: ConnectionFlags, environment: Environment, context: Context, *, is_lab: bool
) -> tuple[str, ...]:
    """Return the sources of the password; for the lab only those named for it."""
    sources = []
    if flags.password_file:
        sources.append(f"file:{flags.password_file}")
    if environment.password is not None and not is_lab:
        sources.append("env:VGPU_CFG_PASSWORD")
    if context.password is not None:
        sources.append(context.password)
    if is_lab:
        return tuple(sources)
    sources.append("keyring")
    if sys.stdin.isatty():
        sources.append("prompt")
    return tuple(sources)


def servers_of_contexts(words: Sequence[str]) -> dict[str, str]:
    """Return the server of each context that the words mean: word by word, and in the config file's order.

    Raises DocumentError for a word that matches none, NotFound without a config file; both list the contexts.
    """
    config, document = read_config()
    found: dict[str, None] = {}
    for word in words:
        names = [word] if word in config.contexts else _matching(word, config.contexts)
        if not names:
            message = f"no context matches {word!r}"
            if document is None or not config.contexts:
                remedy = "add a context for each vCenter to the file"
                raise NotFound(message, subject=str(config_file()), remedy=remedy)
            fault = document.fault(("contexts",), message, did_you_mean(word, config.contexts))
            raise DocumentError([fault], remedy=f"available: {', '.join(config.contexts)}")
        found |= dict.fromkeys(names)
    return {name: config.contexts[name].server for name in found}


def _matching(glob: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if fnmatchcase(name.casefold(), glob.casefold())]
