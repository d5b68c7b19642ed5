"""Everything that is there is for something: modules are reached, fields read, functions and constants used.

What stands below as an exception has its reason; one that is no longer needed fails, too.
"""

from __future__ import annotations

from tests.architecture.size_script import imports, size
from tests.architecture.usage import (
    Definition,
    Field,
    definitions,
    fields,
    read_names,
    trees,
    used_names,
)
from vgpu_cfg import testing
from vgpu_cfg.cli.app import LISTED

ENTRIES = [
    "vgpu_cfg.__main__",
    "vgpu_cfg.testing.plugin",
    *{f"vgpu_cfg.cli.commands.{row.module}" for row in LISTED},
    "vgpu_cfg.knowledge.beliefs",
]
"""What a person starts, what pytest loads, what help lists, and the beliefs, which write pages."""

_OF_PAGES = "tests write the pages about beliefs"

FIELDS_READ_OTHERWISE = {
    Field("vgpu_cfg.knowledge.beliefs", "Basis", "irreversible"): _OF_PAGES,
    Field("vgpu_cfg.knowledge.beliefs", "Basis", "releases"): _OF_PAGES,
    Field("vgpu_cfg.knowledge.beliefs", "Belief", "affects"): _OF_PAGES,
    Field("vgpu_cfg.knowledge.beliefs", "_Row", "affects"): _OF_PAGES,
    Field("vgpu_cfg.knowledge.verify_failures", "Failure", "threshold"): "the pages of checks tell it",
    Field("vgpu_cfg.lab.state.guest", "Guest", "cloud_why"): "whoever looks into a lab's guest",
    Field("vgpu_cfg.model.plan_file.entries", "FileHeader", "include"): "read before there is a model",
    Field("vgpu_cfg.model.plan_file.entries", "FileHeader", "vars"): "read before there is a model",
    Field("vgpu_cfg.model.plan_file.entries", "PlanFile", "defaults"): "merged before there is a model",
    Field("vgpu_cfg.model.plan_file.entries", "VmEntry", "except_"): "merged before there is a model",
    Field("vgpu_cfg.parsers.allreduce", "AllReduce", "size_bytes"): "the probe's line has it, and is checked",
    Field("vgpu_cfg.plan_loading.header", "_Sections", "defaults"): "a section that is let through",
    Field("vgpu_cfg.render.views.verification", "PairCell", "least_gbps"): "the page draws it",
    Field("vgpu_cfg.render.views.verification", "PairMatrix", "cells"): "the page draws it",
    Field("vgpu_cfg.render.views.verification", "ReportView", "baseline_begun"): "the page draws it",
    Field("vgpu_cfg.render.views.verification", "ReportView", "matrices"): "the page draws it",
}
"""Fields that no code reads by name, and who reads them."""

_OF_PARAMIKO = "paramiko calls it"
_OF_HTTP = "http.server calls it"
_OF_EXPAT = "expat calls it"
_FOR_TESTS = "a lab is a tool of tests, too"
_OF_PYTEST = "pytest calls it"
OFFERED = [name for name in testing.__all__ if name[0].islower() and name != "assert_fits"]
_OF_USERS = "users' own tests: docs/reference/pytest.md"

USED_BY_OTHERS = {
    Definition("vgpu_cfg.cli.flows.metrics_flow", "_Handler", "log_message"): _OF_HTTP,
    Definition("vgpu_cfg.cli.flows.metrics_flow", "_Server", "handle_error"): "socketserver calls it",
    Definition("vgpu_cfg.execution.records.syslog", "_Handler", "handleError"): "logging calls it",
    Definition("vgpu_cfg.shells.esxi.ssh", "FirstKeyPolicy", "missing_host_key"): _OF_PARAMIKO,
    Definition("vgpu_cfg.shells.guest", "GuestHostKeys", "missing_host_key"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.renderers.table", "Table", "every_path"): _FOR_TESTS,
    Definition("vgpu_cfg.lab.soap.request", "_RequestReader", "CharacterDataHandler"): _OF_EXPAT,
    Definition("vgpu_cfg.lab.soap.request", "_RequestReader", "EndElementHandler"): _OF_EXPAT,
    Definition("vgpu_cfg.lab.soap.server", "_Handler", "do_DELETE"): _OF_HTTP,
    Definition("vgpu_cfg.lab.soap.server", "_Handler", "do_GET"): _OF_HTTP,
    Definition("vgpu_cfg.lab.soap.server", "_Handler", "do_HEAD"): _OF_HTTP,
    Definition("vgpu_cfg.lab.soap.server", "_Handler", "do_PATCH"): _OF_HTTP,
    Definition("vgpu_cfg.lab.soap.server", "_Handler", "do_POST"): _OF_HTTP,
    Definition("vgpu_cfg.lab.soap.server", "_Handler", "do_PUT"): _OF_HTTP,
    Definition("vgpu_cfg.lab.soap.server", "_Handler", "log_message"): _OF_HTTP,
    Definition("vgpu_cfg.lab.soap.server", "_HttpServer", "handle_error"): "socketserver calls it",
    Definition("vgpu_cfg.lab.soap.server", "_HttpServer", "verify_request"): "socketserver calls it",
    Definition("vgpu_cfg.lab.shell.ssh_server", "LabSshServer", "wait_until"): _FOR_TESTS,
    Definition("vgpu_cfg.lab.shell.ssh_server", "SshLogin", "check_auth_interactive"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.shell.ssh_server", "SshLogin", "check_auth_interactive_response"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.shell.ssh_server", "SshLogin", "check_auth_none"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.shell.ssh_server", "SshLogin", "check_auth_publickey"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.shell.ssh_server", "SshLogin", "check_channel_exec_request"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.shell.ssh_server", "SshLogin", "check_channel_request"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.shell.ssh_server", "SshLogin", "get_allowed_auths"): _OF_PARAMIKO,
    Definition("vgpu_cfg.lab.simulation.simulation", "Simulation", "run_until_idle"): _FOR_TESTS,
    **{Definition("vgpu_cfg.testing.assertions", "", name): _OF_USERS for name in OFFERED},
    Definition("vgpu_cfg.testing.plugin", "", "pytest_addoption"): _OF_PYTEST,
    Definition("vgpu_cfg.testing.plugin", "", "pytest_configure"): _OF_PYTEST,
}
"""What nothing in the program calls by its name, and who does."""


def unread() -> set[Field]:
    return {field for field in fields() if field.name not in read_names()}


def unused() -> set[Definition]:
    return {definition for definition in definitions() if definition.name not in used_names()}


def test_every_module_is_reached_from_the_program() -> None:
    assert sorted(trees().keys() - size().reached(imports(), ENTRIES)) == []


def test_imports_inside_functions_are_followed() -> None:
    assert "vgpu_cfg.lab.building.builder" in imports()["vgpu_cfg.lab"]
    assert "vgpu_cfg.planning.planner" not in imports()["vgpu_cfg.lab"]


def test_every_field_of_a_model_is_read() -> None:
    assert sorted(unread() - FIELDS_READ_OTHERWISE.keys()) == []


def test_every_exception_of_a_field_is_needed() -> None:
    assert sorted(FIELDS_READ_OTHERWISE.keys() - unread()) == []


def test_everything_that_is_defined_is_used() -> None:
    assert sorted(unused() - USED_BY_OTHERS.keys()) == []


def test_every_exception_of_a_definition_is_needed() -> None:
    assert sorted(USED_BY_OTHERS.keys() - unused()) == []


def test_the_models_are_found() -> None:
    """Of each kind one: a model, one that inherits, a dataclass; and no field where there is none."""
    found = {(field.owner, field.name) for field in fields()}
    assert {("ShellFacts", "mig"), ("PlanFile", "defaults"), ("VmOverride", "das_settings")} <= found
    assert ("VirtualMachine", "wsdl_type") not in found
