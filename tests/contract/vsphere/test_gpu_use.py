"""The use of GPUs, read of both vCenters: neither's hosts measure a GPU unless an estate says so."""

from __future__ import annotations

from tests.contract.vcenters import VCenter
from vgpu_cfg.model.observed.inventory import Gpu, PciDevice
from vgpu_cfg.vsphere.reading.gpu_use import NO_SAMPLES


def test_counters_without_samples_are_not_measurable(vcenter: VCenter) -> None:
    gpu = Gpu(pci=PciDevice(pci_id="0000:21:00.0", vendor_id=0x10DE, device_id=0x20B5), name="A100")
    with vcenter.desk() as desk:
        hosts = [host.model_copy(update={"gpus": (gpu,)}) for host in desk.inventory().hosts]
        assert hosts
        assert desk.reader.read_gpu_use(hosts, 7).unread == NO_SAMPLES
