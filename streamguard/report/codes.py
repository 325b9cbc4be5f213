"""What each finding code means, for the first line of a finding and for `streamguard explain`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One finding code: a title, what was seen, what it does to the program, how to repair it."""

    code: str
    title: str
    seen: str
    effect: str
    repair: str


_TWO_STREAMS = (
    "Make the second access's stream wait: record an event on the first stream after the access "
    "and let the second stream wait for it (`second.wait_stream(first)` does both). The wait "
    "must be issued after the first access and before the second; an event recorded earlier does "
    "not cover it."
)

CODES: dict[str, Code] = {
    entry.code: entry
    for entry in (
        Code(
            "SG001",
            "read-after-write race",
            "One op reads bytes that an op on another stream writes, and neither stream order, an "
            "event, nor a host wait puts the write first.",
            "The read may see old bytes, new bytes or a mixture. The result depends on timing "
            "and may be right in every test.",
            _TWO_STREAMS,
        ),
        Code(
            "SG002",
            "write-after-read race",
            "One op overwrites bytes that an op on another stream still reads, and nothing "
            "orders the read first. Buffers that are filled again while a reduction works on "
            "them are typical.",
            "The reader may see bytes of the next use: gradients of one bucket mix with another's.",
            _TWO_STREAMS,
        ),
        Code(
            "SG003",
            "write-after-write race",
            "Two ops on different streams write the same bytes, and nothing says which comes last.",
            "Which value stays depends on timing.",
            _TWO_STREAMS,
        ),
        Code(
            "SG004",
            "block reused while in use",
            "A tensor was freed while a stream other than its own still used its memory; the "
            "caching allocator handed the block out again, and the new owner touches it.",
            "The old use reads the new tensor's bytes, or writes over them.",
            "Call `tensor.record_stream(stream)` for every stream other than the tensor's own "
            "that uses it, or let the tensor's own stream wait for that stream before the last "
            "reference goes.",
        ),
        Code(
            "SG005",
            "host access while the device still works on the bytes",
            "The host reads or writes pinned memory while a copy to or from it is still in flight.",
            "The copy carries half-written bytes, or the host reads what was there before.",
            "Wait on the host first: `event.synchronize()` for an event recorded after the copy, "
            "or `stream.synchronize()`.",
        ),
        Code(
            "SG006",
            "collective buffer touched before its work was waited for",
            "A buffer handed to a collective with `async_op=True` is used before `work.wait()` "
            "on the stream that uses it.",
            "An input is sent half-changed, or an output is read before it has arrived.",
            "Call `work.wait()` before the access, with the accessing stream current; waiting on "
            "one stream does not protect another. A work that is dropped orders nothing.",
        ),
        Code(
            "SG007",
            "use after free",
            "An op was issued after the memory it uses had been freed; a CUDA graph that is "
            "replayed after a tensor it was captured with is gone is typical.",
            "The op reads or overwrites whatever lives there now.",
            "Keep every tensor that the graph uses alive as long as the graph is replayed, or "
            "take it from the graph's own memory pool.",
        ),
        Code(
            "SG101",
            "block freed while in use",
            "A tensor was freed while a stream other than its own still used its memory, and the "
            "tensor's own stream had not been made to wait. Nothing has taken the bytes yet.",
            "Whether the next tensor gets these bytes too early depends on what is allocated "
            "next: the run is right, another one may show SG004. Where a race tells of the access, "
            "no hint does.",
            "Call `tensor.record_stream(stream)`, or let the tensor's own stream wait for that "
            "stream before the last reference goes. Where it waits soon afterwards, before it "
            "allocates anything, the hint can be ignored.",
        ),
        Code(
            "SG301",
            "more traffic than the scheme needs",
            "Gradients or parameters cost more bytes on the wire than the scheme (DDP, ZeRO, FSDP) "
            "needs at least.",
            "Steps are longer wherever communication is not hidden.",
            "Where ZeRO-1 or 2 all-reduces gradients, use a reducer that reduce-scatters them.",
        ),
        Code(
            "SG302",
            "many small messages",
            "Many calls a step carry so few bytes that their time is latency.",
            "The network idles while the host issues calls.",
            "Coalesce them: larger buckets, or the coalesced form of the op.",
        ),
        Code(
            "SG303",
            "same buffer reduced twice",
            "A buffer is reduced again although no op of torch wrote to it in between.",
            "Its values are multiplied by the number of ranks once too often, or the bytes are "
            "sent for nothing.",
            "Reduce it once.",
        ),
        Code(
            "SG304",
            "more elements reduced than there are gradients",
            "The reductions of a micro-batch cover more elements than the model has parameters.",
            "Padding or uninitialised memory is sent, and may overflow.",
            "Reduce only the filled part of the bucket.",
        ),
        Code(
            "SG305",
            "norm reduced once for each group",
            "The gradient norm is all-reduced once for each optimizer group.",
            "Latency; and ranks with unequal numbers of groups hang.",
            "Sum the squares of all groups and reduce once.",
        ),
        Code(
            "SG310",
            "ranks call different collectives",
            "At one position of a group its members differ in op, dtype, sizes, reduce op or root.",
            "The job hangs, or goes on with wrong values.",
            "Make the condition that leads to the call the same on all ranks.",
        ),
        Code(
            "SG311",
            "group with different members",
            "Ranks made the same group of different members.",
            "Its first collective hangs or joins the wrong ranks.",
            "Call `new_group` with the same ranks, in the same order, on every rank.",
        ),
        Code(
            "SG312",
            "ranks wait for each other in different calls",
            "Everybody who is waited for waits too, in another call.",
            "The job hangs for ever.",
            "Look at the lines of the minority: a call is missing, extra, or in another order.",
        ),
        Code(
            "SG313",
            "rank ended without a call that others wait in",
            "A rank has ended, by itself or with an error, and others wait for it.",
            "The job hangs until the group's time-out.",
            "Let all ranks make the same number of steps; look at the ended rank's error.",
        ),
        Code(
            "SG314",
            "rank dead or stopped",
            "A rank's process is gone or says nothing any more, and others wait for it.",
            "The job hangs until the group's time-out.",
            "Look for the reason on that rank: out of memory, a crash, a stopped process.",
        ),
        Code(
            "SG315",
            "rank has not come yet",
            "A rank is behind in a call that others wait in, and waits in none itself.",
            "The others idle. Nothing is called wrong.",
            "Look at its Python stack: evaluation, saving, or loading on one rank only is typical.",
        ),
        Code(
            "SG316",
            "optimizer plans differ",
            "Ranks that reduce the gradient norm together will do so a different number of times.",
            "step() hangs.",
            "Give every stage the same number of optimizer groups, or reduce one norm.",
        ),
    )
}

_FAMILIES = {
    "SG1": "misuse or hint: wrong use without two accesses; never decides the exit status",
    "SG2": "needless wait: costs overlap without ordering anything",
    "SG3": "collectives: traffic or call order that differs between ranks or from theory",
}


def title(code: str) -> str:
    """A few words for a code; unknown codes get their family's."""
    known = CODES.get(code)
    if known is not None:
        return known.title
    return _FAMILIES.get(code[:3], "finding")
