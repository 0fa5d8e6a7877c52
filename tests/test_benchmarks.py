"""The benchmark suite: what the commands wrote, and that nothing is quoted from elsewhere."""

import json
from pathlib import Path

import pytest

asv_bench = pytest.importorskip("asv_bench")

from asv_bench import compare, readme, report, smoke  # noqa: E402

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
