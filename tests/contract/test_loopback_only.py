"""The contract tests talk to servers on this machine, and to no other."""

from __future__ import annotations

import socket

import pytest
from pytest_socket import SocketConnectBlockedError


def test_another_machine_is_out_of_reach() -> None:
    # The guard warns before it raises, and here a warning is an error. 192.0.2.0/24 is nobody's (RFC 5737).
    with socket.socket() as connection, pytest.raises((SocketConnectBlockedError, UserWarning)):
        connection.connect(("192.0.2.1", 443))


def test_this_machine_is_in_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address, timeout=10) as client, server.accept()[0] as accepted:
            client.sendall(b"?")
            assert accepted.recv(1) == b"?"
