"""What an exercise can let be wrong in a guest: each by a word, with how much of it."""

from __future__ import annotations

WORDS = {
    "clock": "seconds by which its clock is ahead; behind with a minus",
    "framebuffer": "the MiB that its GPUs have",
    "gpu": "the name that its GPUs show",
    "health": "a path of nvidia-smi's report and its value, as in Remapped Rows/Pending=Yes",
    "licence": "hours for which its licence still holds",
    "log": "a line of the kernel's log",
    "image": "another content of its images",
    "memlock": "the KiB that its containers may lock",
    "metrics": "down: its exporters answer nothing",
    "mount": "gone: its shared folder is not mounted",
    "nccl": "silent: NCCL says nothing of its ways; socket: it goes by TCP",
    "other": "another machine answers at its address",
    "pcie": "the PCIe link of its NICs, as in 8.0 8",
    "perftest": "no-cuda: its perftest was built without CUDA",
    "send": "the most that its NICs send, in Gb/s",
    "shm": "the MiB of /dev/shm in its worker",
}
