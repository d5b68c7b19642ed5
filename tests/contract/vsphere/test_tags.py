"""Tags of VMs over the REST side, on both vCenters; and what becomes of its session."""

from __future__ import annotations

import pytest

from tests.contract.vcenters import Desk, FixedClock, VCenter, fresh
from tests.contract.vsphere.test_session import token_of
from tests.contract.vsphere.test_vms import SMALL, Place, desk, place
from vgpu_cfg.errors import LoginFailed, VCenterError
from vgpu_cfg.model.observed.own_items import TagCategory
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.reading.tags import CATEGORIES, TAGS, read_categories
from vgpu_cfg.vsphere.wire.session import Session

__all__ = ["desk", "place"]


def made(
    session: Session, *tags: str, cardinality: str = "MULTIPLE", kind: str = "VirtualMachine"
) -> TagCategory:
    """Make a category with tags, as an administrator would, and read it."""
    name = fresh("category")
    spec = {"name": name, "description": "", "cardinality": cardinality, "associable_types": [kind]}
    category = session.rest.act(CATEGORIES, "", {"create_spec": spec}, "making a category")
    for tag in tags:
        more = {"name": tag, "description": "", "category_id": category}
        session.rest.act(TAGS, "", {"create_spec": more}, "making a tag")
    return next(one for one in read_categories(session, frozenset({name})) if one.name == name)


def ids(category: TagCategory, *names: str) -> list[str]:
    return [tag.id for tag in category.tags if tag.name in names]


def test_categories_are_read_with_the_tags_of_those_that_were_asked_for(desk: Desk) -> None:
    found, other = (
        made(desk.session, "b", "a", cardinality="SINGLE"),
        made(desk.session, "c", kind="HostSystem"),
    )
    assert (found.is_single, found.is_for_vms, {tag.name for tag in found.tags}) == (True, True, {"a", "b"})
    assert (other.is_single, other.is_for_vms) == (False, False)
    again = {one.name: one for one in read_categories(desk.session, frozenset({other.name}))}
    assert again[found.name].tags == ()
    assert [str(tag) for tag in again[other.name].tags] == [f"{other.name}/c"]


def test_tags_are_given_and_taken_and_read_with_a_plans_vms(desk: Desk, place: Place) -> None:
    team = made(desk.session, "ml", "ops")
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    name = desk.vm(moid).name
    scope = ReadScope(vm_names=frozenset({name}), tag_categories=frozenset({team.name}))

    def shown() -> object:
        detail = desk.inventory(scope).vm_by_moid[moid].detail
        return detail and detail.tags

    assert shown() == {}
    desk.writer.set_tags(moid, [], ids(team, "ml", "ops"))
    assert shown() == {team.name: ("ml", "ops")}
    desk.writer.set_tags(moid, ids(team, "ml"), ids(team, "ops"))
    assert shown() == {team.name: ("ops",)}
    assert desk.reader.read_attached_tags([moid]) == {moid: frozenset(ids(team, "ops"))}
    inventory = desk.inventory(scope)
    assert inventory.tag_category(team.name) == team
    assert all(vm.detail is None or vm.detail.tags is None for vm in inventory.vms if vm.name != name)


def test_a_tag_that_is_not_there_is_an_error_with_vcenters_words(desk: Desk, place: Place) -> None:
    moid = desk.made(desk.writer.create_vm(place.from_scratch(SMALL)))
    with pytest.raises(VCenterError, match="not found"):
        desk.writer.set_tags(moid, [], ["urn:vmomi:InventoryServiceTag:no:GLOBAL"])


def test_who_asks_for_no_tags_pays_no_round_trip_and_leaves_no_session(vcenter: VCenter) -> None:
    with vcenter.session() as session:
        VCenterReader(session, FixedClock()).read_inventory(ReadScope())
        assert session.rest.round_trips == 0
    with vcenter.session() as session:
        session.rest.get(CATEGORIES, "reading")
        assert session.rest.round_trips == 2
        session.rest.get(CATEGORIES, "reading")
        assert session.rest.round_trips == 3
    assert session.rest.round_trips == 4, "it was left"
    if vcenter.lab is not None:
        assert vcenter.lab.sessions.all() == []


def test_a_token_is_a_login_at_the_rest_side_too(vcenter: VCenter) -> None:
    session = Session(vcenter.connect(), "vc", "", "", token=lambda: token_of(vcenter.user))
    with session:
        assert isinstance(read_categories(session, frozenset()), tuple)


def test_a_session_that_has_ended_is_made_again_once(vcenter: VCenter) -> None:
    with vcenter.session() as session:
        session.rest.get(CATEGORIES, "reading")
        session.rest._session = "somebody else's"
        session.rest.get(CATEGORIES, "reading")
        assert session.rest.round_trips == 5


def test_a_password_that_no_longer_holds_is_said_to(vcenter: VCenter) -> None:
    words = [vcenter.password]
    with Session(vcenter.connect(), "vc", vcenter.user, lambda: words[0]) as session:
        words[0] = "another"
        with pytest.raises(LoginFailed, match="REST API rejects the login"):
            session.rest.get(CATEGORIES, "reading")
