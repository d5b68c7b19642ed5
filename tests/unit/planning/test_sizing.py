"""What a model takes, against the worked examples of the papers, and what must hold of every estimate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.catalog.servers import GpuForm, Server, load_board_power, load_servers
from vgpu_cfg.planning.sizing import (
    Candidate,
    Model,
    Optimizer,
    Precision,
    Way,
    room_of,
    size_framebuffer,
    size_model,
)

BOARDS = load_catalog().boards


def model(parameters: float, **changed: object) -> Model:
    values = {
        "precision": Precision.BF16,
        "optimizer": Optimizer.ADAMW,
        "sequence": 2048,
        "batch": 1,
    } | changed
    return Model(parameters=round(parameters), **values)  # type: ignore[arg-type]  # of mixed kinds


def sized(what: Model, workers: int, *boards: str) -> list[Candidate]:
    return size_model(what, workers, [BOARDS[key] for key in boards], load_board_power(), load_servers())


# -------------------------------------------------------------- memory


def test_gpt_2_takes_24_gb_as_the_zero_paper_says() -> None:
    assert model(1.5e9).state_bytes == 24_000_000_000


@pytest.mark.parametrize(
    ("precision", "optimizer", "bytes_each"),
    [
        (Precision.BF16, Optimizer.ADAMW, 16),
        (Precision.FP16, Optimizer.MOMENTUM, 12),
        (Precision.BF16, Optimizer.SGD, 8),
        (Precision.FP32, Optimizer.ADAMW, 16),
        (Precision.FP32, Optimizer.SGD, 8),
    ],
)
def test_bytes_of_a_parameter(precision: Precision, optimizer: Optimizer, bytes_each: int) -> None:
    found = model(1e9, precision=precision, optimizer=optimizer)
    assert found.state_bytes == bytes_each * 10**9


def test_the_shape_of_gpt_3_comes_out_as_published() -> None:
    found = model(175e9)
    assert (found.layers, found.hidden) == (97, 12416)  # published: 96 and 12288


def test_activations_of_a_layer_are_34_sbh() -> None:
    found = model(175e9)
    assert found.most_activation_bytes == 34 * 97 * 2048 * 12416
    assert found.least_activation_bytes == (2 * 97 + 34) * 2048 * 12416


@given(
    st.integers(10**6, 10**12), st.integers(0, 10**12), st.sampled_from(Precision), st.sampled_from(Optimizer)
)
def test_more_of_a_model_never_takes_less(
    parameters: int, more: int, precision: Precision, optimizer: Optimizer
) -> None:
    small = model(parameters, precision=precision, optimizer=optimizer)
    large = model(parameters + more, precision=precision, optimizer=optimizer)
    assert large.state_bytes >= small.state_bytes
    assert large.most_activation_bytes >= small.most_activation_bytes
    assert small.least_activation_bytes <= small.most_activation_bytes + 34 * 2048 * small.hidden


# -------------------------------------------------------------- candidates


def test_a_small_model_takes_a_part_of_a_gpu() -> None:
    first = sized(model(0.3e9), 4, "A100DX")[0]
    assert (first.way, first.data, first.tensor, first.pipeline) == (Way.PART, 4, 1, 1)
    assert first.gpus == 1


def test_a_model_of_seven_billion_is_cut_over_nvlink_and_not_where_there_is_none() -> None:
    (hgx,) = sized(model(7e9), 8, "H100XM")
    assert (hgx.way, hgx.profile, hgx.tensor * hgx.data) == (Way.NVLINK, "nvidia_h100xm-80c", 8)
    cards = sized(model(7e9), 8, "L40S")
    assert {card.way for card in cards} == {Way.SEVERAL_VMS}
    assert {card.tensor for card in cards} == {1}


def test_too_few_workers_have_no_candidate() -> None:
    assert sized(model(70e9), 1, "L40S") == []


def test_what_no_document_says_is_unknown() -> None:
    (found,) = sized(model(7e9), 8, "B200X")[:1]
    assert found.step_seconds is None
    assert found.nic_gbps is None
    assert found.boards_watts is None


def test_a_step_is_6nd_by_the_peak_and_what_large_runs_had_of_it() -> None:
    (found,) = sized(model(7e9), 8, "H100XM")
    assert found.step_seconds is not None
    ideal = 6 * 7e9 * 2048 / found.tensor / 989e12
    assert found.step_seconds.least == pytest.approx(ideal / 0.462)
    assert found.step_seconds.most == pytest.approx(ideal / 0.213 * 4 / 3)


def test_one_replica_sends_no_gradients() -> None:
    (found,) = sized(model(7e9), 2, "H100XM")
    assert found.data == 1
    assert found.nic_gbps is not None
    assert found.nic_gbps.most == 0


def test_a_gradient_goes_round_the_ring_within_a_step() -> None:
    (found,) = sized(model(7e9), 8, "H100XM")
    assert found.nic_gbps is not None
    assert found.step_seconds is not None
    sent = 2 * (found.data - 1) / found.data * 14e9 / found.tensor * 8
    assert found.nic_gbps.most * 1e9 * found.step_seconds.least == pytest.approx(sent)


@pytest.mark.parametrize("parameters", [0.3e9, 1.3e9, 7e9, 30e9, 70e9])
def test_ranks_make_the_workers_and_the_states_fit(parameters: float) -> None:
    what = model(parameters)
    for found in size_model(what, 64, BOARDS.values(), load_board_power(), load_servers()):
        assert found.data * found.tensor * found.pipeline == 64
        each = what.state_bytes / found.tensor / found.pipeline
        assert each < found.framebuffer_mib * 1024 * 1024
        assert found.memory_mib == 2 * found.gpus * BOARDS[found.board].framebuffer_mib


def test_a_framebuffer_takes_the_smallest_profile_that_has_it() -> None:
    (found,) = size_framebuffer(40 * 1024, 4, [BOARDS["L40S"]], load_board_power(), load_servers())
    assert (found.profile, found.gpus, found.boards_watts) == ("nvidia_l40s-48c", 4, 1400)
    assert size_framebuffer(50 * 1024, 4, [BOARDS["L40S"]], load_board_power(), load_servers()) == []


# -------------------------------------------------------------- the room


def test_a_room_is_its_servers_times_what_each_takes() -> None:
    dgx = next(server for server in load_servers() if server.key == "DGX H100")
    room = room_of(dgx, 17)
    assert (room.servers, room.watts, room.rack_units, room.switch_ports) == (3, 30600, 24, 24)
    assert room.btu_per_hour == pytest.approx(30600 * 3.412142, abs=1)


def test_what_a_maker_does_not_say_is_not_made_up() -> None:
    xe9680 = next(server for server in load_servers() if server.key == "PowerEdge XE9680")
    room = room_of(xe9680, 17)
    assert (room.servers, room.rack_units, room.power_supplies) == (3, 18, 18)
    assert (room.watts, room.btu_per_hour, room.switch_ports) == (None, None, None)


@pytest.mark.parametrize(
    ("server", "taken", "there"),
    [
        ("PowerEdge R760xa", 20, None),
        ("PowerEdge XE9680", 0, 30),
        ("DGX H100", 0, None),
    ],
)
def test_boards_take_slots_and_modules_none(server: str, taken: int, there: int | None) -> None:
    room = room_of(next(one for one in load_servers() if one.key == server), 17)
    assert (room.gpu_slots, room.pcie_slots) == (taken, there)


@pytest.mark.parametrize("server", load_servers(), ids=lambda server: server.key)
def test_boards_with_peers_on_an_hgx_board_are_modules(server: Server) -> None:
    """The catalogue knows groups of four and more of modules alone; bridges join two boards."""
    groups = [max(BOARDS[key].nvlink_groups, default=0) for key in server.boards]
    assert all(group >= 4 for group in groups) is (server.form is GpuForm.SXM)


def test_a_server_with_fewer_gpus_than_share_a_layer_is_none() -> None:
    in_eight, in_two = sized(model(70e9), 64, "A100X")[0], sized(model(3e9), 8, "A100X")[0]
    assert (in_eight.tensor, in_two.tensor) == (8, 2)
    assert [room.server for room in in_eight.rooms] == ["DGX A100"]
    assert [room.server for room in in_two.rooms] == ["DGX A100", "DGX Station A100"]


def test_boards_that_share_a_layer_need_a_server_that_joins_them() -> None:
    (joined,) = (one for one in sized(model(7e9), 8, "H100") if one.tensor == 2)
    (alone,) = (one for one in sized(model(3e9), 8, "H100") if one.tensor == 1)
    assert "PowerEdge R760xa" in [room.server for room in joined.rooms]
    assert "PowerEdge R760" not in [room.server for room in joined.rooms]
    assert "PowerEdge R760" in [room.server for room in alone.rooms]


def test_servers_and_powers_name_boards_of_the_catalogue() -> None:
    assert {key for server in load_servers() for key in server.boards} | set(load_board_power()) <= set(
        BOARDS
    )
    for server in load_servers():
        for key in server.boards:
            if key in load_board_power() and server.max_watts is not None:
                assert (
                    server.max_watts > 0.9 * server.gpus * load_board_power()[key].watts or server.gpus == 4
                )
