"""The benchmark suite: what the commands wrote, and that nothing is quoted from elsewhere."""

import json
from pathlib import Path

import numpy as np
import pytest

asv_bench = pytest.importorskip("asv_bench")

from asv_bench import compare, readme, report, smoke  # noqa: E402
from asv_bench.papers import check, plain_svmd  # noqa: E402

FILES = sorted(report.RESULTS.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_results_name_their_origin(path):
    found = json.loads(path.read_text())
    assert found["command"].startswith("python -m asv_bench.")
    assert found["machine"]["date"]
    assert found["machine"]["processor"]
    assert found["machine"]["versions"]["osvm"]
    for table in found["tables"]:
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    for name in found["plots"]:
        assert (path.parent / name).stat().st_size < report.MAX_PLOT_BYTES


def test_readme_quotes_the_results():
    text = readme.README.read_text()
    block = text.split(readme.BEGIN)[1].split(readme.END)[0].strip()
    assert block == readme.make_block()


def test_documentation_shows_every_result():
    page = (Path(readme.README).parent / "doc" / "benchmarks.rst").read_text()
    for path in FILES:
        if not path.stem.endswith("-quick"):
            assert f".. benchmark:: {path.stem}" in page


def make_runs(name, ours, runs):
    out = compare.Runs(name, ours, "", "epochs")
    for effort, seconds, gap in runs:
        out.add(effort, seconds, {"gap": gap})
    return out


def test_time_to_target_is_the_cheapest_that_met_it():
    runs = make_runs("a", True, [(1, 1.0, 0.5), (2, 2.0, 0.01), (5, 5.0, 0.001)])
    assert runs.seconds_to("gap", 0.02) == [2.0]
    assert runs.seconds_to("gap", 1e-6) is None


def test_ratio_is_refused_unless_both_met_the_target():
    assert compare.show_ratio([4.0], [2.0]) == "2.0 ×"
    assert "ahead of osvm" in compare.show_ratio([1.0], [2.0])
    assert compare.show_ratio(None, [2.0]) == "–"
    assert compare.show_ratio([1.0], None) == "–"


def test_exponents():
    assert report.fit_exponent([1, 10, 100], [3, 30, 300]) == pytest.approx(1.0)
    assert report.fit_exponent([1, 10, 100], [1, 100, 10_000]) == pytest.approx(2.0)


def test_parameters_are_combined_as_asv_does():
    assert smoke.combinations(None) == [()]
    assert smoke.combinations([1, 2]) == [(1,), (2,)]
    assert smoke.combinations(([1, 2], ["a"])) == [(1, "a"), (2, "a")]


# --------------------------------------------------------- figures of the papers


def test_committed_figures_are_those_of_this_tree():
    """The small version of ``python -m asv_bench.papers.check``."""
    with pytest.raises(SystemExit) as end:
        check.main(["--small"])
    assert end.value.code == 0


def test_a_figure_that_is_off_is_named():
    old = {"a": [1.0, 0.1], "b": [2.0, 0.1], "c": [3.0, 0.1], "d": [4.0, 0.0]}
    new = {"a": [1.05, 0.0], "b": [2.2, 5.0], "d": [float("nan"), 0.0]}
    lines = check.differences(old, new)
    assert [line.split(":")[0] for line in lines] == ["c", "b", "d"]
    assert "2.2, committed 2 ± 0.1" in lines[1]


def test_check_takes_what_fits_the_time():
    files = [{"name": name, "seconds": s} for name, s in (("a", 10), ("b", 40), ("c", 60))]
    assert [file["name"] for file in check.within(files, 1.0)] == ["a", "b"]
    listed = check.committed()
    assert listed == sorted(listed, key=lambda file: file["seconds"])
    assert {"svmd_usps", "kecman-figures58", "mmds-rcv1"} <= {file["name"] for file in listed}


@pytest.mark.parametrize("smd", [None, (0.5, 0.9)])
@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("nu", [None, 0.1])
def test_the_plain_reference_of_the_papers_is_followed(smd, n_labels, nu):
    """Different code: the tests' own reference keeps its rows in another way."""
    import reference_kernel as reference

    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = (X @ rng.normal(size=(3, n_labels))).argmax(axis=1)
    reg = 1.0 if nu else 0.01
    other = reference.Reference(
        reference.hinge if n_labels == 2 else reference.multiclass_hinge, reference.rbf(0.2), reg,
        K=1 if n_labels == 2 else n_labels, eta0=0.5, budget=20, nu=nu, eta_min=1e-6,
        schedule=None if smd else lambda t: 0.5 * np.sqrt(10 / (10 + t)),
        **({"mu": smd[0], "decay": smd[1]} if smd else {"decay": 0.0}),
    )  # fmt: skip
    wrong = 0
    for x, label in zip(X, y):
        score, _ = other.step(x, 2 * label - 1 if n_labels == 2 else label)
        wrong += (score[0] > 0 if n_labels == 2 else np.argmax(score)) != label
    options = {"smd": smd} if smd else {"tau": 10.0}
    found = plain_svmd.running_error(
        X, y, plain_svmd.gaussian(0.2), 20, eta0=0.5, reg=reg, nu=nu, **options
    )
    assert found == wrong / len(y)
    assert 0.05 < found < 0.8
