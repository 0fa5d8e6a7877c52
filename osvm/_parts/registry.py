"""What losses, schedules and kernels have in common: a name, parameters, a registry.

A part is a frozen dataclass: it compares equal by its parameters, prints as the call
that makes it, and can be written as a small dictionary (`config`).  A registry maps
names to classes; each of `osvm.losses`, `osvm.schedules` and `osvm.kernels` has one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar


class Part:
    """A named set of parameters; subclasses are frozen dataclasses."""

    name: ClassVar[str]

    def config(self) -> dict[str, Any]:
        """The part as a dictionary that JSON can hold; `from_config` reads it back."""
        plain = {k: v.item() if hasattr(v, "item") else v for k, v in _fields(self).items()}
        return {"name": self.name, **plain}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them."""
        return _fields(self)

    def set_params(self, **params: Any) -> Any:
        """A part with these parameters changed; this one stays as it is."""
        return replaced(self, params)

    def __sklearn_clone__(self) -> Any:
        return self  # frozen: copies may share it


P = TypeVar("P", bound=Part)


class Registry(Generic[P]):
    """The parts of one sort, by name."""

    def __init__(self, sort: str, classes: Iterable[type[P]]) -> None:
        self.sort = sort
        self.classes = {cls.name: cls for cls in classes}
        self._plain: dict[str, P] = {}  # parts by name alone; they are frozen and shared

    def add(self, cls: Any) -> Any:
        """Make a class known by its name, which must be new; returns the class."""
        if self.classes.setdefault(cls.name, cls) is not cls:
            raise ValueError(f"there is a {self.sort} {cls.name!r} already")
        return cls

    def names(self) -> list[str]:
        return sorted(self.classes)

    def parameters(self, name: str) -> list[str]:
        """The parameters of the part of that name; empty for an unknown one."""
        cls = self.classes.get(name)
        return [] if cls is None else [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]

    def make(self, name: str, params: dict[str, Any]) -> P:
        if name not in self.classes:
            raise ValueError(f"unknown {self.sort} {name!r}; choose from {self.names()}")
        return build(self.classes[name], params)

    def get(
        self,
        part: Any,
        params: dict[str, Any],
        base: type | tuple[type, ...],
        adopt: Callable[[Any], P | None],
    ) -> P:
        """Resolve a name, a part, or an object that `adopt` can wrap."""
        if isinstance(part, str):
            if params:
                return self.make(part, params)
            if part not in self._plain:
                self._plain[part] = self.make(part, params)
            return self._plain[part]
        if not isinstance(part, base):
            adopted = adopt(part)
            if adopted is None:
                raise TypeError(
                    f"a {self.sort} must be a name out of {self.names()} or an object from "
                    f"osvm, not {type(part).__name__}"
                )
            part = adopted
        return replaced(part, params) if params else part

    def from_config(self, config: dict[str, Any]) -> P:
        if not isinstance(config, dict) or not isinstance(config.get("name"), str):
            raise ValueError(f"a {self.sort}'s config is a dictionary with a 'name'")
        params = {key: value for key, value in config.items() if key != "name"}
        return self.make(config["name"], params)


def build(cls: type[P], params: dict[str, Any]) -> P:
    """The part with these parameters; ValueError names one that it does not take."""
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(params) - known)
    if unknown:
        takes = f"it takes {sorted(known)}" if known else "it takes none"
        raise ValueError(f"{cls.name!r} has no parameter {unknown[0]!r}; {takes}")
    return cls(**params)


def replaced(part: P, params: dict[str, Any]) -> P:
    """The part with some parameters changed, as a new one."""
    return build(type(part), {**_fields(part), **params})


def _fields(part: Part) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}  # type: ignore[arg-type]


def check_flag(owner: str, name: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise TypeError(f"{owner}: {name} must be True or False, not {value!r}")


def check_number(
    owner: str,
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse anything but a finite real number within the bounds."""
    if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        raise TypeError(f"{owner}: {name} must be a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not abs(number) < float("inf"):
        raise ValueError(f"{owner}: {name} must be finite, not {value!r}")
    if above is not None and not number > above:
        raise ValueError(f"{owner}: {name} must be greater than {above:g}, not {value!r}")
    if least is not None and not number >= least:
        raise ValueError(f"{owner}: {name} must be at least {least:g}, not {value!r}")
    if most is not None and not number <= most:
        raise ValueError(f"{owner}: {name} must be at most {most:g}, not {value!r}")
