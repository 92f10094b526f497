"""Reader of Debian package indices."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fastspml import tokens
from fastspml.io.readers import deb822, debian
from fastspml.io.readers.debian import read_debian
from tests.conftest import shared_data
from tests.text_files import links, words, write

STANZA = """Package: {name}
Version: {version}
{fields}Description: {short}
Description-md5: {name}{version}
Tag: role::program,
 use::viewing

"""


def stanza(name, short="viewer", version="1.0", **fields):
    lines = "".join(f"{field.replace('_', '-')}: {value}\n" for field, value in fields.items())
    return STANZA.format(name=name, version=version, fields=lines, short=short)


def translated(name, text, version="1.0"):
    return f"Package: {name}\nDescription-md5: {name}{version}\nDescription-en: {text}\n\n"


INDEX = "".join(
    [
        stanza(
            "libviewer2",
            "libviewer2 viewer for pictures",
            Source="viewer (1.0)",
            Section="graphics",
            Depends="libpng (>= 1.6) | libjpeg:any, hub [amd64] <!nodoc>, virtual-thing, libviewer2",
            Suggests="viewer-data,",
        ),
        stanza("viewer-data", "pictures to look at", Source="viewer", Section="graphics", Recommends="libpng"),
        stanza("libpng", "pictures as files", Section="contrib/graphics", Depends="hub"),
        stanza("libjpeg", "pictures as files, small", Section="graphics", Depends="hub,\n shapes (= ${Version})"),
        stanza("hub", "everything needs this", Section="graphics"),
        stanza("shapes", "game of pictures", Section="games", Recommends="rules"),
        stanza("rules", "game without pictures", Section="games"),
        stanza("lonely", "nobody needs this", Section="games"),
    ]
)


@pytest.fixture
def index(tmp_path):
    return write(tmp_path / "Packages", INDEX)


def read(path, **options):
    return read_debian(path, **({"min_df": 1, "max_df": 1.0} | options))


def test_sections_are_tasks(index):
    games, graphics = read(index)
    assert (games.name, graphics.name) == ("games", "graphics")
    assert links(games) == [("shapes", "rules")]
    assert links(graphics) == [
        ("libjpeg", "hub"),
        ("libpng", "hub"),
        ("libviewer2", "hub"),
        ("libviewer2", "libjpeg"),
        ("libviewer2", "libpng"),
        ("viewer-data", "libpng"),
    ]
    assert games.vocabulary.tolist() == graphics.vocabulary.tolist()
    assert "lonely" not in games.nodes


def test_sections_asked_for_come_in_that_order(index):
    assert [network.name for network in read(index, sections=["graphics", "games"])] == ["graphics", "games"]
    assert [network.name for network in read(index, sections="graphics")] == ["graphics"]


def test_words_of_a_package_leave_its_names_out(index):
    (network,) = read(index, tasks=None, keep_unlinked=True)
    assert words(network, "libviewer2") == {"pictures": 1}  # neither libviewer2 nor viewer, its source
    assert words(network, "libpng") == {"pictures": 1, "files": 1}
    assert words(network, "lonely") == {"nobody": 1}


def test_links_within_a_source_are_left_out_unless_wanted(index):
    (network,) = read(index, tasks=None)
    assert ("libviewer2", "viewer-data") not in links(network)
    (network,) = read(index, tasks=None, across_sources=False)
    assert ("libviewer2", "viewer-data") in links(network)
    assert ("libjpeg", "shapes") in links(network)  # on the second line of the field, and in another section


def test_hubs_are_dropped_and_then_those_they_leave_alone(index):
    (network,) = read(index, tasks=None, max_degree=3)
    assert network.nodes.tolist() == ["libviewer2", "viewer-data", "libpng", "libjpeg", "hub", "shapes", "rules"]
    (network,) = read(index, tasks=None, max_degree=2)  # hub, libpng, libjpeg and libviewer2 have three links each
    assert network.nodes.tolist() == ["shapes", "rules"]
    (network,) = read(index, tasks=None, max_degree=2, keep_unlinked=True)
    assert network.nodes.tolist() == ["viewer-data", "shapes", "rules", "lonely"]
    assert links(network) == [("shapes", "rules")]


def test_packages_that_depend_on_each_other_are_linked_with_one_other(tmp_path):
    path = write(tmp_path / "Packages", stanza("left", "cat", Depends="right") + stanza("right", "dog", Depends="left"))
    (network,) = read(path, max_degree=1)
    assert links(network) == [("left", "right"), ("right", "left")]


def test_packages_with_one_link_each_are_no_hubs(index):
    (network,) = read(index, sections="games", max_degree=1)
    assert links(network) == [("shapes", "rules")]


def test_tasks_without_packages_are_left_out_and_those_without_links_only_if_wanted(tmp_path):
    index = write(tmp_path / "Packages", INDEX + stanza("alone", "pictures of nothing", Section="misc"))
    assert [network.name for network in read(index, min_links=0)] == ["games", "graphics"]
    networks = read(index, min_links=0, keep_unlinked=True)
    assert [(network.name, network.n_links) for network in networks] == [("games", 1), ("graphics", 6), ("misc", 0)]


def test_a_package_without_a_section_is_in_an_unknown_one(tmp_path):
    index = write(tmp_path / "Packages", stanza("left", "cat") + stanza("right", "dog", Depends="left"))
    (network,) = read(index)
    assert (network.name, network.nodes.tolist()) == ("unknown", ["left", "right"])


def test_the_words_of_a_name_are_left_out_with_and_without_lib_and_digits(tmp_path):
    content = stanza("libviewer2", "libviewer2 viewer2 libviewer viewer picture", Depends="hub") + stanza(
        "hub", "wheel"
    )
    (network,) = read(write(tmp_path / "Packages", content))
    assert words(network, "libviewer2") == {"picture": 1}


def test_one_network_of_all_packages_is_called_debian(index):
    assert [network.name for network in read(index, tasks=None)] == ["debian"]


def test_a_translation_without_an_english_text_leaves_the_description(tmp_path, index):
    content = translated("libpng", "zebras") + "Package: libjpeg\nDescription-md5: libjpeg1.0\n"
    (network,) = read(index, translation=write(tmp_path / "t", content), tasks=None)
    assert words(network, "libpng") == {"zebras": 1}
    assert words(network, "libjpeg") == {"pictures": 1, "files": 1, "small": 1}


def test_a_damaged_stanza_of_a_translation_is_one_bad_line(tmp_path, index):
    translation = write(tmp_path / "t", translated("libpng", "zebras") + "broken\n")
    with pytest.warns(UserWarning, match=r"skipped 1 bad line: t, line 5: `Field: value` is expected, got 'broken'"):
        read(index, translation=translation, skip_bad=True)


def test_fields_of_a_thousand_characters_are_read(tmp_path):
    content = stanza("a" * 1000, "cat", version="1" * 1000, Section="s" * 1000)
    content += stanza("right", "dog", Section="s" * 1000, Depends="a" * 1000)
    (network,) = read(write(tmp_path / "Packages", content))
    assert (network.name, network.nodes.tolist()) == ("s" * 1000, ["a" * 1000, "right"])


@pytest.mark.parametrize(("n_sections", "expected"), [(100, "s098, s099"), (102, "s098, s099 and 2 more")])
def test_a_hundred_sections_are_shown(tmp_path, n_sections, expected):
    path = write(tmp_path / "p", "".join(stanza(f"p{i}", Section=f"s{i:03}") for i in range(n_sections)))
    with pytest.raises(
        ValueError, match=rf"no package is in section 'games'; the sections are s000, .*, {expected}\.$"
    ):
        read(path, sections=["games"])


def test_kinds_are_tasks_over_the_same_nodes(index):
    depends, recommends, suggests = read(index, tasks="kind", across_sources=False)
    assert [network.name for network in (depends, recommends, suggests)] == ["Depends", "Recommends", "Suggests"]
    assert depends.features is recommends.features is suggests.features
    assert links(suggests) == [("libviewer2", "viewer-data")]
    assert links(recommends) == [("shapes", "rules"), ("viewer-data", "libpng")]
    (only,) = read(index, kinds=["Suggests"], tasks="kind", across_sources=False)
    assert only.nodes.tolist() == ["libviewer2", "viewer-data"]


def test_tasks_of_too_few_links_are_left_out_or_refused(index):
    assert [network.name for network in read(index, min_links=2)] == ["graphics"]
    with pytest.raises(
        ValueError, match="section 'games' has 1 links after filtering, but min_links is 2; leave it out"
    ):
        read(index, sections=["games"], min_links=2)
    with pytest.raises(ValueError, match="too few links are left among 8 packages"):
        read(index, tasks=None, min_links=100)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_long_descriptions_come_from_the_translation(tmp_path, ending):
    packages = write(tmp_path / f"Packages{ending}", INDEX)
    long = "pictures\n A long text\n .\n about zebras"
    content = translated("libpng", long) + translated("libjpeg", "of another version", "0.9") + translated("new", "x")
    translation = write(tmp_path / f"Translation-en{ending}", content)
    (network,) = read(packages, translation=translation, tasks=None)
    assert words(network, "libpng") == {"pictures": 1, "long": 1, "text": 1, "zebras": 1}
    assert words(network, "libjpeg") == {"pictures": 1, "files": 1, "small": 1}


def test_a_translation_without_keys_is_matched_by_name(tmp_path):
    packages = write(tmp_path / "Packages", INDEX.replace("Description-md5", "Other"))
    translation = write(tmp_path / "t", "Package: libpng\nDescription-en: zebras\n")
    (network,) = read(packages, translation=translation, tasks=None)
    assert words(network, "libpng") == {"zebras": 1}


def test_the_highest_version_of_a_package_counts(tmp_path):
    newer = stanza("libpng", "zebras", "1:0.1~rc1", Section="graphics", Depends="hub")
    older = stanza("libpng", "lions", "1.0~beta", Section="graphics", Depends="hub")
    paths = [write(tmp_path / "a", INDEX), write(tmp_path / "b", newer), write(tmp_path / "c", older)]
    (network,) = read(paths, tasks=None)
    assert words(network, "libpng") == {"zebras": 1}
    assert network.nodes.tolist().count("libpng") == 1


def test_versions_sort_as_dpkg_does():
    ascending = "0~, 0, 1.0~~, 1.0~rc1, 1.0, 1.0-1, 1.0-1+b1, 1.0-2, 1.0a, 1.0+b, 1.2, 1.10, 1:0"
    keys = [debian._version_key(version.strip()) for version in ascending.split(",")]
    assert all(lower < higher for lower, higher in pairwise(keys))
    assert debian._version_key("1.00") == debian._version_key("1.0")


def test_crlf_and_blank_lines_with_blanks(tmp_path):
    content = INDEX.replace("\n\n", "\n \n").replace("\n", "\r\n")
    (network,) = read(write(tmp_path / "Packages", content), tasks=None)
    assert links(network) == links(read(write(tmp_path / "P", INDEX), tasks=None)[0])


@pytest.mark.parametrize(
    ("per_report", "expected"),
    [
        (4, [("reading packages", 4, None), ("reading packages", 8, None), ("reading descriptions", 4, None)]),
        (8, [("reading packages", 8, None)]),
        (9, []),
    ],
)
def test_progress_is_told(tmp_path, monkeypatch, per_report, expected):
    monkeypatch.setattr(deb822, "STANZAS_PER_REPORT", per_report)
    translation = write(tmp_path / "t", "".join(translated(str(i), "x") for i in range(4)))
    told = []
    read(write(tmp_path / "p", INDEX), translation=translation, report=lambda *what: told.append(what))
    assert told == expected


def test_rare_and_frequent_words_of_packages_are_left_out_by_default(tmp_path):
    texts = ["cat sat", "cat ran", "dog sat", "dog ran", "dog rare"]
    stanzas = [stanza(f"p{i}", text, Depends=f"p{(i + 1) % 5}") for i, text in enumerate(texts)]
    (network,) = read_debian(write(tmp_path / "p", "".join(stanzas)))
    assert network.vocabulary.tolist() == ["cat", "ran", "sat"]  # dog is in three of five
    assert network.tokenizer == tokens.Tokenizer(min_df=2, max_df=0.5)


BAD_INDICES = [
    (INDEX + "Package libfoo\n", r"1 bad line: Packages, line \d+: `Field: value` is expected, got 'Package libfoo'"),
    (" continued\n" + INDEX, "Packages, line 1: continues a field, but there is no field before it"),
    (INDEX + "Version: 1\nSection: games\n", "a stanza with the name of a package is expected, got ''"),
    ("Package: a b\n", "Packages, line 1: a stanza with the name of a package is expected, got 'a b'"),
    ("Package: aa\nPackage: bb\n", "Packages, line 2: the field Package appeared before in its stanza"),
    ("Package: aa\nVersion: 1\nDepends: bb (>= 1\n", r"line 3: Depends of aa names no package: 'bb \(>= 1'"),
    ("Package: aa\nDepends: bb | , cc\n", r"line 2: Depends of aa names no package: 'bb \|'"),
    ("Package: aa\nDepends: bb cc\n", "line 2: Depends of aa names no package: 'bb cc'"),
    ("Package: aa\nDepends: " + "b" * 30 + " " + "c" * 30, "line 2: Depends of aa names no package: 'b{30} c{9}'"),
    ("Package: " + "a b" * 30, "line 1: a stanza with the name of a package is expected, got '.{40}'"),
    ("Package: aa\n: bb\n", "line 2: `Field: value` is expected, got ': bb'"),
    ("Package: aa\nMy field: bb\n", "line 2: `Field: value` is expected, got 'My field: bb'"),
    ("x" * 50, "line 1: `Field: value` is expected, got 'x{40}'"),
    (b"Package: aa\nDescription: \xff\n", "line 2: the field Description is not UTF-8 text"),
    (b"\xff\xfe\x00\n", "Packages, line 1: `Field: value` is expected"),
    ("", "Packages is empty"),
    ("\n\n", "too few links are left among 0 packages"),
    ("Package: aa\n", "too few links are left among 1 packages.*check that the file is a Packages index"),
]


@pytest.mark.parametrize(("content", "sentence"), BAD_INDICES)
def test_bad_indices_cost_a_sentence(tmp_path, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(write(tmp_path / "Packages", content), tasks=None)


def test_bad_stanzas_are_skipped_and_counted(tmp_path):
    content = INDEX + "Section: games\n\nPackage: late\nDepends: hub, no good\nbroken\nSection: graphics\n"
    with pytest.warns(UserWarning, match=r"skipped 3 bad lines: Packages, line \d+: a stanza with the name"):
        games, graphics = read(write(tmp_path / "Packages", content), skip_bad=True)
    assert ("late", "hub") in links(graphics)
    assert games.n_links == 1


@pytest.mark.parametrize("field", ["Description", "Version", "Section", "Enhances"])
def test_a_field_that_is_skipped_is_an_empty_one(tmp_path, field):
    content = f"Package: left\n{field}: ".encode() + b"\xff\n\n" + stanza("right", "dog", Depends="left").encode()
    path = write(tmp_path / "Packages", content)
    with pytest.warns(UserWarning, match=f"skipped 1 bad line: Packages, line 2: the field {field} is not UTF-8 text"):
        (network,) = read(path, kinds=["Depends", "Enhances"], skip_bad=True)
    assert network.name == "unknown"
    assert links(network) == [("right", "left")]
    assert words(network, "left") == {}


def test_a_truncated_index(tmp_path):
    path = write(tmp_path / "Packages.xz", INDEX)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"Packages\.xz is damaged: its compressed data end or break off"):
        read(path)


def test_a_bad_translation(index, tmp_path):
    with pytest.raises(ValueError, match=r"Translation-de holds no English descriptions \(Description-en\)"):
        read(index, translation=write(tmp_path / "Translation-de", "Package: libpng\nDescription-de: Bilder\n"))
    with pytest.raises(ValueError, match=r"line 1: a stanza with Package or Description-md5 is expected, got neither"):
        read(index, translation=write(tmp_path / "t", "Description-en: zebras\n"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sections": ["gmaes"]}, "no package is in section 'gmaes'; the sections are games, graphics"),
        ({"kinds": ["Conflicts"]}, "kinds must be some of Depends, .*; got 'Conflicts'"),
        ({"kinds": []}, "kinds must be some of Depends, .*; got 'none'"),
        ({"tasks": "source"}, "tasks must be 'section', 'kind' or None, got 'source'"),
        ({"max_degree": 0}, "max_degree must be a whole number, 1 or more; got 0"),
        ({"min_links": None}, "min_links must be a whole number, 0 or more; got None"),
        ({"min_df": 0}, "min_df must be"),
    ],
)
def test_bad_choices(index, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(index, **options)


@pytest.mark.parametrize(
    "options",
    [{"kinds": []}, {"tasks": "source"}, {"max_degree": 0}, {"min_links": -1}, {"min_df": 0}, {"max_df": 0.0}],
)
def test_choices_are_checked_before_a_file_is_read(tmp_path, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} must be"):
        read(tmp_path / "nowhere", **options)


def test_this_machines_own_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(debian, "APT_LISTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no package index; run `apt-get update`"):
        read(None)
    write(tmp_path / "deb_main_Packages", INDEX)
    write(tmp_path / "deb_main_Packages.diff_Index", "no stanza")
    with pytest.warns(UserWarning, match="holds no Translation-en, so the description of a package is one line only"):
        assert len(read(None)) == 2
    write(tmp_path / "deb_main_i18n_Translation-en", translated("libpng", "zebras"))
    (network,) = read(None, tasks=None)
    assert words(network, "libpng") == {"zebras": 1}
    write(tmp_path / "deb_updates_Packages.lz4", b"\x04")
    with pytest.raises(ValueError, match=r"deb_updates_Packages\.lz4 is compressed as lz4; plain, \.gz and \.xz"):
        read(None)


def test_the_whole_snapshot():
    folder = shared_data("debian-bookworm")
    packages, translation = folder / "Packages.xz", folder / "Translation-en.xz"
    (network,) = read_debian(packages, translation, tasks=None, across_sources=False, keep_unlinked=True)
    assert network.n_nodes == 63_436
    assert network.n_links == 298_248
    assert network.undirected().n_links == 2 * 293_745
    assert network.undirected().degrees.max() == 21_789  # libc6
    assert network.n_features == len(network.vocabulary) == 31_911
    assert "0ad" in network.nodes


def test_networks_of_packages_know_their_tokenizer(index):
    assert all(network.tokenizer == tokens.Tokenizer(min_df=1, max_df=1.0) for network in read(index))


def test_a_list_of_files_has_one_at_least(tmp_path):
    with pytest.raises(ValueError, match="packages is empty; at least one file is needed"):
        read_debian([])


def test_of_equal_versions_the_first_counts(tmp_path):
    again = stanza("libpng", "zebras", "1.0", Section="graphics", Depends="hub")
    (network,) = read([write(tmp_path / "a", INDEX), write(tmp_path / "b", again)], tasks=None)
    assert words(network, "libpng") == {"pictures": 1, "files": 1}


@pytest.mark.parametrize(("first", "second"), [("1.9", "1.10"), ("2.0~rc1", "2.0"), ("9", "1:1"), ("1.0-1", "1.0-2")])
def test_the_higher_version_counts_in_either_order(tmp_path, first, second):
    stanzas = [
        stanza("libpng", text, version, Section="graphics", Depends="hub")
        for text, version in (("lions", first), ("zebras", second))
    ]
    rest = INDEX.replace("Package: libpng\n", "Package: other\n")
    for order in (stanzas, stanzas[::-1]):
        (network,) = read(write(tmp_path / "Packages", rest + "".join(order)), tasks=None)
        assert words(network, "libpng") == {"zebras": 1}


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("  libpng:any (>= 1.6) [amd64 i386] <!nodoc> <!stage1> ", ("libpng",)),
        ("aa|bb (= 1)|cc [any]", ("aa", "bb", "cc")),
        ("aa(>= 1)", ("aa",)),
        ("", ()),
        ("aa bb", None),
        ("aa (1) (2)", None),
        ("a", None),
    ],
)
def test_relations(relation, expected):
    assert debian._alternatives(relation) == expected


@pytest.mark.parametrize("field", ["Version", "Section"])
def test_endless_fields_are_bad(tmp_path, field):
    path = write(tmp_path / "Packages", f"Package: aa\n{field}: {'1' * 1001}\n")
    with pytest.raises(
        ValueError, match=r"line 1: names, versions and sections may have 1000 characters, got '1{40}'\.\.\."
    ):
        read(path)
