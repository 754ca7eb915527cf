"""What the analyses that answer with rows have in common: a frame, a JSON document, and a look in a notebook."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turnwise.problems import Problem

if TYPE_CHECKING:
    import polars as pl

R = TypeVar("R")


@dataclass(repr=False)
class Rows(Generic[R]):
    """Rows of one dataclass, remarks on how they were made, and what of the input could not be used."""

    rows: list[R]
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def frame(self) -> pl.DataFrame:
        """The rows as a polars frame."""
        import polars as pl

        return pl.DataFrame(self.to_dict()["rows"], infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document that the command prints with `--format json`."""
        return {"rows": [asdict(row) for row in self.rows]}  # type: ignore[call-overload]

    def __repr__(self) -> str:
        return f"<turnwise.{type(self).__name__}: {len(self.rows)} rows; see .frame>"

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()
