"""RDMA's programs in a guest: devices, GIDs, QoS, and the firmware of a NIC that is passed through.

`ibv_devinfo` and `show_gids` print as rdma-core's and MLNX_OFED's do, `mlnx_qos` as REFERENCE has it;
`mlxconfig` is the host's, over the NICs that the guest has whole. Widths are recalled.

The output, refusals and statuses of `dcb` are those of iproute2 6.1, which was run against a kernel of its
own, for a port of mlx5's that the guest has whole; a port trusts DSCP while one of its DSCPs has a priority.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from vgpu_cfg.lab.guest.shell import Result, Session
from vgpu_cfg.lab.guest.system.gpus import driven_gpus
from vgpu_cfg.lab.guest.system.nics import SeenNic, find_nic, is_down, nics_of_guest
from vgpu_cfg.lab.guest.system.rdma import active_mtu, gids_of, has_dcb, has_peermem, nic_of_device, rdma_nics
from vgpu_cfg.lab.guest.system.sysfs import FULL_STACKS, firmware_of
from vgpu_cfg.lab.guest.tools.base import fail, out
from vgpu_cfg.lab.nvidia.gpus import Reply
from vgpu_cfg.lab.nvidia.mlxconfig import answer, read_order
from vgpu_cfg.lab.state.guest import Guest, RoceSetting
from vgpu_cfg.lab.state.host import Host, Nic

MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
NOT_INSTALLED = 127


def _missing(name: str) -> Result:
    return Result(NOT_INSTALLED, err=f"sh: 1: {name}: not found\n".encode())


def ibv_devinfo(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Describe RDMA devices."""
    if session.guest.ofed == "none":
        return _missing("ibv_devinfo")
    nics = rdma_nics(session.lab.state, session.vm)
    words = list(arguments)
    if "-d" in words:
        wanted = words[words.index("-d") + 1] if words.index("-d") + 1 < len(words) else ""
        nics = [nic for nic in nics if nic.rdma == wanted]
        if not nics:
            return fail(f"IB device '{wanted}' wasn't found", status=255)
    if not nics:
        return fail("No IB devices found", status=255)
    return out(*(line for nic in nics for line in _describe(session, nic)))


def _describe(session: Session, nic: SeenNic) -> list[str]:
    guid = "".join(nic.mac.split(":"))
    shown = f"{guid[:4]}:{guid[4:6]}03:00{guid[6:8]}:{guid[8:12]}" if guid else "0000:0000:0000:0000"
    size = active_mtu(nic)
    part = nic.nic.pci.device_id if nic.nic is not None else 0
    is_infiniband = nic.nic is not None and nic.nic.is_infiniband
    state = "PORT_DOWN (1)" if is_down(session.vm, nic) else "PORT_ACTIVE (4)"
    return [
        f"hca_id:\t{nic.rdma}",
        "\ttransport:\t\t\tInfiniBand (0)",
        f"\tfw_ver:\t\t\t\t{firmware_of(session.guest)}",
        f"\tnode_guid:\t\t\t{shown}",
        f"\tsys_image_guid:\t\t\t{shown}",
        "\tvendor_id:\t\t\t0x02c9",
        f"\tvendor_part_id:\t\t\t{part}",
        "\thw_ver:\t\t\t\t0x0",
        "\tboard_id:\t\t\tMT_0000000359",
        "\tphys_port_cnt:\t\t\t1",
        "\t\tport:\t1",
        f"\t\t\tstate:\t\t\t{'PORT_INIT (2)' if is_infiniband else state}",
        "\t\t\tmax_mtu:\t\t4096 (5)",
        f"\t\t\tactive_mtu:\t\t{size} ({MTU_CODES[size]})",
        "\t\t\tsm_lid:\t\t\t0",
        "\t\t\tport_lid:\t\t0",
        "\t\t\tport_lmc:\t\t0x00",
        f"\t\t\tlink_layer:\t\t{'InfiniBand' if is_infiniband else 'Ethernet'}",
        "",
    ]


def show_gids(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """List the GID tables; MLNX_OFED and DOCA-OFED have this, rdma-core has not."""
    if session.guest.ofed not in FULL_STACKS:
        return _missing("show_gids")
    nics = [
        nic for nic in rdma_nics(session.lab.state, session.vm) if not arguments or nic.rdma == arguments[0]
    ]
    lines = [
        "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV",
        "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---",
    ]
    count = 0
    for nic in nics:
        for gid in gids_of(nic):
            ipv4 = f"{gid.ipv4}  " if gid.ipv4 else "\t"
            lines.append(f"{nic.rdma}\t1\t{gid.index}\t{gid.gid}\t{ipv4}\t{gid.version}\t{nic.name}")
            count += 1
    return out(*lines, f"n_gids_found={count}")


def ibdev2netdev(session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show the interface of an RDMA device."""
    if session.guest.ofed not in FULL_STACKS:
        return _missing("ibdev2netdev")
    return out(
        *(
            f"{nic.rdma} port 1 ==> {nic.name} ({'Down' if is_down(session.vm, nic) else 'Up'})"
            for nic in rdma_nics(session.lab.state, session.vm)
        )
    )


def rdma_link(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Answer `rdma link`, iproute2's."""
    if list(arguments[:1]) != ["link"]:
        return fail("Usage: rdma [ OPTIONS ] OBJECT { COMMAND | help }", status=255)
    return out(
        *(
            f"link {nic.rdma}/1 state {_link_state(session, nic)} netdev {nic.name} "
            for nic in rdma_nics(session.lab.state, session.vm)
        )
    )


def _link_state(session: Session, nic: SeenNic) -> str:
    return f"{'DOWN' if is_down(session.vm, nic) else 'ACTIVE'} physical_state " + (
        "DISABLED" if is_down(session.vm, nic) else "LINK_UP"
    )


def mlnx_qos(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show or set trust and PFC of an interface."""
    if session.guest.ofed not in FULL_STACKS:
        return _missing("mlnx_qos")
    words, name, trust, pfc = list(arguments), "", "", ""
    while words:
        word, _, value = words.pop(0).partition("=")
        if word in ("-i", "--trust", "--pfc", "-p"):
            value = value or (words.pop(0) if words else "")
            name, trust, pfc = (
                value if word == "-i" else name,
                value if word == "--trust" else trust,
                value if word in ("--pfc", "-p") else pfc,
            )
    nic = find_nic(nics_of_guest(session.lab.state, session.vm), name=name)
    if nic is None or not nic.is_whole:
        return fail(f"Interface {name} is not supported" if nic else f"{name}: no such device")
    now = session.guest.roce.setdefault(nic.mac, RoceSetting())
    if trust or pfc:
        now.trust = trust or now.trust
        if pfc:
            now.priority = pfc.split(",").index("1") if "1" in pfc.split(",") else None
        session.lab.state.touch(session.vm)
    enabled = "   ".join("1" if index == now.priority else "0" for index in range(8))
    return out(
        "DCBX mode: OS controlled",
        f"Priority trust state: {now.trust}",
        "default priority:",
        "Receive buffer size (bytes): 262016,0,0,0,0,0,0,0,",
        "Cable len: 7",
        "PFC configuration:",
        "\tpriority    0   1   2   3   4   5   6   7",
        f"\tenabled     {enabled}   ",
        f"\tbuffer      {'   '.join('0' for _ in range(8))}   ",
        "tc: 0 ratelimit: unlimited, tsa: vendor",
        "\t priority:  0",
    )


def _firmware_names(nics: Sequence[Nic]) -> dict[str, Nic]:
    found: dict[str, Nic] = {}
    count: dict[int, int] = {}
    for nic in nics:
        device = nic.pci.device_id
        found[f"mt{device}_pciconf{count.get(device, 0)}"] = nic
        count[device] = count.get(device, 0) + 1
    return found


def mlxconfig(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Query or set firmware parameters of a NIC that is handed through."""
    if session.guest.ofed not in FULL_STACKS:
        return _missing("mlxconfig")
    return _firmware(session, arguments)


def has_mstflint(guest: Guest) -> bool:
    """Whether the distribution's tool for the firmware is there: the RoCE module brings it."""
    return "vgpu-cfg-roce" in guest.services


def mstconfig(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Do as mlxconfig does, from mstflint."""
    if session.guest.ofed not in FULL_STACKS and not has_mstflint(session.guest):
        return _missing("mstconfig")
    return _firmware(session, arguments)


def _firmware(session: Session, arguments: Sequence[str]) -> Result:
    seen = [
        nic for nic in nics_of_guest(session.lab.state, session.vm) if nic.is_whole and nic.nic is not None
    ]
    names = _firmware_names([nic.nic for nic in seen if nic.nic is not None])
    by_address = {nic.pci_id: nic.nic for nic in seen if nic.nic is not None}
    by_address |= {address.removeprefix("0000:"): nic for address, nic in by_address.items()}
    by_address |= {nic.rdma: nic.nic for nic in seen if nic.nic is not None and nic.rdma}
    order = read_order(list(arguments))
    nic = None
    if order is not None:
        nic = names.get(order.device.rpartition("/")[2]) or by_address.get(order.device)
    host = session.lab.state.get(session.vm.host, Host)
    return _result(answer(session.lab, host, order, nic))


def mst(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Start mst, or list its devices."""
    if session.guest.ofed not in FULL_STACKS:
        return _missing("mst")
    nics = [
        nic.nic
        for nic in nics_of_guest(session.lab.state, session.vm)
        if nic.is_whole and nic.nic is not None
    ]
    if list(arguments) == ["start"]:
        return out("Starting MST (Mellanox Software Tools) driver set", "Loading MST PCI module - Success")
    if list(arguments[:1]) == ["status"]:
        names = (f"/dev/mst/{name}" for name in _firmware_names(nics))
        return out("MST modules:", "------------", "MST devices:", "------------", *names)
    return fail("Usage: mst {start|stop|status|restart|version}")


def _result(reply: Reply) -> Result:
    return Result(reply.status, reply.stdout.encode(), reply.stderr.encode())


def lsmod(session: Session, _arguments: Sequence[str], _stdin: bytes) -> Result:
    """List kernel modules, as far as clients ask for them."""
    state, vm = session.lab.state, session.vm
    loaded = {"vmw_vmci": 94208, "vmxnet3": 77824}
    if driven_gpus(state, vm):
        loaded |= {"nvidia_uvm": 1781760, "nvidia": 9699328}
    if session.guest.has_nouveau:
        loaded["nouveau"] = 2306048
    if rdma_nics(state, vm):
        loaded |= {"mlx5_ib": 442368, "mlx5_core": 2162688, "ib_uverbs": 163840, "rdma_cm": 131072}
    if has_peermem(state, vm):
        loaded["nvidia_peermem"] = 16384
    return out(
        "Module                  Size  Used by",
        *(f"{name:<20} {size:>8}  0" for name, size in loaded.items()),
    )


def nic_for(session: Session, device: str) -> SeenNic | None:
    """Return the NIC of an RDMA device, or the first one where none is named."""
    nics = rdma_nics(session.lab.state, session.vm)
    return nic_of_device(session.lab.state, session.vm, device) if device else next(iter(nics), None)


BUFFER_BYTES = 262016
NUMERIC, JSON = "-N", "-j"


def dcb(session: Session, arguments: Sequence[str], _stdin: bytes) -> Result:
    """Show a port's values."""
    if not has_dcb(session.guest):
        return Result(127, err=b"sh: 1: dcb: not found\n")
    words = [word for word in arguments if word not in (NUMERIC, JSON)]
    match words:
        case [kind, "show", "dev", name, *fields]:
            pass
        case [kind, *_] if kind not in ("pfc", "app", "ets", "buffer", "dcbx"):
            return fail(f'Object "{kind}" is unknown', status=1)
        case _:
            return fail("the lab's dcb can show a port but not change it", status=1)
    nic = find_nic(nics_of_guest(session.lab.state, session.vm), name=name)
    if nic is None:
        return fail("Attribute read: No such device", status=1)
    if not nic.is_whole:
        return fail("Attribute read: Operation not supported", status=1)
    shown = _shown(kind, session.guest.roce.get(nic.mac, RoceSetting()))
    unknown = next((field for field in fields if field.replace("-", "_") not in shown), None)
    if unknown is not None:
        return fail(f'What is "{unknown}"?', status=1)
    chosen = {key: value for key, value in shown.items() if not fields or key.replace("_", "-") in fields}
    if JSON in arguments:
        return out(json.dumps(chosen, separators=(",", ":")))
    return out(*(_line(key, value) for key, value in chosen.items()))


def _shown(kind: str, now: RoceSetting) -> dict[str, object]:
    protected = [number == now.priority for number in range(8)]
    match kind:
        case "pfc":
            return {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": protected}
        case "app":
            return {"dscp_prio": [[now.dscp, now.priority]]} if now.trust == "dscp" else {}
        case "ets":
            return {"willing": False, "ets_cap": 8, "prio_tc": list(range(8))}
        case "buffer":
            half = BUFFER_BYTES // 2 if any(protected) else 0
            sizes = [BUFFER_BYTES - half, half, *[0] * 6]
            return {
                "prio_buffer": [int(flag) for flag in protected],
                "buffer_size": sizes,
                "total_size": BUFFER_BYTES,
            }
        case _:
            return {"host": True, "ieee": True}


def _line(key: str, value: object) -> str:
    name = key.replace("_", "-")
    if isinstance(value, list):
        pairs = value if value and isinstance(value[0], list) else list(enumerate(value))
        return f"{name} " + "".join(f"{at}:{_word(one)} " for at, one in pairs)
    return f"{name} {_word(value)} "


def _word(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
