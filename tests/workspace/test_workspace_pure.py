"""Trees, plans, ignore rules, packings and diffs as values: no file is touched here."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forkpoint.workspace import Change, File, Folder, Kept, Link, Unheld, packing
from forkpoint.workspace.ignore import IgnoreInvalid, parse_ignore
from forkpoint.workspace.memo import COARSE_WINDOW_NS, FINE_WINDOW_NS, decode_memo, is_young
from forkpoint.workspace.plan import By, Passage, Plan, PlanEscapes, plan_rewind
from forkpoint.workspace.textdiff import diff_of
from forkpoint.workspace.tree import (
    Entry,
    TreeInvalid,
    changed,
    decode_folder,
    decode_tree,
    differences,
    digest_in,
    digest_of,
    encode_folder,
    encode_tree,
    lookup,
    shown,
    tree_id,
    walk,
)

A, B, C = (File(0o644, 1, digest_of(c)) for c in (b"a", b"b", b"c"))
DIR = Folder(0o755, bytes(32))
EMPTY = digest_of(encode_folder({}))


class Shelf:
    """Folders by digest, and how many were read."""

    def __init__(self) -> None:
        self.data = {EMPTY: encode_folder({})}
        self.reads = 0

    def load(self, digest: bytes) -> dict[bytes, Entry]:
        self.reads += 1
        return decode_folder(self.data[digest])

    def keep(self, digest: bytes, data: bytes) -> None:
        self.data[digest] = data

    def tree(self, paths: dict[bytes, Entry]) -> Folder:
        folders = {p[:i]: DIR for p in paths for i in range(len(p)) if p[i : i + 1] == b"/"}
        return changed(self.load, self.keep, Folder(0o755, EMPTY), {**folders, **paths})


# -- trees ---------------------------------------------------------------------------------------

names = st.binary(min_size=1, max_size=4).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))
entries = st.one_of(
    st.builds(File, st.integers(0, 0o7777), st.integers(0, 2**60), st.binary(min_size=32, max_size=32)),
    st.builds(Link, st.binary(min_size=1, max_size=9).filter(lambda t: b"\0" not in t)),
    st.builds(Folder, st.integers(0, 0o7777), st.binary(min_size=32, max_size=32)),
    st.builds(Unheld, st.sampled_from(["bulk", "ignored", "git"]), st.binary(max_size=4)),
)


@given(st.dictionaries(names, entries, max_size=6))
def test_a_folder_reads_back_as_it_was_and_has_one_spelling(folder: dict[bytes, Entry]) -> None:
    data = encode_folder(folder)
    assert decode_folder(data) == folder
    assert encode_folder(dict(reversed(folder.items()))) == data


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused_or_read_as_what_they_encode(data: bytes) -> None:
    try:
        folder = decode_folder(data)
    except TreeInvalid:
        return
    assert decode_folder(encode_folder(folder)) == folder


def test_a_tree_has_a_name_that_holds_its_digest() -> None:
    data = encode_tree(DIR)
    assert decode_tree(data) == DIR
    assert digest_in(tree_id(digest_of(data))) == digest_of(data)
    for bad in (b"", b"\x92\x01\xa1f", b"\x92\x02" + data[2:]):
        with pytest.raises(TreeInvalid):
            decode_tree(bad)
    for name in ("sha256:zz", "md5:" + "0" * 64, "sha256:" + "0" * 63, ""):
        with pytest.raises(ValueError, match="name of a tree"):
            digest_in(name)


def test_differences_name_every_path_once_and_read_only_what_differs() -> None:
    shelf = Shelf()
    old = shelf.tree({b"same/deep/file": A, b"d/x": A, b"d/gone": A, b"f": A, b"swap/inner": A, b"l": Link(b"a")})
    new = shelf.tree({b"same/deep/file": A, b"d/x": B, b"d/new": C, b"f": Link(b"f"), b"swap": A, b"l": Link(b"b")})
    shelf.reads = 0
    found = {c.path: c.kind for c in differences(shelf.load, old, new)}
    assert found == {
        b"d/gone": "deleted",
        b"d/new": "created",
        b"d/x": "modified",
        b"f": "swapped",
        b"l": "modified",
        b"swap": "swapped",
        b"swap/inner": "deleted",
    }
    assert shelf.reads == 5


def test_a_folder_that_is_no_longer_held_says_nothing_of_what_was_in_it() -> None:
    shelf = Shelf()
    old = shelf.tree({b"d/x": A})
    new = shelf.tree({b"d": Unheld("ignored")})
    assert [c.path for c in differences(shelf.load, old, new)] == [b"d"]
    assert [c.path for c in differences(shelf.load, new, old)] == [b"d"]


tree_paths = st.dictionaries(
    st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=3).map(b"/".join),
    st.sampled_from([A, B, Link(b"x"), DIR]),
    max_size=6,
).map(lambda t: {p: e for p, e in t.items() if not any(p.startswith(q + b"/") and t[q] != DIR for q in t)})


@given(tree_paths, tree_paths)
def test_what_differs_applied_to_one_tree_makes_the_other(left: dict[bytes, Entry], right: dict[bytes, Entry]) -> None:
    shelf = Shelf()
    old, new = shelf.tree(left), shelf.tree(right)
    found = differences(shelf.load, old, new)
    assert changed(shelf.load, shelf.keep, old, {c.path: c.after for c in found}) == new
    back = {c.path: (c.after, c.before) for c in differences(shelf.load, new, old)}
    assert back == {c.path: (c.before, c.after) for c in found}
    for path, entry in walk(shelf.load, new):
        assert lookup(shelf.load, new, path) == entry
    assert lookup(shelf.load, new, b"a/none/b") is None


def test_paths_are_shown_so_that_no_terminal_obeys_them() -> None:
    assert shown(b"a\x1b[31mb\xff\n") == "a\\x1b[31mb\\xff\\n"
    assert shown("größe".encode()) == "größe"


# -- plans ---------------------------------------------------------------------------------------


def change(path: bytes, before: Entry | None, after: Entry | None) -> Change:
    return Change(path=path, before=before, after=after)


def passage(by: By, *changes: Change, rewound_to: int | None = None) -> Passage:
    return Passage(by=by, changes={c.path: c for c in changes}, rewound_to=rewound_to)


def told(plan: Plan) -> tuple[list[bytes], list[tuple[bytes, str]]]:
    return [c.path for c in plan.changes], [(k.path, k.reason) for k in plan.kept]


@pytest.mark.parametrize("side", ["now", "target"])
@pytest.mark.parametrize("force", [False, True])
def test_what_is_not_held_on_either_side_is_kept_with_its_reason(side: str, force: bool) -> None:
    big = Unheld("too-large", b"1")
    what = change(b"f", big, A) if side == "now" else change(b"f", A, big)
    plan = plan_rewind([what], [passage("run", what)], force=force)
    assert told(plan) == ([], [(b"f", "too-large")])


def test_who_changed_a_path_decides_what_becomes_of_it() -> None:
    ours, theirs, both = change(b"o", B, A), change(b"t", B, A), change(b"b", C, A)
    present = [ours, theirs, both]
    passed = [passage("run", change(b"o", A, B), change(b"b", A, B)), passage("outside", theirs, both)]
    assert told(plan_rewind(present, passed)) == ([b"o"], [(b"b", "changed-since"), (b"t", "kept-not-ours")])
    assert told(plan_rewind(present, passed, force=True)) == ([b"b", b"o"], [(b"t", "kept-not-ours")])


def test_a_persons_change_under_a_later_one_of_the_run_is_a_conflict_too() -> None:
    present = [change(b"f", C, A)]
    passed = [passage("outside", change(b"f", A, B)), passage("run", change(b"f", B, C))]
    assert told(plan_rewind(present, passed)) == ([], [(b"f", "changed-since")])


def test_a_rewind_speaks_for_a_path_only_up_to_where_it_went_back() -> None:
    first, second = change(b"f", A, B), change(b"f", B, C)
    forced = passage("rewind", change(b"f", C, B), rewound_to=1)
    present = [change(b"f", B, A)]
    passed = [passage("run", first), passage("outside", second), forced]
    assert told(plan_rewind(present, passed)) == ([b"f"], [])
    passed = [passage("outside", first), passage("run", second), forced]
    assert told(plan_rewind(present, passed)) == ([], [(b"f", "changed-since")])
    older = [passage("outside", first), passage("rewind", second)]
    assert told(plan_rewind([change(b"f", C, A)], older)) == ([b"f"], [])


def test_a_folder_that_still_holds_something_stays() -> None:
    made = [change(b"d", DIR, None), change(b"d/e", DIR, None), change(b"d/e/ours", A, None)]
    theirs = change(b"d/e/theirs", A, None)
    plan = plan_rewind([*made, theirs], [passage("run", *made), passage("outside", theirs)])
    assert told(plan) == (
        [b"d/e/ours"],
        [(b"d", "not-empty"), (b"d/e", "not-empty"), (b"d/e/theirs", "kept-not-ours")],
    )
    assert plan.kept[0].because_of == b"d/e/theirs"


def test_a_folder_that_became_a_file_returns_only_if_nothing_else_is_in_it() -> None:
    swapped = [change(b"p", DIR, A), change(b"p/ours", A, None)]
    theirs = change(b"p/theirs", B, None)
    plan = plan_rewind([*swapped, theirs], [passage("run", *swapped), passage("outside", theirs)])
    assert told(plan)[0] == [b"p/ours"]


def test_folders_above_what_returns_are_made_whoever_removed_them() -> None:
    gone = [change(b"d", None, DIR), change(b"d/f", None, A), change(b"d/g", None, A)]
    passed = [passage("run", change(b"d/f", A, B)), passage("outside", *gone)]
    plan = plan_rewind(gone, passed, force=True)
    assert told(plan) == ([b"d", b"d/f"], [(b"d/g", "kept-not-ours")])
    assert told(plan_rewind(gone, passed)) == (
        [],
        [(b"d", "kept-not-ours"), (b"d/f", "changed-since"), (b"d/g", "kept-not-ours")],
    )


def test_what_lies_behind_a_persons_file_is_blocked_and_behind_a_link_fails_the_plan() -> None:
    inner = change(b"d/f", None, A)
    passed = [passage("run", change(b"d/f", A, B)), passage("outside", change(b"d", DIR, B), inner)]
    plan = plan_rewind([change(b"d", B, DIR), inner], passed, force=True)
    assert told(plan) == ([], [(b"d", "kept-not-ours"), (b"d/f", "blocked")])
    for force in (False, True):
        with pytest.raises(PlanEscapes):
            plan_rewind([change(b"d", Link(b".."), DIR), inner], passed, force=force)


def test_a_link_that_the_run_itself_put_there_is_taken_away() -> None:
    present = [change(b"d", Link(b".."), DIR), change(b"d/f", None, A)]
    assert told(plan_rewind(present, [passage("run", *present)])) == ([b"d", b"d/f"], [])


def test_git_folders_are_only_touched_when_asked_for() -> None:
    present = [
        change(b".git/HEAD", A, B),
        change(b"sub/.git", DIR, None),
        change(b"sub/.git/refs/heads/x", A, None),
        change(b"tree/.git", A, B),
    ]
    plan = plan_rewind(present, [passage("run", *present)])
    assert [c.path for c in plan.changes] == [b"tree/.git"]
    assert {k.reason for k in plan.kept} == {"git"}
    assert plan_rewind(present, [passage("run", *present)], git=True).kept == ()


def test_paths_narrow_a_plan_and_bring_the_folders_they_need() -> None:
    gone = [change(b"d", None, DIR), change(b"d/f", None, A), change(b"d/g", None, A), change(b"dd", None, A)]
    plan = plan_rewind(gone, [passage("run", *gone)], paths=[b"d/f"])
    assert told(plan) == ([b"d", b"d/f"], [])
    assert plan.deleted_files == 0


def test_a_kept_path_tells_its_name() -> None:
    assert Kept(path=b"\xff", reason="git").shown == "\\xff"


# -- ignore rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "named", "not_named"),
    [
        ("*.log", ["a.log", "d/a.log"], ["a.log.txt", "log"]),
        ("/top", ["top"], ["d/top"]),
        ("d/x", ["d/x"], ["e/d/x", "x"]),
        ("only/", ["only/"], ["only"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["z", "a/b"]),
        ("**/deep", ["deep", "a/b/deep"], ["deeper"]),
        ("all/**", ["all/a", "all/b/c"], ["all"]),
        ("f?[a-c][!x]", ["f1ay", "fzc9"], ["f1ax", "f1dz", "f/ay"]),
        ("*.env\n!keep.env", ["a.env"], ["keep.env"]),
        ("# c\n\n\\#x\ntrail  ", ["#x", "trail"], ["c", "# c"]),
        ("space\\ ", ["space "], ["space"]),
        ("win\r", ["win"], ["win\r"]),
        ("a+(b)", ["a+(b)"], ["aab"]),
    ],
)
def test_ignore_rules_name_what_gitignore_rules_would(rules: str, named: list[str], not_named: list[str]) -> None:
    ignore = parse_ignore(rules.encode())
    for wanted, paths in ((True, named), (False, not_named)):
        for path in paths:
            found = ignore.names(path.rstrip("/").encode(), is_folder=path.endswith("/"))
            assert found is wanted, path


@pytest.mark.parametrize("bad", [b"[", b"a[b", b"x\\", b"../a", b"a/../b", b"/", b"!", b"a\0", b"a//b", b"[z-a]"])
def test_an_ignore_line_that_cannot_be_read_is_an_error_with_its_number(bad: bytes) -> None:
    with pytest.raises(IgnoreInvalid) as caught:
        parse_ignore(b"fine\n" + bad + b"\nfine")
    assert caught.value.line == 2


# -- packings ------------------------------------------------------------------------------------

packings = [packing.RAW, packing.ZLIB, *([packing.ZSTD] if packing.best_packing() == packing.ZSTD else [])]


@pytest.mark.parametrize("how", packings)
def test_content_comes_back_whole_from_every_packing(how: int) -> None:
    for data in (b"", b"x", b"abc" * 5000, bytes(range(256)) * 9):
        used, packed = packing.pack(how, data)
        assert packing.unpack(used, packed, len(data)) == data
        piece, end = packing.packer(how)
        pieces = b"".join([piece(data[:100]), piece(data[100:]), end()])
        assert packing.unpack(how, pieces, len(data)) == data


@pytest.mark.parametrize("how", packings)
def test_packed_bytes_never_unpack_to_more_than_is_on_record(how: int) -> None:
    used, packed = packing.pack(how, bytes(1_000_000))
    for size in (0, 999, 999_999, 1_000_001):
        with pytest.raises(packing.PackingInvalid):
            packing.unpack(used, packed, size)
    if how != packing.RAW:
        with pytest.raises(packing.PackingInvalid):
            packing.unpack(how, b"not packed at all", 17)
    with pytest.raises(packing.PackingInvalid):
        packing.unpack(77, b"", 0)


def test_content_that_does_not_shrink_is_kept_as_it_is() -> None:
    noise = zlib.compress(bytes(range(256)) * 50, 9)
    assert packing.pack(packing.ZLIB, noise) == (packing.RAW, noise)


# -- stamps --------------------------------------------------------------------------------------


def test_a_stamp_proves_nothing_while_its_tick_may_not_be_over() -> None:
    now = 1_000 * 1_000_000_000 + 77
    assert is_young((1, now - FINE_WINDOW_NS, 5, 1, 0), now)
    assert not is_young((1, now - FINE_WINDOW_NS - 1, 5, 1, 0), now)
    assert is_young((1, 5, now + 10**12, 1, 0), now)
    whole = 998 * 1_000_000_000
    assert is_young((1, whole, whole, 1, 0), now)
    assert not is_young((1, whole, whole, 1, 0), whole + COARSE_WINDOW_NS + 1)


def test_a_memo_that_cannot_be_read_is_none() -> None:
    assert decode_memo(b"") is None
    assert decode_memo(b"\x93\x01\x02") is None


# -- diffs ---------------------------------------------------------------------------------------


def sized(data: bytes, mode: int = 0o644) -> File:
    return File(mode, len(data), digest_of(data))


def test_a_one_line_edit_of_a_crlf_file_is_one_line() -> None:
    old, new = b"a\r\nb\nc\r\nlast", b"a\r\nB\nc\r\nlast"
    text = diff_of(change(b"f", sized(old), sized(new)), old, new).text
    lines = [line for line in text.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert lines == ["-b", "+B"]
    assert "\\ no line end" in text


@pytest.mark.parametrize(
    ("before", "after", "old", "new", "says"),
    [
        (None, sized(b"x\n"), None, b"x\n", ["created f", "--- /dev/null", "+x"]),
        (sized(b"x\n"), None, b"x\n", None, ["deleted f", "+++ /dev/null", "-x"]),
        (sized(b"a\0"), sized(b"b\0c"), b"a\0", b"b\0c", ["binary, 2 bytes before and 3 after"]),
        (sized(b"x"), sized(b"x", 0o755), b"x", b"x", ["mode 0644 before and 0755 after"]),
        (Link(b"a"), Link(b"b"), None, None, ["a link to 'a' before and a link to 'b' after"]),
        (Unheld("too-large", b"1"), Unheld("too-large", b"2"), None, None, ["not captured: too-large before"]),
        (Folder(0o755, bytes(32)), Folder(0o700, bytes(32)), None, None, ["mode 0755 before and 0700 after"]),
    ],
)
def test_every_kind_of_change_is_told(
    before: Entry | None, after: Entry | None, old: bytes | None, new: bytes | None, says: list[str]
) -> None:
    text = diff_of(change(b"f", before, after), old, new).text
    for line in says:
        assert line in text
