"""Packages without a wheel for one of the image's platforms are named, by the real pip on a folder that plays the index.

Rules: `packaging#image-platforms`.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.tags import Tag, parse_tag

from deploy.release.errors import ReleaseError
from deploy.release.platforms import ask, fits, installed_tags, main, missing, wanted
from tests.planted.faults import ROOT

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
WheelMaker = Callable[[str, str], str]


@pytest.fixture
def make_wheel(tmp_path: Path) -> WheelMaker:
    """Puts a wheel into the folder that plays the index; returns its hash."""
    pytest.importorskip("pip", reason="no pip in this environment; make env makes one that has it")

    def make(name: str, tag: str) -> str:
        path = tmp_path / f"{name}-1.0-{tag}.whl"
        about = f"{name}-1.0.dist-info"
        with ZipFile(path, "w") as wheel:
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            wheel.writestr(f"{about}/RECORD", "")
        return hashlib.sha256(path.read_bytes()).hexdigest()

    return make


def lock(**hashes: str) -> str:
    return "".join(f"{name}==1.0 \\\n    --hash=sha256:{digest}\n" for name, digest in hashes.items())


def tags(text: str) -> frozenset[Tag]:
    return frozenset(parse_tag(text))


@pytest.mark.rule("packaging#image-platforms")
@pytest.mark.integration
def test_what_has_no_wheel_for_the_other_machine_is_named(tmp_path: Path, make_wheel: WheelMaker) -> None:
    index = ("--no-index", "--find-links", str(tmp_path))
    both = make_wheel("both", "cp311-cp311-manylinux_2_17_aarch64")
    stable = make_wheel("stable", "cp39-abi3-manylinux_2_28_aarch64")
    other = make_wheel("other", "cp311-cp311-manylinux_2_17_x86_64")
    assert ask(wanted(lock(both=both, stable=stable), "aarch64"), "aarch64", index) == []
    assert ask(wanted(lock(both="0" * 64, other=other), "aarch64"), "aarch64", index) == [
        "both 1.0: the wheel for aarch64 is not in the lock file",
        "other 1.0: no wheel for Linux on aarch64",
    ]


@pytest.mark.rule("packaging#image-platforms")
@pytest.mark.integration
def test_only_what_was_installed_here_without_telling_is_asked(
    tmp_path: Path, make_wheel: WheelMaker
) -> None:
    index = ("--no-index", "--find-links", str(tmp_path))
    text = lock(pure="0" * 64, native="1" * 64)
    here = {
        ("pure", "1.0"): tags("py3-none-any"),
        ("native", "1.0"): tags("cp311-cp311-manylinux_2_17_x86_64"),
    }
    assert missing(text, here, index) == ["native 1.0: no wheel for Linux on aarch64"]


@pytest.mark.rule("packaging#image-platforms")
@pytest.mark.integration
def test_a_pip_that_cannot_answer_is_no_answer(tmp_path: Path, make_wheel: WheelMaker) -> None:
    with pytest.raises(ReleaseError, match="pip: "):
        ask(wanted(lock(one="0" * 64), "aarch64"), "aarch64", ("--no-such-option",))


@pytest.mark.rule("packaging#image-platforms")
@pytest.mark.parametrize(
    ("tag", "machines"),
    [
        ("py3-none-any", {"x86_64", "aarch64"}),
        ("py2.py3-none-any", {"x86_64", "aarch64"}),
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", {"x86_64"}),
        ("cp39-abi3-manylinux_2_28_aarch64", {"aarch64"}),
        ("cp313-cp313-manylinux_2_17_x86_64", set()),
        ("cp311-cp311-linux_x86_64", set()),
        ("cp311-cp311-musllinux_1_2_x86_64", set()),
    ],
)
def test_what_an_installed_wheel_shows(tag: str, machines: set[str]) -> None:
    assert {machine for machine in ("x86_64", "aarch64") if fits(tags(tag), machine)} == machines


@pytest.mark.rule("packaging#image-platforms")
def test_the_packages_are_those_of_the_image() -> None:
    for machine in ("x86_64", "aarch64"):
        found = wanted(LOCK, machine)
        names = [package.name for package in found]
        assert len(names) == len(set(names))
        assert {"grpcio", "numpy", "pysyncobj", "cffi"} <= set(names)


@pytest.mark.rule("packaging#image-platforms")
def test_tags_are_read_from_what_is_installed(tmp_path: Path) -> None:
    (tmp_path / "Some_Thing-1.2.dist-info").mkdir()
    (tmp_path / "Some_Thing-1.2.dist-info" / "WHEEL").write_text("Tag: py2-none-any\nTag: py3-none-any\n")
    for name, files in (("old_pure", "../old_pure/a.py\nPKG-INFO\n"), ("old_native", "../b.py\n../c.so\n")):
        folder = tmp_path / f"{name}-0.3.17-py3.11.egg-info"
        folder.mkdir()
        (folder / "installed-files.txt").write_text(files)
    assert installed_tags(tmp_path) == {
        ("some-thing", "1.2"): tags("py2.py3-none-any"),
        ("old-pure", "0.3.17"): tags("py3-none-any"),
    }


def test_a_good_answer_is_remembered_and_a_bad_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [["one 1.0: no wheel for Linux on aarch64"], []]
    monkeypatch.setattr("deploy.release.platforms.missing", lambda *_: answers.pop(0))
    argv, environ = ["--installed", str(tmp_path)], {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert main(argv, environ) == 1
    assert capsys.readouterr().err == "platforms: one 1.0: no wheel for Linux on aarch64\n"
    assert [main(argv, environ) for _ in range(2)] == [0, 0]
    assert capsys.readouterr().out.splitlines()[1].endswith(" on aarch64 (remembered)")
    (tmp_path / "other-2.0.dist-info").mkdir()
    (tmp_path / "other-2.0.dist-info" / "WHEEL").write_text("Tag: py3-none-any\n")
    with pytest.raises(IndexError):  # another tree: asked anew
        main(argv, environ)
