"""Checks of constructor parameters, each with one clear message.

Constructors store what they are given; estimators call these at the start of
`fit` and `partial_fit`, before any state is touched.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from osvm._input.convert import brief

LARGEST_INTEGER = 2**62  # what compiled code counts with, and room to add


def check_number(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    low_open: bool = False,
    high_open: bool = False,
    none: bool = False,
) -> Any:
    """`value` as a float within its bounds.

    Parameters
    ----------
    name : str
        The parameter, for the message.
    value : number
    low, high : float, optional
        Bounds.
    low_open, high_open : bool
        The bound itself is refused.
    none : bool
        None is accepted, and returned.

    Examples
    --------
    >>> check_number("reg", 1e-4, low=0, low_open=True)
    0.0001
    >>> check_number("reg", -1, low=0, low_open=True)
    Traceback (most recent call last):
        ...
    ValueError: reg must be a number > 0, got -1
    """
    if value is None and none:
        return None
    good = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if good:
        try:
            number = float(value)
        except OverflowError:  # an int that no float holds
            number = math.inf
        good = (
            math.isfinite(number)
            and (low is None or number > low or (number == low and not low_open))
            and (high is None or number < high or (number == high and not high_open))
        )
        if good:
            return number
    raise _refusal(name, value, "number", low, high, low_open, high_open, none)


def check_integer(
    name: str,
    value: Any,
    low: int | None = None,
    high: int | None = None,
    *,
    none: bool = False,
) -> Any:
    """`value` as an int within its bounds (inclusive).

    Examples
    --------
    >>> check_integer("epochs", 2.5, low=1)
    Traceback (most recent call last):
        ...
    ValueError: epochs must be an integer >= 1, got 2.5
    """
    if value is None and none:
        return None
    if (
        isinstance(value, numbers.Integral)
        and not isinstance(value, bool | np.bool_)
        and (low is None or int(value) >= low)
        and (high is None or int(value) <= high)
    ):
        if abs(int(value)) <= LARGEST_INTEGER:
            return int(value)
        high = LARGEST_INTEGER
    raise _refusal(name, value, "integer", low, high, False, False, none)


def _refusal(
    name: str,
    value: Any,
    kind: str,
    low: float | None,
    high: float | None,
    low_open: bool,
    high_open: bool,
    none: bool,
) -> ValueError:
    bounds = []
    if low is not None:
        bounds.append(f"{'>' if low_open else '>='} {low}")
    if high is not None:
        bounds.append(f"{'<' if high_open else '<='} {high}")
    article = "an" if kind == "integer" else "a"
    text = f"{name} must be {article} {kind}"
    if bounds:
        text += " " + " and ".join(bounds)
    if none:
        text += " or None"
    return ValueError(f"{text}, got {brief(value)}")


def check_bool(name: str, value: Any) -> bool:
    """`value` as a bool; numbers are refused, they are mostly a slip.

    Examples
    --------
    >>> check_bool("shuffle", "yes")
    Traceback (most recent call last):
        ...
    ValueError: shuffle must be True or False, got 'yes'
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ValueError(f"{name} must be True or False, got {brief(value)}")


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> Any:
    """`value` if it is one of the choices.

    Examples
    --------
    >>> check_choice("eviction", "oldst", ["oldest", "smallest"])
    Traceback (most recent call last):
        ...
    ValueError: eviction must be one of 'oldest', 'smallest', got 'oldst'
    """
    choices = list(choices)
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return value
    shown = ", ".join(repr(choice) for choice in choices)
    raise ValueError(f"{name} must be one of {shown}, got {brief(value)}")


def resolve_reg(reg: Any, C: Any, n_rows: int | None, *, default: float = 1e-4) -> float:
    """The regularizer of the objective from `reg` or `C`: ``reg = 1 / (C * n)``.

    Parameters
    ----------
    reg : float or None
        At least 0.
    C : float or None
        More than 0; needs the number of examples.
    n_rows : int or None
        The number of examples of the training set; None in a stream.
    default : float
        Taken when both are None.

    Examples
    --------
    >>> resolve_reg(None, 2.0, 1000)
    0.0005
    >>> resolve_reg(1e-3, 1.0, 1000)
    Traceback (most recent call last):
        ...
    ValueError: give reg or C, not both: reg = 1/(C*n) (got reg=0.001, C=1.0)
    """
    if reg is not None and C is not None:
        raise ValueError(f"give reg or C, not both: reg = 1/(C*n) (got reg={reg!r}, C={C!r})")
    if C is None:
        return float(check_number("reg", default if reg is None else reg, 0.0))
    C = check_number("C", C, 0.0, low_open=True)
    if n_rows is None:
        raise ValueError(
            "C needs the number of examples (reg = 1/(C*n)), which a stream does not tell: give "
            "reg instead"
        )
    return 1.0 / (C * n_rows)


# ---------------------------------------------------------- random numbers


def make_generator(random_state: Any) -> np.random.Generator:
    """A generator of our own from an int, None, or a numpy generator of either kind.

    A generator that is passed in gives one seed and advances by that draw, so
    two fits with it differ and a run can be repeated from its state.
    """
    if random_state is None:
        return np.random.Generator(np.random.PCG64())
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}")
        return np.random.Generator(np.random.PCG64(int(random_state)))
    if isinstance(random_state, np.random.Generator):
        return np.random.Generator(np.random.PCG64(int(random_state.integers(2**63))))
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        low, high = random_state.randint(0, 2**31 - 1, size=2)
        return np.random.Generator(np.random.PCG64([int(low), int(high)]))
    raise ValueError(
        "random_state must be None, an integer, or a numpy Generator or RandomState, got "
        f"{random_state!r}"
    )


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """The state of a generator from `make_generator`, ready for JSON."""
    state = dict(generator.bit_generator.state)
    inner = {key: str(state["state"][key]) for key in ("state", "inc")}  # 128-bit integers
    return {
        "bit_generator": state["bit_generator"],
        "state": inner,
        "has_uint32": int(state["has_uint32"]),
        "uinteger": int(state["uinteger"]),
    }


def restore_generator(state: dict[str, Any]) -> np.random.Generator:
    """The generator whose state `generator_state` gave."""
    if state["bit_generator"] != "PCG64":
        raise ValueError(f"unknown random generator {state['bit_generator']!r}")
    bits = np.random.PCG64(0)
    inner = state["state"]
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": int(inner["state"]), "inc": int(inner["inc"])},
        "has_uint32": int(state["has_uint32"]),
        "uinteger": int(state["uinteger"]),
    }
    return np.random.Generator(bits)
