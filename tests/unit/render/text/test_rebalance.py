from __future__ import annotations

from vgpu_cfg.planning.moves.movables import Stay
from vgpu_cfg.planning.moves.rebalance import Move, MoveMethod, Rebalance, RebalanceResult, Restart
from vgpu_cfg.render.text.pool.rebalance import render_rebalance

HOT = Move("a", "vm-1", "esx-01", "esx-02", MoveMethod.VMOTION, ("grid_a100-10c",), stun_ms=900)
COLD = Move(
    "b", "vm-2", "esx-01", "esx-02", MoveMethod.COLD, ("grid_a100-10c",), why_cold="unified memory is on"
)


def told(found: Rebalance) -> str:
    lines = render_rebalance(found, "demo", "vc.example", 96)
    return " ".join(" ".join(line.plain for line in lines).split())


def test_moves_tell_how_long_they_stop_a_vm_and_why_it_must_be_off() -> None:
    text = told(Rebalance(RebalanceResult.MOVES, ("w",), (HOT, COLD)))
    assert "a esx-01 esx-02 vMotion 0.9 s grid_a100-10c" in text
    assert "COLD b: unified memory is on" in text
    assert "b must be powered off during the move" in text
    assert "in this order" in text
    assert "RISK" not in text
    assert "HINT" not in text


def test_doubts_hints_and_who_stays_are_said() -> None:
    restarts = (Restart("a", "vm-1", "esx-01"), Restart("b", "vm-2", "esx-01"))
    text = told(
        Rebalance(
            RebalanceResult.MOVES, ("w",), (HOT,), uncertain_starts=("on esx-02 all fit",), restarts=restarts
        )
    )
    assert "RISK on esx-02 all fit" in text
    assert "w fits, subject to the risk above" in text
    assert (
        "HINT if ESXi selects another GPU, restarting a on esx-01 or b on esx-01 makes room without a move"
        in text
    )
    stays = (Stay("c", "esx-01", "its name is protected by the plan file"),)
    assert "STAYS c on esx-01: its name is protected" in told(
        Rebalance(RebalanceResult.NONE, ("w",), stays=stays)
    )
    assert "STAYS" not in told(Rebalance(RebalanceResult.MOVES, ("w",), (HOT,), stays=stays))
