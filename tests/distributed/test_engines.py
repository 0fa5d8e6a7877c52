"""The same script on this process, Dask, Spark and Ray: equal models, bit for bit.

Each engine is tested where it is installed; Spark needs a Java runtime too.
"""

import itertools
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import osvm

pytestmark = pytest.mark.slow

rng = np.random.default_rng(2)
N, D = 900, 12
X = sp.csr_matrix(rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5))
SCORE = X @ rng.normal(size=D)
y = np.digitize(SCORE, [-1, 1])
CUTS = [0, 200, 200, 350, 500, 720, N]  # one block is empty
BLOCKS = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(CUTS)]
RUNS = {
    "mixing": ({"average": True}, {"rounds": 2}),
    "optimum": ({"loss": "logistic", "reg": 0.01}, {"tol": 1e-6}),
}
ROOT = str(Path(osvm.__file__).parent.parent)


def make(**params):
    return osvm.LinearClassifier(random_state=1, **params)


@pytest.fixture(scope="module", autouse=True)
def workers_find_osvm():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("no Java runtime")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed.client")  # this folder is importable by the short name
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        yield client


def on_engine(request, engine, params, options):
    if engine == "dask":
        return osvm.dask.fit(
            make(**params), BLOCKS, client=request.getfixturevalue("cluster"), **options
        )
    session = request.getfixturevalue(engine)
    if engine == "ray":
        blocks = [session.put(block) for block in BLOCKS]
        return osvm.ray.fit(make(**params), blocks, **options)
    return osvm.spark.fit(make(**params), BLOCKS, spark=session, **options)


@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
@pytest.mark.parametrize("run", RUNS)
def test_equal_models_bit_for_bit(request, engine, run):
    params, options = RUNS[run]
    alone = osvm.distributed.fit(make(**params), BLOCKS, **options)
    model = on_engine(request, engine, params, options)
    assert model.to_bytes() == alone.to_bytes()
    assert model.rounds_[0]["empty"] == 1


@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_errors_come_through(request, engine):
    with pytest.raises(ValueError, match=r"block \d: y contains the label"):
        on_engine(request, engine, {}, {"classes": [0, 1], "rounds": 1})


def test_spark_data_frames(spark):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X.toarray(), columns=[f"c{k}" for k in range(D)]).assign(y=y, w=1.0)
    table = spark.createDataFrame(frame).repartitionByRange(3, "c0")
    model = osvm.spark.fit(make(), table, label="y", weight="w", rounds=2)
    assert model.t_ == 2 * N
    assert list(model.feature_names_in_) == [f"c{k}" for k in range(D)]
    assert model.score(frame[[f"c{k}" for k in range(D)]], y) > 0.7
    with pytest.raises(ValueError, match="no column 'label'"):
        osvm.spark.fit(make(), table, label="label")


def test_spark_sparse_rows(spark):
    rows = [
        (int(y[i]), X[i].indices.tolist(), X[i].data.tolist(), X[i].toarray()[0].tolist())
        for i in range(N)
    ]
    table = spark.createDataFrame(rows, "y int, i array<int>, v array<double>, x array<double>")
    table = table.coalesce(1)
    expected = osvm.distributed.fit(make(), [(X, y.astype(np.int32))], rounds=2)
    sparse = osvm.spark.fit(make(), table, label="y", features=("i", "v"), n_features=D, rounds=2)
    dense = osvm.spark.fit(make(), table, label="y", features="x", rounds=2)
    assert sparse.to_bytes() == expected.to_bytes()
    np.testing.assert_allclose(dense.coef_, expected.coef_, atol=1e-9)


def test_ray_data_sets(ray):
    pd = pytest.importorskip("pandas")
    data = pytest.importorskip("ray.data")
    frame = pd.DataFrame(X.toarray(), columns=[f"c{k}" for k in range(D)]).assign(y=y)
    model = osvm.ray.fit(make(), data.from_pandas([frame[:400], frame[400:]]), label="y", rounds=2)
    assert model.t_ == 2 * N
    with pytest.raises(ValueError, match="names a column"):
        osvm.ray.fit(make(), BLOCKS, label="y")
