"""Approvals in a plan file or on the command line for effects on objects outside the plan."""

from __future__ import annotations

from enum import StrEnum


class Approval(StrEnum):
    """Actions that require the plan file's `allow`, or `--allow WORD` of the command.

    NETWORK: links of other VMs, or of VMkernel NICs, go down and up. TRAINING: a training that runs in a
    guest is ended. IRREVERSIBLE: something is changed that cannot be changed back.
    """

    NETWORK = "network"
    TRAINING = "training"
    IRREVERSIBLE = "irreversible"
