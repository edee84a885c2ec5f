"""Files travel together when they have to do with each other and fit into one request."""

from __future__ import annotations

from hypothesis import given, strategies as st

from settings.model import Account, Family, Key, Pool, Settings
from settings.secret import Secret
from settings.windows import UNLISTED, Window, window_of
from tasks.edits.source import SourceFile, source_file
from tasks.runs.pack import most_a_minute, pack, room, room_of_one, tokens_of_file


def file(path: str, text: str = "x = 1\n", size: int = 0) -> SourceFile:
    return source_file(path, (text + "#" * size + "\n" * bool(size)).encode())


def packed(files: list[SourceFile], limit: int) -> list[list[str]]:
    return [[each.path for each in group] for group in pack(files, limit)]


def test_few_small_files_are_one_request() -> None:
    assert packed([file("a.py"), file("b/c.py")], 10_000) == [["a.py", "b/c.py"]]


def test_an_import_binds_closer_than_a_directory() -> None:
    files = [
        file("app/a.py", "from lib.b import x\n", 3500),
        file("app/z.py", size=3500),
        file("lib/b.py", size=3500),
    ]
    assert packed(files, 2_300) == [["app/a.py", "lib/b.py"], ["app/z.py"]]


def test_relative_imports_and_those_of_scripts_are_seen() -> None:
    files = [
        file("p/q/a.py", "from ..b import c\n", 3500),
        file("p/b.py", size=3500),
        file("p/q/z.py", size=3500),
        file("web/m.ts", 'import { x } from "../kit/x"\n', 3500),
        file("web/y.ts", size=3500),
        file("kit/x.ts", size=3500),
    ]
    assert packed(files, 2_300) == [
        ["p/q/a.py", "p/b.py"],
        ["p/q/z.py", "web/y.ts"],
        ["web/m.ts", "kit/x.ts"],
    ]


def test_a_name_that_two_files_could_have_binds_nobody() -> None:
    files = [
        file("a/main.py", "import tools\n", 3500),
        file("b/tools.py", size=3500),
        file("c/tools.py", size=3500),
    ]
    assert packed(files, 2_300)[0] == ["a/main.py", "b/tools.py"]
    assert packed(files[::-1], 2_300)[1] == ["b/tools.py", "a/main.py"]


def test_what_is_larger_than_a_request_travels_alone() -> None:
    files = [file("a.py"), file("b.py", size=99_999), file("c.py")]
    assert packed(files, 1_000) == [["a.py", "c.py"], ["b.py"]]


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "a/", "a/b/", "c/"]), st.integers(0, 9_000)), max_size=30
    ),
    st.integers(1, 5_000),
)
def test_every_file_is_in_one_group_and_no_group_is_too_large(
    drawn: list[tuple[str, int]], limit: int
) -> None:
    files = [file(f"{place}f{n}.py", size=size) for n, (place, size) in enumerate(drawn)]
    groups = pack(files, limit)
    assert sorted(each.path for group in groups for each in group) == sorted(f.path for f in files)
    for group in groups:
        assert len(group) == 1 or sum(map(tokens_of_file, group)) <= limit
    assert groups == pack(files, limit)


def test_the_room_leaves_place_for_the_answer_and_its_reasoning() -> None:
    window = Window(context=20_000, output=6_000)
    assert room_of_one(window) == int((6_000 - 4_096) / 1.25)
    assert room(window, float("inf")) == room_of_one(window)
    assert room(window_of("gpt-5.5-codex"), float("inf")) == 10_000
    assert room(window_of("gpt-5.5-codex"), 10_000) == int((8_000 - 2_000) / 2.25)
    assert window_of("nobody-knows") == UNLISTED


def test_the_most_generous_account_that_serves_the_model_counts() -> None:
    keys = tuple(
        Key(alias=a, provider="generic", base_url="http://h/v1", secret=Secret("s"), account=a)
        for a in ("one", "two")
    )
    narrow = Family(models="m*", tokens_per_minute=50)
    accounts = {
        "one": Account(name="one", tokens_per_minute=100),
        "two": Account(name="two", tokens_per_minute=900, families=(narrow,)),
    }
    settings = Settings(pools={"p": Pool(name="p", keys=keys)}, accounts=accounts)
    assert most_a_minute(settings, "m1") == 100
    assert most_a_minute(settings, "other") == 900
    unlimited = Settings(pools={"p": Pool(name="p", keys=keys)})
    assert most_a_minute(unlimited, "m1") == float("inf")
