"""Recorded vCenters: what went over the wire once, scrubbed, and played back without a vCenter."""

from __future__ import annotations

from vgpu_cfg.recording.file import Exchange, Recording, load_recording, save_recording
from vgpu_cfg.recording.recorder import PlayingTransport, RecordingTransport

__all__ = [
    "Exchange",
    "PlayingTransport",
    "Recording",
    "RecordingTransport",
    "load_recording",
    "save_recording",
]
