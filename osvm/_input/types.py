"""Names for the types that annotations use everywhere."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
State = tuple[dict[str, Any], dict[str, Array]]  # what is saved: scalars that JSON holds, arrays
