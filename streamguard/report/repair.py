"""The lines that repair a finding, as code that a person can paste, and the key that names it."""

from __future__ import annotations

from pathlib import PurePath

from streamguard.report.frames import own_line
from streamguard.report.model import Access, Finding, Stream


def repair_lines(finding: Finding) -> tuple[str, ...]:
    """How to order the pair: first where, then the code, one alternative a line."""
    first, second = finding.first, finding.second
    where = f"before {place(second)}"
    match finding.code:
        case "SG007":
            return (
                f"keep {_tensor(first)} alive until {place(second)} can no longer run; "
                "a CUDA graph needs every tensor it was captured with",
            )
        case "SG004":
            return _reuse(finding)
        case "SG005":
            return (
                f"{where}: {_stream_code(first.stream)}.synchronize(), or event.synchronize() "
                f"for an event recorded on it after {first.op}",
            )
        case "SG006" if _asynchronous(finding) is not None:
            return _collective(finding, where)
    code = f"{_waiting_code(second.stream)}.wait_stream({_stream_code(first.stream)})"
    lines = [f"{where}: {code}"]
    if finding.missing.event_after_first:
        lines.append(
            f"an event recorded on {_stream_name(first)} after {first.op} exists: waiting for it "
            "is enough"
        )
    return tuple(lines)


def suppression_key(finding: Finding) -> str:
    """A key that names the pair in every run: no addresses, counts, ranks or line numbers."""
    return f"{finding.code}:{_key(finding.first)}|{_key(finding.second)}"


def place(access: Access) -> str:
    """An op with its line, where one is known."""
    line = own_line(access.frames)
    if line is None:
        return access.op
    return f"{access.op} ({PurePath(line.file).name}:{line.line})"


def _reuse(finding: Finding) -> tuple[str, ...]:
    first = finding.first
    tensor = _tensor(first)
    stream = _stream_code(first.stream)
    return (
        f"before {tensor}, used by {place(first)}, is freed: tensor.record_stream({stream})",
        f"or, before its last reference goes: torch.cuda.current_stream().wait_stream({stream})",
    )


def _collective(finding: Finding, where: str) -> tuple[str, ...]:
    access = _asynchronous(finding)
    assert access is not None
    if access is finding.second:
        # The collective comes second: it starts before the earlier access is done.
        code = f"{_waiting_code(None)}.wait_stream({_stream_code(finding.first.stream)})"
        return (f"{where}: {code}",)
    waiting = finding.second.stream
    if finding.second.on_host:
        return (f"{where}: work.wait() and torch.cuda.current_stream().synchronize()",)
    current = "" if _is_default(waiting) else f", with {_stream_code(waiting)} current"
    return (f"{where}: work.wait(), on the work that {place(access)} returned{current}",)


def _asynchronous(finding: Finding) -> Access | None:
    for access in (finding.first, finding.second):
        if access.collective is not None and access.collective.asynchronous:
            return access
    return None


def _tensor(access: Access) -> str:
    return access.names[0].name if access.names else f"the tensor of allocation {access.allocation}"


def _is_default(stream: Stream | None) -> bool:
    return stream is not None and stream.handle == 0


def _waiting_code(stream: Stream | None) -> str:
    """Code for the stream that must wait: an op's stream is the current one where it is issued."""
    if stream is not None and stream.name.isidentifier():
        return stream.name
    return "torch.cuda.current_stream()"


def _stream_code(stream: Stream | None) -> str:
    if stream is None:
        return "torch.cuda.current_stream()"
    if stream.name.isidentifier():
        return stream.name
    if _is_default(stream):
        return f"torch.cuda.default_stream({stream.device})"
    # No expression is known for it; its name, in brackets, is not mistaken for code.
    return f"<{stream.name}>"


def _stream_name(access: Access) -> str:
    return "the host" if access.stream is None else access.stream.name


def _key(access: Access) -> str:
    line = own_line(access.frames) or own_line(access.forward_frames)
    if line is None:
        return access.op
    return f"{access.op}@{PurePath(line.file).name}:{line.function}"
