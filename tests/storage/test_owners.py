"""The rules of who is alive, one by one; the numbers are those at the head of ``forkpoint.stores.owners``."""

import fcntl
import os
from pathlib import Path

import msgspec
import pytest
from storage_processes import Parent, child

from forkpoint.errors import OwnerTaken
from forkpoint.stores.owners import OwnerFile, Owners


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "owners"


def only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_1_an_owner_is_alive_from_its_first_entry_until_it_leaves(folder: Path) -> None:
    here, there = Owners(folder), Owners(folder)
    assert there.alive("me") is None
    here.enter("me")
    here.enter("me")
    assert (here.alive("me"), there.alive("me"), there.alive("you")) == (True, True, None)
    here.leave()
    assert list(folder.iterdir()) == []
    assert there.alive("me") is None


def test_2_two_who_ask_at_once_do_not_take_each_other_for_the_owner(folder: Path) -> None:
    here, there = Owners(folder), Owners(folder)
    here.enter("me")
    here.drop()
    asking = os.open(only_file(folder), os.O_RDWR)
    fcntl.flock(asking, fcntl.LOCK_SH)
    assert there.alive("me") is False
    os.close(asking)


def test_3_an_owner_of_this_boot_without_its_lock_is_dead(folder: Path) -> None:
    here, there = Owners(folder), Owners(folder)
    here.enter("me")
    here.drop()
    assert (here.alive("me"), there.alive("me")) == (False, False)


def test_4_an_owner_of_another_machine_or_boot_cannot_be_judged(folder: Path) -> None:
    here = Owners(folder)
    here.enter("me")
    here.drop()
    path = only_file(folder)
    said = msgspec.json.decode(path.read_bytes(), type=OwnerFile)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(said, boot="another")))
    assert here.alive("me") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"owner": 5}', b"\xff"])
def test_5_an_owner_whose_file_says_nothing_cannot_be_judged(folder: Path, content: bytes) -> None:
    here = Owners(folder)
    here.enter("me")
    here.drop()
    only_file(folder).write_bytes(content)
    assert here.alive("me") is None


def test_6_a_forked_child_keeps_nobody_alive(folder: Path) -> None:
    here = Owners(folder)
    here.enter("me")

    async def linger(parent: Parent) -> None:
        parent.say(b"here")
        parent.wait()

    with child(linger) as lingering:
        lingering.said()
        assert Owners(folder).alive("me") is True
        here.drop()
        assert Owners(folder).alive("me") is False
        lingering.tell()
        assert lingering.status() == 0


def test_7_a_sweep_takes_only_the_dead_who_hold_nothing(folder: Path) -> None:
    living, dead, other = Owners(folder), Owners(folder), Owners(folder)
    living.enter("living")
    dead.enter("dead-with-lease")
    dead.enter("dead")
    dead.drop()
    other.sweep(frozenset({"dead-with-lease"}))
    alive = {name: other.alive(name) for name in ("living", "dead-with-lease", "dead")}
    assert alive == {"living": True, "dead-with-lease": False, "dead": None}


def test_an_owner_name_belongs_to_one_open_store(folder: Path) -> None:
    here, there = Owners(folder), Owners(folder)
    here.enter("me")
    with pytest.raises(OwnerTaken):
        there.enter("me")
    here.drop()
    there.enter("me")
    assert here.alive("me") is True


def test_a_name_never_becomes_a_path(folder: Path) -> None:
    here = Owners(folder)
    for name in ("../x", "/abs", "..", "a/b", "C:\\x", "nul\0", "x" * 300, "CON", ""):
        here.enter(name)
        assert here.alive(name) is True
    assert {path.parent for path in folder.rglob("*")} == {folder}
    assert list(folder.parent.iterdir()) == [folder]
    here.leave()
