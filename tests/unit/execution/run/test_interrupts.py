from __future__ import annotations

import signal

import pytest

from vgpu_cfg.execution import stop_on_interrupt


def test_the_first_signal_is_noted_and_the_second_interrupts() -> None:
    told: list[str] = []
    with stop_on_interrupt(lambda: told.append("once")) as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert told == ["once"]


def test_ctrl_c_means_what_it_meant_before_once_the_run_is_over() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
