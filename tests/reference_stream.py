"""Slow, strict readers of the text formats, written from the formats' description.

Each returns the rows of a whole text, or the number of the first line (from 1)
that does not follow the format.
"""

import re

import numpy as np
from scipy.sparse import vstack

NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Malformed(Exception):
    """Carries the line number."""


def read_number(text, *, float32=False):
    if not NUMBER.fullmatch(text):
        raise ValueError("not a number")
    value = float(text)
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value) if float32 else value):
            raise ValueError("too large")
    return value


def read_integer(text):
    if not re.fullmatch(rb"[0-9]+", text) or int(text) >= 10**18:
        raise ValueError("not an integer below 10**18")
    return int(text)


def split_lines(text):
    """Lines without their line feed; a byte order mark at the head is dropped."""
    if text.startswith(b"\xef\xbb\xbf"):
        text = text[3:]
    lines = text.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def svmlight_line(line, base, n_features, multilabel):
    """(labels, qid, [(index, value)]) of a line, None when it holds no example."""
    if b"\0" in line:
        raise ValueError("NUL")
    line, hash_mark, _ = line.partition(b"#")
    if not hash_mark and line.endswith(b"\r"):
        line = line[:-1]
    if re.search(rb"[^\x20-\x7e\t]", line):
        raise ValueError("a byte that is no character of the format")
    tokens = re.split(rb"[ \t]+", line.strip(b" \t"))
    if tokens == [b""]:
        return None
    labels = []
    if not (multilabel and re.fullmatch(rb"[0-9]+:.*", tokens[0])):
        head = tokens.pop(0).split(b",")
        if len(head) > 1 and not multilabel:
            raise ValueError("two labels")
        labels = [read_number(one) for one in head]
    qid = 0
    if tokens and tokens[0].startswith(b"qid:"):
        qid = read_integer(tokens.pop(0)[4:])
    row, previous = [], base - 1
    for token in tokens:
        index_text, colon, value_text = token.partition(b":")
        if not colon:
            raise ValueError("no colon")
        index = read_integer(index_text)
        if index <= previous or index - base >= n_features:
            raise ValueError("index")
        previous = index
        row.append((index - base, read_number(value_text, float32=True)))
    return labels, qid, row


def read_svmlight(text, *, base, n_features, multilabel=False):
    rows = []
    for number, line in enumerate(split_lines(text), 1):
        try:
            row = svmlight_line(line, base, n_features, multilabel)
        except ValueError as error:
            raise Malformed(number) from error
        if row is not None:
            rows.append(row)
    return rows


def murmur3(data, seed):
    """MurmurHash3_x86_32."""
    mask = 0xFFFFFFFF

    def rotate(x, n):
        return ((x << n) | (x >> (32 - n))) & mask

    def mix(k):
        return rotate(k * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask

    h = seed
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        h = rotate(h ^ mix(int.from_bytes(data[i : i + 4], "little")), 13)
        h = (h * 5 + 0xE6546B64) & mask
    if data[whole:]:
        h ^= mix(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    return h ^ (h >> 16)


def vw_hash(name, seed):
    if re.fullmatch(rb"[0-9]*", name):
        return (int(name or b"0") + seed) & 0xFFFFFFFF
    return murmur3(name, seed)


def vw_line(line, bits, unlabelled):
    """(label, importance, [(column, value)]) of a line, None when it is blank."""
    if line.endswith(b"\r"):
        line = line[:-1]
    if b"\0" in line or b"\r" in line:
        raise ValueError("NUL or carriage return")
    if not line.strip(b" \t"):
        return None
    if b"|" not in line:
        raise ValueError("no bar")
    head, *spaces = line.split(b"|")
    words = [word for word in re.split(rb"[ \t]+", head) if word]
    touching = bool(head) and head[-1:] not in b" \t"
    if words and words[-1].startswith(b"'"):
        words.pop()
    elif words and touching:
        try:
            read_number(words[-1])
        except ValueError:
            words.pop()
        else:
            raise ValueError("a number touches the bar")
    numbers = [read_number(word) for word in words]
    if len(numbers) > 3 or (len(numbers) > 1 and numbers[1] < 0):
        raise ValueError("head")
    if (len(numbers) == 3 and numbers[2] != 0) or (not numbers and not unlabelled):
        raise ValueError("head")
    row = []
    for space in spaces:
        weight, seed, anonymous = 1.0, 0, 0
        match = re.match(rb"[^ \t]+", space)
        if match:
            name, colon, text = match.group().partition(b":")
            weight = read_number(text) if colon else 1.0
            seed = vw_hash(name, 0)
            space = space[match.end() :]
        for token in re.split(rb"[ \t]+", space):
            if not token:
                continue
            name, colon, text = token.partition(b":")
            value = read_number(text) if colon else 1.0
            if name:
                column = vw_hash(name, seed)
            else:
                column = (seed + anonymous) & 0xFFFFFFFF
                anonymous += 1
            value *= weight
            with np.errstate(over="ignore"):
                if not np.isfinite(np.float32(value)):
                    raise ValueError("too large")
            if value != 0:
                row.append((column & (2**bits - 1), value))
    label = numbers[0] if numbers else float("nan")
    return label, numbers[1] if len(numbers) > 1 else 1.0, row


def read_vw(text, *, bits, unlabelled=False):
    rows = []
    for number, line in enumerate(split_lines(text), 1):
        try:
            row = vw_line(line, bits, unlabelled)
        except ValueError as error:
            raise Malformed(number) from error
        if row is not None:
            rows.append(row)
    return rows


def mutate(rng, text):
    """A copy of the text with a few random faults."""
    data = bytearray(text)
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(9)
        at = int(rng.integers(len(data))) if data else 0
        if kind == 0 and data:
            data[at] = int(rng.integers(256))
        elif kind == 1 and data:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            del data[at : at + int(rng.integers(1, 8))]
        elif kind == 3:
            data[at:at] = data[max(0, at - int(rng.integers(1, 30))) : at]
        elif kind == 4:
            data = data[:at]
        else:
            pieces = (
                b"\0", b":", b"|", b"#", b" ", b"\t", b"\r", b"\n", b"\r\n", b"nan", b"inf",
                b"1e999", b"1e39", b"-", b"+", b".", b"e5", b"0x1p3", b"'", b",", b"1,2",
                b"qid:3 ", b"99999999999999999999", b"4294967297:1", b"2147483648:1 ",
                b"0.1234567890123456789012", b" 0:1", b"\xef\xbb\xbf", b"\xff", b"1:2:3", b"|a:2 ",
                b"1_000", "٣".encode(), b"-5:1", b"1e-400", b"179769313486231580793e289",
            )  # fmt: skip
            data[at:at] = pieces[rng.integers(len(pieces))]
    return bytes(data)


# ------------------------------------------------------------------- tf-idf


def streamed(tokenizer, documents, dtype="float32"):
    """Rows of documents, each weighed by the documents up to itself: one call per document."""
    rows = [tokenizer.partial_fit([text]).transform([text], dtype) for text in documents]
    return vstack(rows, format="csr")


def tfidf(tokens, n_documents, frequencies):
    """Weights of a document's terms by E11: (1 + ln tf)(ln((1 + N)/(1 + df)) + 1), unit norm."""
    counts = {}
    for term in tokens:
        counts[term] = counts.get(term, 0) + 1
    weights = {
        term: (1 + np.log(count)) * (np.log((1 + n_documents) / (1 + frequencies[term])) + 1)
        for term, count in counts.items()
    }
    norm = np.sqrt(sum(value**2 for value in weights.values()))
    return {term: value / norm for term, value in weights.items()}
