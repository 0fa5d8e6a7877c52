"""One model, many threads: what readers see is the model before or after a block, exactly."""

import copy
import io
import pickle
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import osvm
from osvm import losses, recipes, schedules, taxonomy
from osvm.linear.alma import AlmaClassifier
from osvm.linear.multilabel import MultilabelClassifier
from osvm.stream import HashingTokenizer, TextReader

N, D = 120, 12
READERS = 8
BLOCKS = 6
# A copy takes the time of fifty predictions: in every fifth round, and always in the first.
COPIES, COPY_EACH = ("pickle", "deepcopy"), 5


@pytest.fixture(autouse=True)
def _hasty():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def rows(seed, n=N, sparse=False):
    X = np.random.default_rng(seed).normal(size=(n, D))
    X[np.abs(X) < 0.7] = 0.0
    return sp.csr_matrix(X) if sparse else X


class PythonHinge:
    def value(self, y, f):
        return max(0.0, 1.0 - y * f)

    def dloss(self, y, f):
        return -y if y * f < 1.0 else 0.0


def linear_kernel(X, Z):
    return np.asarray((X @ Z.T).todense() if sp.issparse(X) else X @ Z.T)


W = np.random.default_rng(0).normal(size=(D, 3))


def plane():
    """A stream goes on from the plane that `fit` has taken."""
    model = osvm.KernelClassifier(budget=40, random_state=0).fit(rows(7), (rows(7) @ W).argmax(1))
    assert model.kernel_.degree == 1
    return model


def plane_of_numbers():
    model = osvm.KernelRegressor(budget=40, random_state=0).fit(rows(7), rows(7) @ W[:, 0])
    assert model.kernel_.degree == 1
    return model


def tree():
    return taxonomy.from_paths([f"{k % 2}/{k}" for k in range(4)])


SMD = schedules.SMD(eta0=0.1)
SMD_EACH = schedules.SMD(eta0=0.1, per_coordinate=True)
NORMALIZED = schedules.Adaptive(normalized=True)
linear, kernel = osvm.LinearClassifier, osvm.KernelClassifier

# name: (make a model, number of labels)
CLASSIFIERS = {
    "linear binary": (lambda: linear(), 2),
    "linear running scale": (lambda: linear(scale="running"), 2),
    "linear classes": (lambda: linear(), 10),
    "linear many classes": (lambda: linear(), 70),
    "linear average": (lambda: linear(average=True), 5),
    "linear average binary": (lambda: linear(average=True), 2),
    "linear batches": (lambda: linear(batch_size=7), 3),
    "linear normalize project": (lambda: linear(normalize=True, project=True), 3),
    "linear jobs": (lambda: linear(n_jobs=2), 4),
    "linear squared hinge": (lambda: linear("squared_hinge"), 3),
    "linear logistic": (lambda: linear("logistic", average=5), 2),
    "linear softmax": (lambda: linear("softmax"), 6),
    "linear multiclass hinge": (lambda: linear("multiclass_hinge"), 4),
    "linear platt": (lambda: linear(probability=True), 3),
    "linear smd": (lambda: linear(schedule=SMD), 4),
    "linear smd binary": (lambda: linear(schedule=SMD), 2),
    "linear smd each": (lambda: linear(schedule=SMD_EACH), 4),
    "linear adaptive": (lambda: linear(schedule="adaptive", average=True), 2),
    "linear adaptive classes": (lambda: linear(schedule=NORMALIZED, average=True), 4),
    "linear mirror": (lambda: linear(schedule=schedules.Adaptive(mirror=True)), 3),
    "linear coins": (lambda: linear(schedule="coin_betting"), 3),
    "linear python loss": (lambda: linear(PythonHinge()), 2),
    "linear balanced": (lambda: linear(class_weight="balanced"), 3),
    "kernel binary": (lambda: kernel(budget=40, gamma=0.1), 2),
    "kernel classes": (lambda: kernel(budget=40, gamma=0.1), 4),
    "kernel softmax": (lambda: kernel("softmax", budget=None, gamma=0.1), 3),
    "kernel change": (lambda: kernel(budget=30, gamma=0.1, eviction="change"), 3),
    "kernel merge": (lambda: kernel(budget=30, gamma=0.1, eviction="merge"), 3),
    "kernel norma": (lambda: kernel(budget=30, gamma=0.1, schedule="inverse_sqrt"), 2),
    "kernel python": (lambda: kernel(kernel=linear_kernel, budget=6), 2),
    "kernel plane": (plane, 3),
    "kernel nu": (lambda: kernel(nu=0.2, budget=30, gamma=0.1, reg=1.0), 2),
    "alma": (lambda: AlmaClassifier(p=4.0), 3),
    "alma binary": (lambda: AlmaClassifier(), 2),
}
NUMBERS = {
    "regressor": lambda: osvm.LinearRegressor("squared", average=True),
    "regressor smd": lambda: osvm.LinearRegressor(schedule=SMD_EACH),
    "regressor adaptive": lambda: osvm.LinearRegressor("squared", schedule="adaptive"),
    "kernel regressor": lambda: osvm.KernelRegressor(gamma=0.1, budget=40),
    "regressor plane": plane_of_numbers,
}
NOVELTY = {
    "novelty": lambda: osvm.LinearNovelty(),
    "kernel novelty": lambda: osvm.KernelNovelty(gamma=0.1, budget=40),
}
LABEL_SETS = {
    "labels": lambda: MultilabelClassifier("logistic"),
    "labels average": lambda: MultilabelClassifier(average=True),
    "labels apart": lambda: MultilabelClassifier(probability=True),
    "labels balanced": lambda: MultilabelClassifier(class_weight="balanced"),
}


SOLVERS = ["ol_svm", "norma", "pegaz", "perceptron", "voted_perceptron", "adatron", "lasvm"]
# Models of a fixed training set: (make a model, number of labels; 0 for numbers, 1 for none)
FIXED = {
    **{name: (lambda name=name: osvm.SVC(solver=name, gamma=0.1, random_state=0), 3)
       for name in SOLVERS},
    "svc probability": (lambda: osvm.SVC(gamma=0.1, probability=True, random_state=0), 3),
    "linear svc": (lambda: osvm.LinearSVC(random_state=0), 2),
    "linear svc classes": (lambda: osvm.LinearSVC(random_state=0, dual=False), 3),
    "svr": (lambda: osvm.SVR(gamma=0.1), 0),
    "one class svm": (lambda: osvm.OneClassSVM(gamma=0.1), 1),
}  # fmt: skip


class Case:
    """A model, the blocks it learns, and everything that can be read off it."""

    def __init__(self, name):
        self.name = name
        self.sparse = len(name) % 2 == 0
        self.fixed = name in FIXED
        self.test = rows(99, 40, self.sparse)
        self.blocks = [rows(b, 30, self.sparse) for b in range(BLOCKS)]
        self.options = {}
        rng = np.random.default_rng(1)
        if name in CLASSIFIERS or self.fixed:
            self.make, k = (CLASSIFIERS | FIXED)[name]
            self.y = [rng.permutation(np.arange(30) % k) if k else rng.normal(size=30)
                      for _ in self.blocks]  # fmt: skip
            self.options = {} if self.fixed else {"classes": np.arange(k)}
        elif name in NUMBERS:
            self.make, self.y = NUMBERS[name], [rng.normal(size=30) for _ in self.blocks]
        elif name in NOVELTY:
            self.make, self.y = NOVELTY[name], [None] * BLOCKS
        else:
            self.make = LABEL_SETS[name]
            self.y = [rng.integers(0, 2, size=(30, 5)) for _ in self.blocks]
            self.options = {"classes": np.arange(5)}

    def learn(self, model, b):
        """Block b of the stream."""
        if self.fixed:
            model.fit(self.blocks[b], self.y[b])
        else:
            model.partial_fit(self.blocks[b], self.y[b], **self.options)

    def readings(self):
        """Everything that a thread may ask, by name."""
        test = self.test
        found = {"predict": lambda m: m.predict(test)}
        for name in ("decision_function", "score_samples", "predict_proba"):
            if hasattr(self.trained(1), name):
                found[name] = lambda m, name=name: getattr(m, name)(test)
        for name in ("coef_", "intercept_", "dual_coef_", "t_"):
            if hasattr(self.trained(1), name):
                found[name] = lambda m, name=name: getattr(m, name)
        found["pickle"] = lambda m: pickle.loads(pickle.dumps(m)).predict(test)
        found["deepcopy"] = lambda m: copy.deepcopy(m).predict(test)
        if hasattr(self.trained(1), "predict_one"):
            columns, values = np.arange(D), np.linspace(-1.0, 1.0, D)
            found["predict_one"] = lambda m: m.predict_one(columns, values)
            found["score_one"] = lambda m: m.score_one(dict(enumerate(values.tolist())))
        return found

    def trained(self, n):
        model = self.make()
        for b in range(n):
            self.learn(model, b)
        return model


CASES = [*CLASSIFIERS, *NUMBERS, *NOVELTY, *LABEL_SETS, *FIXED]


def as_bytes(answer):
    return np.ascontiguousarray(answer).tobytes()


def gather(works, seconds=300.0):
    """Run all works in threads of their own; raise what one of them raised."""
    errors = []

    def run(work):
        try:
            work()
        except BaseException as error:  # raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "a thread is stuck"
    if errors:
        raise errors[0]


def read_while(case, model, allowed, calls, train=None):
    """READERS threads read; every answer is one of those allowed.

    `train` is called again and again until the last reader is done.
    """
    readings = case.readings()
    wrong, done = [], []

    def reader(seed):
        names = list(readings)
        for i in range(calls):
            name = names[(seed + i) % len(names)]
            if name in COPIES and (seed + i) // len(names) % COPY_EACH:
                name = names[0]
            if as_bytes(readings[name](model)) not in allowed[name]:
                wrong.append(name)

    def read(seed):
        try:
            reader(seed)
        finally:
            done.append(seed)

    def train_on():
        while len(done) < READERS:
            train()

    works = [lambda k=k: read(k) for k in range(READERS)]
    gather(works if train is None else [*works, train_on], 300.0 + calls)
    assert not wrong, f"{len(wrong)} of {READERS * calls} answers: {sorted(set(wrong))}"
    assert model._lock.is_free


def check_steady(name, calls):
    case = Case(name)
    model = case.trained(3)
    allowed = {key: {as_bytes(read(model))} for key, read in case.readings().items()}
    read_while(case, model, allowed, calls)


def check_training(name, calls):
    """The stream begins again and again: readers see one of its BLOCKS states."""
    case = Case(name)
    readings = case.readings()
    states = [case.trained(n) for n in range(1, BLOCKS + 1)]
    allowed = {key: {as_bytes(read(m)) for m in states} for key, read in readings.items()}
    model = case.trained(1)
    start = copy.deepcopy(model)
    # models of labels that learn apart sum their scores in another order once they are copied
    for key, read in readings.items():
        allowed[key].add(as_bytes(read(start)))

    def train():
        for b in range(1, BLOCKS):
            case.learn(model, b)
        with model._lock.changing():
            model.__dict__.update(copy.deepcopy(start).__dict__)
            for name in set(vars(model)) - set(vars(start)):
                del model.__dict__[name]

    read_while(case, model, allowed, calls, train)


@pytest.mark.parametrize("name", CASES)
def test_readers_agree(name):
    check_steady(name, 12)


@pytest.mark.parametrize("name", CASES)
def test_readers_see_whole_blocks(name):
    check_training(name, 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_readers_agree_for_long(name):
    check_steady(name, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_readers_see_whole_blocks_for_long(name):
    check_training(name, 10_000)


@pytest.mark.parametrize("name", [name for name in CASES if name not in FIXED])
def test_writers_lose_no_examples(name):
    case = Case(name)
    model = case.trained(1)

    def train():
        for b in range(1, BLOCKS):
            case.learn(model, b)

    gather([train] * 4)
    assert model.t_ == getattr(case.make(), "t_", 0) + 30 * (1 + 4 * (BLOCKS - 1))


def test_first_blocks_of_two_threads_add_up():
    case = Case("linear classes")
    for _ in range(20):
        model = case.make()
        gather([lambda m=model, b=b: case.learn(m, b) for b in range(4)])
        assert model.t_ == 120


def test_learn_one_and_partial_fit_add_up():
    model = osvm.LinearClassifier(average=True).partial_fit(rows(0), np.arange(N) % 3)
    one = {0: 1.0, 3: -2.0}

    def learn():
        for _ in range(500):
            model.learn_one(one, 1)

    def block():
        for _ in range(20):
            model.partial_fit(rows(1), np.arange(N) % 3)

    def read():
        for _ in range(500):
            model.predict_one(one)

    gather([learn, learn, block, read, read])
    assert model.t_ == N + 1000 + 20 * N


def test_the_tokenizer_comes_with_the_first_example_in_one_step():
    example = {"good": 1.0, "film": 1.0}
    begun = threading.Event()

    class Slow(osvm.LinearClassifier):
        def __setattr__(self, name, value):
            if name == "tokenizer_":  # the weights are there already
                begun.set()
                time.sleep(0.1)
            super().__setattr__(name, value)

    model, found = Slow(), []

    def read():
        begun.wait()
        found.append(model.predict_one(example))
        model.learn_one(example, "neg")

    gather([lambda: model.learn_one(example, "pos"), read])
    assert found == ["pos"]
    assert model.t_ == 2


def test_predictions_of_text_are_not_counted_as_documents():
    """While one thread counts the documents that it reads, others predict texts and names."""
    documents = [f"word{k % 7} word{k % 5}" for k in range(40)]
    tokenizer = HashingTokenizer(6, keep_terms=True).fit(documents)
    model = osvm.LinearClassifier()
    model.tokenizer_ = tokenizer
    model.fit(tokenizer.transform(documents), np.arange(40) % 2)
    begun, end = threading.Event(), threading.Event()

    def wait_for_the_end():
        yield "word1"
        begun.set()
        end.wait()
        yield "word2"

    late = threading.Thread(target=lambda: tokenizer.transform(wait_for_the_end()), daemon=True)

    class File(io.BytesIO):
        def readinto(self, buffer):
            if not late.is_alive():
                late.start()
                begun.wait()
            model.predict(documents[:3])
            model.predict_one({"word1": 1.0, "unheard-of": 1.0})
            return super().readinto(buffer)

    lines = File("\n".join(documents).encode())
    reader = TextReader(lines, labelled=False, tokenizer=tokenizer, batch_size=7)
    reader.counting = True
    assert sum(X.shape[0] for X, _ in reader) == 40
    end.set()
    late.join(60.0)
    model.predict_one({"word1": 1.0})
    model.predict(documents)
    assert tokenizer.n_documents_ == 80


def test_a_number_that_lets_other_threads_run_keeps_examples_apart():
    class Value:
        def __init__(self, x):
            self.x = x

        def __float__(self):
            sum(range(50))
            return self.x

    model = osvm.LinearRegressor("squared", fit_intercept=False, eta0=0.1, schedule="constant")
    model.partial_fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
    want = {k: model.score_one({k: 1.0}) for k in range(4)}
    wrong = []

    def read(k):
        for _ in range(200):
            if model.score_one({k: Value(1.0)}) != want[k]:
                wrong.append(k)

    gather([lambda k=k: read(k) for k in range(4)])
    assert not wrong


def test_new_labels_while_others_read():
    model = osvm.LinearClassifier().partial_fit(rows(0), np.arange(N) % 2)

    def train():
        for k in range(3, 40):
            model.partial_fit(rows(k), np.arange(N) % k)

    def read():
        for _ in range(150):
            assert set(model.predict(rows(7)).tolist()) <= set(range(40))
            scores = model.decision_function(rows(7))
            assert scores.shape[0] == N

    gather([train, read, read, read])
    assert len(model.classes_) == 39


def test_a_fit_lets_others_read_the_old_model():
    X, y = rows(0), np.arange(N) % 3
    during = []

    def look(copied, epoch):
        # another thread, which the callback waits for
        gather([lambda: during.append(model.predict(X))])

    model = osvm.LinearClassifier(random_state=0).fit(X, y)
    want = model.predict(X)
    model.set_params(callback=look, epochs=3)
    model.fit(rows(1), y)
    assert len(during) == 3
    assert all(np.array_equal(found, want) for found in during)


def test_errors_of_a_python_kernel_stay_in_their_thread():
    def picky(X, Z):
        if max(X[0, 0], Z[0, 0]) > 1e5:
            raise KeyError("too large")
        return X @ Z.T

    X = rows(0)
    model = osvm.KernelClassifier(kernel=picky, budget=5).partial_fit(X, np.arange(N) % 2)
    want = model.decision_function(X[:10])
    bad = X[:10].copy()
    bad[3, 0] = 1e6

    def fails():
        for _ in range(30):
            with pytest.raises(KeyError, match="too large"):
                model.decision_function(bad)

    def works():
        for _ in range(30):
            assert np.array_equal(model.decision_function(X[:10]), want)

    gather([fails, works, fails, works])


def test_saving_while_training(tmp_path):
    case = Case("kernel classes")
    states = {as_bytes(case.trained(n).decision_function(case.test)) for n in range(1, BLOCKS + 1)}
    model = case.trained(1)

    def train():
        for b in range(1, BLOCKS):
            case.learn(model, b)

    def save(k):
        for i in range(15):
            path = tmp_path / f"{k}-{i}.osvm"
            model.save(path)
            assert as_bytes(osvm.load(path).decision_function(case.test)) in states

    gather([train, lambda: save(0), lambda: save(1)])


def test_recipes_share_the_contract():
    X, y = rows(0), np.arange(N) % 2
    for make in (recipes.pegasos, recipes.voted_perceptron):
        model = make().fit(X, y)
        want = model.predict(X)

        def read(model=model, want=want):
            for _ in range(10):
                assert np.array_equal(model.predict(X), want)

        gather([read] * 4)


def test_graph_hinge_with_a_taxonomy():
    labels = [f"{k % 2}/{k}" for k in range(4)]
    y = np.array(labels)[np.arange(N) % 4]
    model = osvm.LinearClassifier("graph_hinge", taxonomy=tree()).partial_fit(rows(0), y)
    want = model.predict(rows(5))

    def read():
        for _ in range(30):
            assert np.array_equal(model.predict(rows(5)), want)

    gather([read] * READERS)


def test_reading_norms_changes_nothing():
    model = osvm.LinearClassifier(losses.Hinge(), schedule="bottou")
    model.partial_fit(rows(0), np.arange(N) % 3)
    weights = model._learner.weights
    before = pickle.dumps(weights)
    assert np.allclose(weights.norms, np.linalg.norm(weights.array(), axis=1))
    assert pickle.dumps(weights) == before
    model = osvm.LinearClassifier(schedule="bottou").partial_fit(rows(0), np.arange(N) % 2)
    vector = model._learner.weights
    before = pickle.dumps(vector)
    assert np.isclose(vector.norm, np.linalg.norm(vector.array()))
    assert pickle.dumps(vector) == before
