"""What of a VM's stack fits a branch of the host's driver, today and at a branch to come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.guest_looks import FitsBranch, VmStack
from vgpu_cfg.planning.guests.compatibility import StackFacts, about_branch, stack_of

A100 = ("NVIDIA A100-PCIE-40GB", load_catalog().boards["A100"])
V100 = ("Tesla V100-PCIE-16GB", load_catalog().boards["V100"])

FACTS = StackFacts(
    vm="hvd-01",
    host="esx-01",
    host_driver="580.95.02",
    host_branch="580",
    boards=(A100,),
    guest_driver="580.95.05",
    guest_branch="580",
    licence="Licensed",
    image="nvcr.io/nvidia/pytorch:25.02-py3",
    cuda="12.8.0",
    nccl="2.25.1",
    framework="PyTorch 2.7.0",
)


def fits(stack: VmStack, name: str) -> tuple[str, str]:
    (part,) = [one for one in stack.parts if one.name == name]
    return part.today.fits.value, part.target.fits.value


@pytest.mark.parametrize(
    ("facts", "target", "part", "expected"),
    [
        (FACTS, "595", "guest driver", ("yes", "yes")),
        (replace(FACTS, guest_branch="550"), "595", "guest driver", ("no", "no")),
        (replace(FACTS, guest_branch="570"), "595", "guest driver", ("yes", "unknown")),
        (replace(FACTS, guest_branch="610"), "595", "guest driver", ("unknown", "unknown")),
        (replace(FACTS, guest_branch=""), "595", "guest driver", ("unknown", "unknown")),
        (FACTS, "610", "guest driver", ("yes", "unknown")),
        (replace(FACTS, guest_branch="470", has_vgpus=False), "595", "guest driver", ("yes", "yes")),
        (FACTS, "595", "host driver", ("yes", "unknown")),
        (FACTS, "610", "host driver", ("yes", "unknown")),
        (replace(FACTS, boards=(V100,)), "595", "host driver", ("yes", "no")),
        (replace(FACTS, boards=(V100,)), "580", "host driver", ("yes", "yes")),
        (replace(FACTS, host_branch=""), "595", "host driver", ("unknown", "unknown")),
        (FACTS, "595", "license server", ("yes", "unknown")),
        (replace(FACTS, licence="Unlicensed"), "595", "license server", ("unknown", "unknown")),
        (FACTS, "595", "image CUDA", ("yes", "yes")),
        (replace(FACTS, cuda="13.0.1", guest_branch="570"), "580", "image CUDA", ("no", "no")),
        (replace(FACTS, cuda="13.0.1", guest_branch="550"), "595", "image CUDA", ("no", "yes")),
        (replace(FACTS, cuda="14.0"), "595", "image CUDA", ("unknown", "unknown")),
        (replace(FACTS, cuda=""), "595", "image CUDA", ("yes", "yes")),
        (replace(FACTS, cuda="", image="corp/train:1"), "595", "image CUDA", ("unknown", "unknown")),
        (FACTS, "595", "image NCCL", ("yes", "yes")),
        (replace(FACTS, nccl=""), "595", "image NCCL", ("yes", "yes")),
        (replace(FACTS, nccl="", image="corp/train:1"), "595", "image NCCL", ("unknown", "unknown")),
        (replace(FACTS, lacks_uvm=True), "595", "image NCCL", ("no", "no")),
        (replace(FACTS, lacks_uvm=True, nccl="2.22.3"), "595", "image NCCL", ("yes", "yes")),
        (replace(FACTS, lacks_uvm=True, nccl=""), "595", "image NCCL", ("no", "no")),
        (replace(FACTS, lacks_uvm=True, has_vgpus=False), "595", "image NCCL", ("yes", "yes")),
        (replace(FACTS, guest_branch=""), "595", "image CUDA", ("unknown", "unknown")),
        (FACTS, "595", "framework", ("yes", "yes")),
        (FACTS, "595", "gpu-operator", ("unknown", "unknown")),
    ],
)
def test_each_part_beside_a_branch(
    facts: StackFacts, target: str, part: str, expected: tuple[str, str]
) -> None:
    assert fits(stack_of(facts, target), part) == expected


def test_what_is_known_names_its_source_and_what_is_not_says_what_to_ask() -> None:
    for facts in (FACTS, replace(FACTS, guest_branch="550", cuda="", boards=(V100,)), StackFacts("a", "b")):
        for target in ("580", "595", "610"):
            for part in stack_of(facts, target).parts:
                for verdict in (part.today, part.target):
                    assert verdict.why
                    assert bool(verdict.ask) == (verdict.fits is FitsBranch.UNKNOWN), part
                    assert bool(verdict.source) == (verdict.fits is not FitsBranch.UNKNOWN), part


def test_without_an_image_nothing_of_one_is_asked() -> None:
    names = [part.name for part in stack_of(replace(FACTS, image=""), "595").parts]
    assert names == ["host driver", "guest driver", "license server", "gpu-operator"]


@pytest.mark.parametrize(
    ("guest", "target", "first"),
    [
        ("580", "595", "upgrade the host first: R595 supports the guest's R580"),
        ("570", "595", "upgrade the guest first, to R580, which R580 and R595 both support"),
        ("550", "595", "upgrade the guest first, to R580, which R580 and R595 both support"),
        ("610", "610", None),
        ("", "595", None),
    ],
)
def test_which_goes_first(guest: str, target: str, first: str | None) -> None:
    order = stack_of(replace(FACTS, guest_branch=guest), target).order
    assert (order[0] if order else None) == first


def test_a_host_too_far_behind_goes_by_a_branch_between() -> None:
    facts = replace(FACTS, host_branch="525", guest_branch="525")
    assert stack_of(facts, "595").order == (
        "no guest driver is compatible with both R525 and R595; use an intermediate branch",
    )


def test_what_is_known_of_a_branch() -> None:
    assert about_branch("595")[1].startswith("Released 2026-03 (")
    assert "end of life unknown" in about_branch("570")[1]
    assert "570 (unconfirmed)" in about_branch("595")[2]
    assert about_branch("610")[0].startswith("R610 is not a documented branch")
