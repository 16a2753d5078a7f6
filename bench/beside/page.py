"""Pages whose parts are written by programs: what stands between two marks is theirs."""

from pathlib import Path


def put_between(page: Path, marks: tuple[str, str], text: str) -> None:
    """Put a text between the marks of a page, in place of what stood there."""
    before, _, rest = page.read_text().partition(marks[0])
    _, _, after = rest.partition(marks[1])
    page.write_text(f"{before}{marks[0]}{text}{marks[1]}{after}")
