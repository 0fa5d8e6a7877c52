from typing import Any

def split_record(
    buffer: Any, start: int, stop: int, separator: int, quote: int, wanted: bytes | None
) -> tuple[int, int, Any, int]: ...
