"""The hashing tokenizer: terms, columns, weights by the documents counted so far."""

import io
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_stream import murmur3, streamed, tfidf

import osvm
from osvm.stream import HashingTokenizer, TextReader
from osvm.stream.tokenizer import ENGLISH

PLAIN = {"tf": "count", "idf": False}


def random_documents(rng, n=200):
    letters = list("abcdefgXYZ0123_ '.,!-\n\t")
    return ["".join(rng.choice(letters, rng.integers(0, 200))) for _ in range(n)]


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("norm", [True, False])
def test_same_matrix_as_hashing_vectorizer(ngrams, signed, norm):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    documents = random_documents(np.random.default_rng(0))
    for analyzer in ("word", "char"):
        other = text.HashingVectorizer(
            n_features=2**12,
            ngram_range=ngrams,
            alternate_sign=signed,
            norm="l2" if norm else None,
            analyzer=analyzer,
        )
        ours = HashingTokenizer(12, ngrams, signed, norm=norm, analyzer=analyzer, **PLAIN)
        difference = abs(other.transform(documents) - ours.transform(documents, "float64"))
        assert difference.nnz == 0 or difference.max() < 1e-12


@pytest.mark.parametrize("tf", ["log", "count"])
@pytest.mark.parametrize("norm", [True, False])
def test_same_weights_as_tfidf_transformer(tf, norm):
    """When all documents have been seen."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    documents = random_documents(np.random.default_rng(1))
    counts = text.HashingVectorizer(n_features=2**9, alternate_sign=False, norm=None)
    other = text.TfidfTransformer(norm="l2" if norm else None, sublinear_tf=tf == "log")
    expected = other.fit_transform(counts.transform(documents))
    for signed in (False, True):
        ours = HashingTokenizer(bits=9, tf=tf, norm=norm, signed=signed)
        X = ours.fit_transform(documents, dtype="float64")
        assert (ours.transform(documents, "float64") != X).nnz == 0
        if not signed:
            assert abs(expected - X).max() < 1e-12
    again = HashingTokenizer(bits=9, tf=tf, norm=norm, signed=False)
    for start in range(0, 200, 30):
        again.partial_fit(documents[start : start + 30])
    assert abs(expected - again.transform(documents, "float64")).max() < 1e-12
    held_out = random_documents(np.random.default_rng(2))
    expected = other.transform(counts.transform(held_out))
    assert abs(expected - again.transform(held_out, "float64")).max() < 1e-12


@given(st.lists(st.lists(st.sampled_from(["aa", "bb", "cc", "dd"]), max_size=6), max_size=8))
@settings(max_examples=50, deadline=None)
def test_weights_of_a_stream_follow_the_equation(documents):
    tokenizer = HashingTokenizer(signed=False)
    text = "".join(f"x\t{' '.join(document)}\n" for document in documents).encode()
    batches = list(TextReader(io.BytesIO(text), tokenizer=tokenizer, dtype="float64"))
    frequencies = dict.fromkeys(["aa", "bb", "cc", "dd"], 0)
    rows = (X[[k]] for X, _ in batches for k in range(X.shape[0]))
    for n, (document, row) in enumerate(zip(documents, rows, strict=True), 1):
        for term in set(document):
            frequencies[term] += 1
        expected = tfidf(document, n, frequencies)
        found = {term: float(row[0, tokenizer.column(term)[0]]) for term in expected}
        assert row.nnz == len(expected)
        assert found == pytest.approx(expected, abs=1e-12)
    assert tokenizer.n_documents_ == len(documents)


def test_tokens():
    tokenizer = HashingTokenizer()
    assert tokenizer.tokens("It's a TEST_1, isn't it?") == ["it", "test_1", "isn", "it"]
    assert tokenizer.tokens("Ünïcode — ‘ΑΒΓ’ МОСКВА naïve\u00a0bar 日本語。テスト ÷x ЁЖ") == [
        "ünïcode", "αβγ", "москва", "naïve", "bar", "日本語", "テスト", "ёж",
    ]  # fmt: skip
    assert tokenizer.tokens(b"ab\xffcd\xc3") == ["ab", "cd"]
    assert HashingTokenizer(lowercase=False, min_length=1).tokens("A b") == ["A", "b"]
    assert HashingTokenizer(ngrams=(2, 3)).tokens("aa bb cc") == ["aa bb", "bb cc", "aa bb cc"]


def test_column_and_sign_follow_the_hash():
    tokenizer = HashingTokenizer(bits=9, norm=False, **PLAIN)
    for term in ("word", "日本語", "two words", "abcde", "abcdefg"):
        h = murmur3(term.encode(), 0)
        h -= 2**32 if h >= 2**31 else 0
        assert tokenizer.column(term) == (abs(h) % 512, 1 if h >= 0 else -1)
    X = tokenizer.transform(["word"])
    assert (X.indices[0], X.data[0]) == tokenizer.column("word")


def test_term_frequencies():
    documents = ["aa aa aa bb"]
    for tf, expected in [("count", [3, 1]), ("log", [1 + np.log(3), 1]), ("binary", [1, 1])]:
        tokenizer = HashingTokenizer(tf=tf, idf=False, norm=False, signed=False)
        X = tokenizer.transform(documents, "float64")
        np.testing.assert_allclose(X.data, expected)
    X = HashingTokenizer(idf=False).transform(["aa aa bb", "", "cc"])
    np.testing.assert_allclose(np.sqrt((X.toarray() ** 2).sum(1)), [1, 0, 1], rtol=1e-6)


def test_tokenizer_refuses_wrong_parameters():
    for wrong in (
        {"bits": 0},
        {"bits": 31},
        {"tf": "idf"},
        {"ngrams": (2, 1)},
        {"min_length": 0},
        {"analyzer": "words"},
        {"stop_words": "german"},
        {"norm": 2},
        {"ngrams": 3},
        {"analyzer": "char", "stop_words": ["a"]},
    ):
        with pytest.raises(ValueError, match="must be"):
            HashingTokenizer(**wrong)
    for method in ("fit", "partial_fit", "transform", "fit_transform"):
        with pytest.raises(TypeError, match="not one string"):
            getattr(HashingTokenizer(idf=False), method)("one")
    with pytest.raises(ValueError, match="has counted no documents"):
        HashingTokenizer().transform(["one"])
    tokenizer = HashingTokenizer().fit(["one"])
    with pytest.raises(TypeError, match="must be str or bytes, got 5"):
        tokenizer.partial_fit(["two", 5])
    assert tokenizer.n_documents_ == 1
    with pytest.raises(ValueError, match="bits must be"):
        tokenizer.set_params(bits=0)
    assert (tokenizer.bits, tokenizer.n_documents_) == (20, 1)


def test_what_was_counted_is_kept():
    documents = random_documents(np.random.default_rng(3))
    tokenizer = HashingTokenizer(bits=7, ngrams=(1, 2), lowercase=False, keep_terms=True)
    expected = tokenizer.fit_transform(documents)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.config() == tokenizer.config()
    third = HashingTokenizer(**json.loads(json.dumps(tokenizer.config())))
    third.set_state(*tokenizer.get_state())
    for other in (again, third):
        assert (other.transform(documents) != expected).nnz == 0
        assert other.terms(range(128)) == tokenizer.terms(range(128))


def test_merged_counts_are_those_of_all_documents():
    documents = random_documents(np.random.default_rng(4))
    whole = HashingTokenizer(keep_terms=True).fit(documents)
    parts = [HashingTokenizer(keep_terms=True).fit(documents[k::3]) for k in range(3)]
    first = parts[0].merge(*parts[1:])
    assert first.n_documents_ == 200
    assert (first.transform(documents) != whole.transform(documents)).nnz == 0
    columns = whole.hasher.get_counts()[0]
    assert None not in first.terms(columns)
    with pytest.raises(ValueError, match="same parameters"):
        first.merge(HashingTokenizer(bits=9))


@pytest.mark.parametrize(
    "change",
    [
        lambda s, a: s.update(n_documents=-1),
        lambda s, a: s.update(n_documents=1),
        lambda s, a: a.update(columns=a["columns"][::-1].copy()),
        lambda s, a: a.update(columns=a["columns"] + 1024),
        lambda s, a: a.update(documents=a["documents"][1:]),
        lambda s, a: a.update(terms=a["terms"][:-1]),
        lambda s, a: a.update(terms=np.append(a["terms"], a["terms"][:1])),
        lambda s, a: a.pop("terms"),
        lambda s, a: a.update(more=a["terms"]),
    ],
)
def test_a_malformed_state_changes_nothing(change):
    tokenizer = HashingTokenizer(bits=10, keep_terms=True).fit(["aa bb", "bb cc"])
    scalars, arrays = tokenizer.get_state()
    change(scalars, arrays)
    with pytest.raises(ValueError, match=r"saved"):
        tokenizer.set_state(scalars, arrays)
    assert tokenizer.n_documents_ == 2
    assert tokenizer.terms([tokenizer.column("cc")[0]]) == ["cc"]


def test_stop_words_and_characters():
    tokens = HashingTokenizer(stop_words="english").tokens("The end of all of it, and more of IT")
    assert tokens == ["end"]
    tokenizer = HashingTokenizer(stop_words=["Good", "day"], ngrams=(1, 2))
    assert tokenizer.tokens("good old day") == ["old"]
    assert HashingTokenizer(stop_words=["Good"], lowercase=False).tokens("Good good") == ["good"]
    many = [f"word{k}" for k in range(1000)]
    assert HashingTokenizer(stop_words=many).tokens(" ".join([*many, "word1000"])) == ["word1000"]
    assert len(ENGLISH) > 100
    tokenizer = HashingTokenizer(analyzer="char", ngrams=(2, 2))
    assert tokenizer.tokens("Ab  Ü") == ["ab", "b ", " ü"]
    assert tokenizer.tokens(b"a\xff") == ["a?"]


def test_kept_terms():
    tokenizer = HashingTokenizer(keep_terms=True)
    tokenizer.fit(["one two", "two three"])
    columns = [tokenizer.column(term)[0] for term in ("one", "two", "three", "four")]
    assert tokenizer.terms(columns) == ["one", "two", "three", None]
    tokenizer.keep_only(columns[1:2])
    assert tokenizer.terms(columns) == [None, "two", None, None]
    tokenizer.partial_fit(["one"])
    assert tokenizer.terms(columns) == ["one", "two", None, None]
    assert HashingTokenizer().fit(["one"]).terms(columns) == [None] * 4


@pytest.mark.parametrize("analyzer", ["word", "char"])
@pytest.mark.parametrize("ngrams", [(1, 1), (1, 3)])
def test_the_sign_of_a_kept_term_is_that_of_its_entries(ngrams, analyzer):
    documents = random_documents(np.random.default_rng(5), 40)
    tokenizer = HashingTokenizer(
        16, ngrams, keep_terms=True, analyzer=analyzer, norm=False, **PLAIN
    )
    columns = np.unique(tokenizer.fit_transform(documents).indices)
    seen = set()
    for column, (term, sign) in zip(columns, tokenizer.signed_terms(columns)):
        alone = tokenizer.transform_named([{term: 1.0}])
        assert (alone.indices.tolist(), alone.data.tolist()) == ([column], [sign])
        seen.add(sign)
    assert seen == {-1, 1}
    assert tokenizer.terms(columns) == [term for term, _ in tokenizer.signed_terms(columns)]
    plain = HashingTokenizer(16, signed=False, keep_terms=True).fit(documents)
    assert {sign for _, sign in plain.signed_terms(range(1 << 16))} == {1}


def test_a_term_too_long_to_be_kept_whole_has_no_sign():
    word = "w" * 300
    tokenizer = HashingTokenizer(keep_terms=True).fit([word])
    column = tokenizer.column(word)[0]
    assert tokenizer.signed_terms([column]) == [(None, 1)]
    tokenizer.set_term(column, word)
    assert tokenizer.terms([column]) == [word[:255]]
    assert tokenizer.signed_terms([column]) == [(None, 1)]


def test_a_reader_counts_each_document_once():
    data = b"".join(b"x\tword%d other\n" % k for k in range(20))
    reader = TextReader(io.BytesIO(data), batch_size=4)
    first = [X for X, _ in reader]
    assert reader.tokenizer.n_documents_ == 20
    second = [X for X, _ in reader]
    assert reader.tokenizer.n_documents_ == 20
    assert (first[0] != second[0]).nnz > 0  # now by all documents
    assert (second[0] != second[0]).nnz == 0
    reader = TextReader(io.BytesIO(data), batch_size=4)
    expected = streamed(HashingTokenizer(), [f"word{k} other" for k in range(20)])
    assert (next(reader)[0] != expected[:4]).nnz == 0
    place = reader.get_state()
    assert (next(reader)[0] != expected[4:8]).nnz == 0
    reader.rewind()
    next(reader)
    assert reader.tokenizer.n_documents_ == 8
    again = TextReader(io.BytesIO(data), batch_size=4)
    again.set_state(*place)
    assert (next(again)[0] != expected[4:8]).nnz == 0
    fitted = TextReader(io.BytesIO(data), tokenizer=again.tokenizer)
    list(fitted)
    assert again.tokenizer.n_documents_ == 8


def test_named_features():
    tokenizer = HashingTokenizer(tf="count", idf=False, norm=False)
    X = tokenizer.transform_named([{"good": 2.0, "film": -1, "from": "FR", "new": True}, {}])
    for term, value in {"good": 2.0, "film": -1.0, "from=FR": 1.0, "new": 1.0}.items():
        column, sign = tokenizer.column(term)
        assert X[0, column] == sign * value
    assert X.nnz == 4
    text = HashingTokenizer().fit(["good good film", "film"])
    expected = text.transform(["good good film"], "float64")
    assert abs(text.transform_named([{"good": 2, "film": 1}]) - expected).max() < 1e-15


def test_a_transformer_as_scikit_learn_wants_it():
    base = pytest.importorskip("sklearn.base")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.utils.validation import check_is_fitted

    import osvm

    texts, y = ["good film", "bad film", "good play", "bad play"] * 10, ["pos", "neg"] * 20
    given = {"bits": np.int64(9), "ngrams": [1, 2], "stop_words": ("a", "b")}
    tokenizer = HashingTokenizer(**given)
    for name, value in given.items():
        assert tokenizer.get_params()[name] is value
    tokenizer.fit(texts)
    check_is_fitted(tokenizer)
    copy = base.clone(tokenizer)
    assert (copy.n_documents_, copy.config()) == (0, tokenizer.config())
    assert repr(HashingTokenizer(bits=9)) == "HashingTokenizer(bits=9)"
    tokenizer.set_params(bits=np.int64(9))
    assert tokenizer.n_documents_ == 40
    assert tokenizer.set_params(bits=8).n_documents_ == 0
    pipeline = make_pipeline(HashingTokenizer(bits=12), osvm.LinearClassifier(random_state=0))
    assert pipeline.fit(texts, y).predict(["good", "bad"]).tolist() == ["pos", "neg"]
    grid = GridSearchCV(pipeline, {"hashingtokenizer__tf": ["log", "count"]}, cv=2)
    assert grid.fit(texts, y).best_score_ == 1.0


def test_a_refit_on_other_columns_forgets_the_tokenizer(tmp_path):
    """It would turn text into columns that the new weights know nothing of."""
    texts, y = ["good film", "bad film", "good plot", "bad plot"] * 5, [1, 0, 1, 0] * 5
    model = osvm.LinearClassifier(random_state=0)
    model.tokenizer_ = HashingTokenizer(bits=8)
    model.fit(model.tokenizer_.fit_transform(texts), y).save(tmp_path / "m.osvm")
    model = osvm.load(tmp_path / "m.osvm")
    assert model.predict(["good film", "bad plot"]).tolist() == [1, 0]
    with pytest.raises(ValueError, match="row 3"):
        model.fit(np.where(np.arange(20)[:, None] == 3, np.nan, np.ones((20, 256))), y)
    assert model.predict(["good film", "bad plot"]).tolist() == [1, 0]  # a failed fit keeps it
    model.fit(np.random.default_rng(0).normal(size=(20, 256)), y)
    with pytest.raises(ValueError, match="got a list of texts"):
        model.predict(["good film"])
