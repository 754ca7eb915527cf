"""Find things by name: those of turnwise, those added in code, and those of installed packages.

Each kind of thing has one `Registry` and one entry point group: `turnwise.metrics`, `turnwise.models`,
`turnwise.readers`, `turnwise.packs`.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from turnwise.errors import TurnwiseError, in_brief

log = logging.getLogger(__name__)
T = TypeVar("T")
U = TypeVar("U")
OURS = "turnwise"
# With more names than this, an error gives the hint instead of the list.
MOST_LISTED = 20


@dataclass
class _Item(Generic[T]):
    """Hold a thing, or the `module:attribute` where it is; `plugin` is the object that an entry point names."""

    thing: T | str
    module: str
    plugin: str | None

    @property
    def built_in(self) -> bool:
        return self.plugin is None and self.module.partition(".")[0] == OURS


class Registry(Generic[T]):
    """Keep things of one kind by name.

    Nothing is imported before it is needed: `modules` are turnwise's own modules that register things when imported,
    and entry points of `group` are loaded when a name is not built in or when all names are listed. An entry point
    names a module that registers things, or one thing. `adapt(name, object)` turns that object into a thing; a module
    that registers nothing is such an object too.
    A plugin that fails is reported in the log, and in answer to a name that is not known. A plugin that prints does so
    on stderr, since stdout belongs to the results.

    >>> colours = Registry[int]("colour", "turnwise.colours")
    >>> colours.add("red", 1)
    >>> colours.get("red"), colours.names()
    (1, ['red'])
    """

    def __init__(
        self,
        what: str,
        group: str,
        *,
        modules: Sequence[str] = (),
        hint: str = "",
        adapt: Callable[[str, Any], T] = lambda _, thing: thing,
    ) -> None:
        self.what, self.group, self.hint = what, group, hint
        self._modules, self._adapt = tuple(modules), adapt
        self._items: dict[str, _Item[T]] = {}
        self._broken: dict[str, str] = {}
        self._lock = threading.RLock()
        self._own_loaded = self._plugins_loaded = False
        self._loading: str | None = None

    def add(self, name: str, thing: T | str, *, module: str | None = None) -> None:
        """Register a thing, or the string `module:attribute` that says where it is.

        `module` is the module that defines the thing, if that cannot be seen from it.
        """
        loading = self._loading.partition(":")[0] if self._loading else ""
        item = _Item(thing, module or _module_of(thing) or loading, self._loading)
        if not item.built_in:
            self._load_own()
            known = self._items.get(name)
            if known and item.plugin and known.module == item.module:
                return
            if known and (known.built_in or (item.plugin and known.plugin != item.plugin)):
                owner = OURS if known.built_in else known.plugin or known.module
                raise TurnwiseError(f"{self.what} '{name}': the name belongs to {owner}; choose another")
        self._items[name] = item

    def register(self, name: str) -> Callable[[U], U]:
        """Return a decorator that registers a class or a function under this name."""

        def keep(thing: U) -> U:
            self.add(name, cast(T, thing))
            return thing

        return keep

    def get(self, name: str) -> T:
        """Return the thing of this name."""
        if name not in self._items:
            self._load_own()
        if name not in self._items:
            self._load_plugins()
        if name not in self._items:
            raise TurnwiseError(self._unknown(name))
        try:
            return self._resolve(name)
        except (Exception, SystemExit) as problem:
            raise TurnwiseError(f"{self.what} '{name}': {_failure(problem)}") from problem

    def __contains__(self, name: object) -> bool:
        return name in self._items or name in self.names()

    def names(self) -> list[str]:
        """Return all names, turnwise's own first."""
        self._load_own()
        self._load_plugins()
        return list(self._items)

    def items(self, *, own: bool = False) -> Iterator[tuple[str, T]]:
        """Yield every name with its thing, or turnwise's `own` only; one that cannot be loaded is left out."""
        self._load_own()
        for name in [name for name, item in self._items.items() if item.built_in] if own else self.names():
            try:
                yield name, self._resolve(name)
            except (Exception, SystemExit) as problem:
                self._broken[name] = _failure(problem)

    def _resolve(self, name: str) -> T:
        item = self._items[name]
        if isinstance(item.thing, str):
            module, _, attribute = item.thing.partition(":")
            with redirect_stdout(sys.stderr):
                item.thing = self._adapt(name, getattr(importlib.import_module(module), attribute))
        return item.thing

    def _load_own(self) -> None:
        with self._lock:
            if self._own_loaded:
                return
            self._own_loaded = True
            for module in self._modules:
                importlib.import_module(module)
            # One of them may have been imported before the others: the order of names must not depend on that.
            place = {module: i for i, module in enumerate(self._modules)}
            ordered = sorted(self._items.items(), key=lambda item: place.get(item[1].module, len(place)))
            self._items = dict(ordered)

    def _load_plugins(self) -> None:
        with self._lock:
            if self._plugins_loaded:
                return
            self._plugins_loaded = True
            from importlib.metadata import entry_points

            for plugin in entry_points(group=self.group):
                self._loading, before = plugin.value, len(self._items)
                try:
                    with redirect_stdout(sys.stderr):
                        thing = plugin.load()
                    # A module, or a class with a decorator, has registered its things itself.
                    if len(self._items) == before and not self._came_from(thing):
                        self.add(plugin.name, self._adapt(plugin.name, thing))
                except (Exception, SystemExit) as problem:
                    self._broken[plugin.name] = f"{plugin.value} {_failure(problem)}"
                    log.warning("plugin '%s': %s", plugin.name, self._broken[plugin.name])
                finally:
                    self._loading = None

    def _came_from(self, thing: object) -> bool:
        """Whether a module registered things when it was imported earlier."""
        if not isinstance(thing, types.ModuleType):
            return False
        inside = f"{thing.__name__}."
        return any(f"{item.module}.".startswith(inside) for item in self._items.values())

    def _unknown(self, name: str) -> str:
        names = list(self._items)
        near = [f"'{one}'" for one in difflib.get_close_matches(name, names, n=3)]
        facts = [f"{self.what} '{name}' is not known"]
        facts += [f"did you mean {' or '.join(near)}?"] if near else []
        facts += [f"plugin '{plugin}': {reason}" for plugin, reason in self._broken.items()]
        if len(names) <= MOST_LISTED and not near:
            facts.append(f"known: {', '.join(names)}" if names else "none is installed")
        return "; ".join([*facts, self.hint] if self.hint else facts)


def _module_of(thing: object) -> str:
    if isinstance(thing, str):
        return thing.partition(":")[0]
    defined = isinstance(thing, type | types.FunctionType)
    return thing.__module__ if defined else ""


def _failure(problem: BaseException) -> str:
    return f"cannot be loaded ({type(problem).__name__}: {in_brief(problem)})"
