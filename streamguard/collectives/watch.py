"""The thread of every rank that tells the others what it called, and hears what they found."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamguard import identity
from streamguard.collectives import plan
from streamguard.collectives.desync import Verdict
from streamguard.collectives.exchange import Store, Writer
from streamguard.collectives.interruption import meet, raise_in_main_thread
from streamguard.collectives.notices import Notices
from streamguard.collectives.overseer import Overseer
from streamguard.collectives.phases import place
from streamguard.collectives.record import Frame, Records, RingReader
from streamguard.collectives.stream_heads import place_lines
from streamguard.collectives.strict import StrictCheck
from streamguard.collectives.succession import Succession
from streamguard.collectives.verdict_text import ranks_text

if TYPE_CHECKING:
    from streamguard.collectives.recording import Recording

TICK_S = 0.35
_RANKS_PER_SECOND = 5000  # what one Store takes of our small requests
_ANSWER_S = 2.0
# How long the reader waits at its end for ranks that owe a call; how many calls a rank leaves.
LAST_WAIT_S = 1.0
LAST_CALLS = 2048
HANG_STATUS = 66
_FAULTS = ("mismatch", "membership", "program", "ended", "dead")

_generation = 0


class Watch:
    """Runs from `start` to `stop`; all its Store traffic has its own connection.

    Args:
        recording: This process's record.
        connect: Makes a connection to the Store; by default to the job's.
    """

    def __init__(self, recording: Recording, *, connect: Callable[[], Store] | None = None) -> None:
        global _generation
        _generation += 1
        self._prefix = f"streamguard/{_generation}"
        self._recording = recording
        self._config = recording.config
        self._rank, self._world_size = recording.rank, recording.world_size
        self._tick_s = max(TICK_S, self._world_size / _RANKS_PER_SECOND)
        # More ranks take longer to meet.
        self._hang_after_s = self._config.hang_after_s * max(1.0, self._world_size / 4096)
        self._connect = connect or self._connect_to_job
        self._store = self._connect()
        self._writer = Writer(self._recording.buffers)
        self._position = 0
        self._sent = 0
        self._beat = 0
        self._succession = Succession(self._store, self._rank, identity.host_hash())
        self._notices = Notices(recording.directory, self._config.run or "", self._rank)
        self._overseer: Overseer | None = None
        self._alarms = 0
        self._sites: dict[int, tuple[Frame, ...]] = {}
        self._stopping = threading.Event()
        self._ended = False
        self._is_leaving = False
        self._optimizers = 0
        self._thread = threading.Thread(target=self._run, name="streamguard-watch", daemon=True)
        self._strict: StrictCheck | None = None
        assert recording.ring_path is not None
        self._ring = RingReader(recording.ring_path)
        if self._rank == 0:
            self._become_reader()

    def start(self) -> None:
        """Start the thread, and the check before each call in the strict mode."""
        from streamguard.collectives.recording import load_native

        self._tell_state()  # before its first turn it may die
        self._thread.start()
        if self._config.collectives == "strict":
            self._strict = StrictCheck(self._connect, wait_s=self._hang_after_s)
            load_native().set_strict(True)

    def leave(self) -> None:
        """The groups are about to be destroyed; that may wait for what was begun."""
        self._is_leaving = True

    def stay(self) -> None:
        """Only one of several groups was destroyed."""
        self._is_leaving = False

    def stop(self) -> None:
        """Tell the others that this rank has ended, and end the thread."""
        from streamguard.collectives.recording import load_native

        load_native().set_strict(False)
        self._stopping.set()
        self._thread.join(timeout=5)

    def before(self, number: int, sequence: int, fingerprint: int, balance: int) -> str:
        """The strict check; returns what is to be raised, or ""."""
        strict = self._strict
        group = self._recording.groups.get(number)
        if strict is None or group is None or len(group.ranks) < 2:
            return ""

        def describe() -> str:
            call = self._last_call(number, sequence)
            return f"{group.ranks[group.rank]}\t{call}"

        all_came, table = strict.check(
            f"x/{group.key}/{sequence}",
            group.rank,
            len(group.ranks),
            fingerprint,
            balance,
            describe,
        )
        if not all_came:
            # The watch sees the same wait, and says who is missing.
            self._wait_for_report()
            return (
                f"streamguard: collective #{sequence} of {group.name} ({ranks_text(group.ranks)}): "
                f"not all ranks came within {self._hang_after_s:g} s; the report is in "
                f"{self._recording.directory}"
            )
        if not table:
            return ""
        by_call: dict[str, list[int]] = {}
        for line in table:
            rank, call = line.split("\t", 1)
            by_call.setdefault(call, []).append(int(rank))
        rows = "\n".join(f"  {ranks_text(ranks)}: {call}" for call, ranks in by_call.items())
        return (
            f"streamguard: SG310 collective #{sequence} of {group.name} "
            f"({ranks_text(group.ranks)}): the ranks do not call the same\n{rows}"
        )

    def compare_optimizer(
        self, groups: list[list[int]], names: list[str], owner: str, peers: list[int]
    ) -> None:
        """Compare this rank's optimizer groups with the others', before the first step."""
        self._optimizers += 1
        key = f"{self._prefix}/plan/{self._optimizers}"
        own = plan.OptimizerPlan(
            self._rank, owner, tuple(map(tuple, groups)), tuple(names),
            tuple(peers),
        )  # fmt: skip
        text = plan.exchange(self._connect(), key, own, self._world_size)
        if text:
            self._notices.publish("plan", text, {"type": "plan", "code": "SG316", "text": text})

    def _connect_to_job(self) -> Store:
        import torch.distributed as distributed
        from torch.distributed import distributed_c10d

        base = distributed_c10d._get_default_store()
        store: Store = distributed.PrefixStore(self._prefix, base.clone())
        # While we have it, the rank that serves it goes on to do so, also without the groups.
        self._base = base
        return store

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._tick_s):
                self.tick()
            self.end()
        except Exception as error:
            if self._stopping.is_set() or self._is_leaving:
                return
            # The Store is gone, and with it every way to hear of the others.
            reason = f"{type(error).__name__}: {error}"
            self._notices.say(f"collectives are no longer compared: {reason}")

    def tick(self) -> None:
        """Tell what is new, and hear what the others say."""
        self._send()
        self._mind_the_reader()
        if self._overseer is not None:
            self._oversee(self._overseer)
        self._answer_alarm()
        if self._strict is not None:
            while self._strict.garbage:
                self._store.delete_key(self._strict.garbage.pop())

    def _send(self) -> None:
        records, end = self._ring.read(self._position)
        made = list(self._recording.made)
        if len(records) or len(made) > self._writer.told_made:
            after_gap = end - len(records) > self._position
            self._position = end
            self._sent += 1
            message = self._message(self._writer, records, made, after_gap)
            self._store.set(f"d/{self._succession.epoch}/{self._rank}/{self._sent}", message)
        self._tell_state()

    def _tell_state(self) -> None:
        self._beat += 1
        self._store.set(f"s/{self._rank}", json.dumps(self._state()).encode())

    def _send_last(self) -> None:
        """The newest calls once more, for a reader that has not heard this rank before."""
        records, end = self._ring.read()
        first = max(0, end - LAST_CALLS)
        newest = records[-LAST_CALLS:]
        made = list(self._recording.made)
        last = self._message(Writer(self._recording.buffers), newest, made, after_gap=first > 0)
        self._store.set(f"last/{self._rank}", last)
        self._send()

    def _message(
        self, writer: Writer, records: Records, made: list[tuple[int, ...]], after_gap: bool
    ) -> bytes:
        groups = dict(self._recording.groups)
        for site in set(records["site"].tolist()) - self._sites.keys():
            self._sites[site] = tuple(Frame(*f) for f in self._recording.frames(site))
        known = records[[int(number) in groups for number in records["group"]]]
        return writer.message(known, groups, self._sites, made, after_gap=after_gap)

    def _state(self) -> dict[str, object]:
        error = getattr(sys, "last_value", None)
        remark = "" if error is None else f"{type(error).__name__}: {str(error)[:200]}"
        return {
            "beat": self._beat, "n": self._sent, "epoch": self._succession.epoch,
            "ended": self._ended, "leaving": self._is_leaving,
            "remark": remark if self._ended else "", "pid": os.getpid(),
            "host": identity.host_hash(),
        }  # fmt: skip

    def end(self) -> None:
        """Leave the last calls behind, and see to it that somebody compares them."""
        # From here on the others know of the end: one that ends at the same time either
        # has told its last calls or sees that nobody reads any more, and reads itself.
        self._ended = True
        self._send_last()
        if self._overseer is None:
            made = self._ends()
            if self._succession.take_over_at_end(made):
                self._become_reader()
        if self._overseer is not None:
            self._hear_the_last(self._overseer)
            self._succession.note_agreed(self._overseer.agreed())

    def _ends(self) -> dict[str, int]:
        """How many collectives this rank has made on each group of several."""
        return {
            group.key: number
            for group, number in (
                (group, self._writer.ends.get(n, 0)) for n, group in self._recording.groups.items()
            )
            if len(group.ranks) > 1
        }

    def _hear_the_last(self, overseer: Overseer) -> None:
        """Wait a little for ranks that end too, while calls are not compared."""
        deadline = time.monotonic() + LAST_WAIT_S
        while True:
            self._report_differences(overseer)
            # At once: a launcher that sees one rank fail ends the others within 0.1 s.
            self._report_stall(overseer.verdict_at_end())
            is_last = set(overseer.living()) <= {self._rank} and overseer.has_seen_all
            if overseer.is_settled() or is_last or time.monotonic() > deadline:
                return
            time.sleep(0.05)

    def _become_reader(self) -> None:
        self._overseer = Overseer(
            self._store, epoch=self._succession.epoch, world_size=self._world_size,
            hang_after_s=self._hang_after_s, host=identity.host_hash(),
            directory=self._recording.directory,
        )  # fmt: skip

    def _report_differences(self, overseer: Overseer) -> None:
        for verdict in overseer.read():
            # Whoever reads next finds the same again.
            mark = f"r/{verdict.kind}/{verdict.key}/{verdict.position}"
            if self._store.add(mark, 1) == 1:
                self._notices.report(verdict, overseer.views())

    def _oversee(self, overseer: Overseer) -> None:
        self._report_differences(overseer)
        if overseer.overdue():
            self._alarm(overseer)

    def _alarm(self, overseer: Overseer) -> None:
        number = self._alarms + 1
        self._store.set(f"alarm/{number}", b"1")
        self._store.set(
            f"k/{number}/{self._rank}", json.dumps(place_lines(self._recording.groups)).encode()
        )
        stacks: dict[int, list[str]] = {}
        deadline = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline:
            missing = [r for r in overseer.living() if r not in stacks]
            for rank in missing:
                if self._store.check([f"k/{number}/{rank}"]):
                    stacks[rank] = json.loads(self._store.get(f"k/{number}/{rank}"))
            if not missing:
                break
            time.sleep(0.05)
        overseer.read()
        verdict = overseer.conclude(stacks)
        if verdict.kind in _FAULTS:
            self._report_stall(verdict)
        elif verdict.kind != "agreed":
            self._notices.report(verdict, overseer.views())
        self._store.set(f"v/{number}", verdict.kind.encode())

    def _report_stall(self, verdict: Verdict) -> None:
        """Report once who is waited for in vain: an alarm may have told it before the end does."""
        if verdict.kind == "agreed" or self._overseer is None:
            return
        # Of a rank that is gone it is said once, wherever others wait for it.
        is_gone = verdict.kind in ("ended", "dead")
        where = verdict.culprits if is_gone else (verdict.key, verdict.position)
        if self._store.add(f"r/stall/{verdict.kind}/{where}", 1) == 1:
            self._notices.report(verdict, self._overseer.views())

    def _answer_alarm(self) -> None:
        number = self._alarms + 1
        if not self._store.check([f"alarm/{number}"]):
            return
        if self._overseer is None:
            self._store.set(
                f"k/{number}/{self._rank}", json.dumps(place_lines(self._recording.groups)).encode()
            )
        self._alarms = number
        kind = self._store.get(f"v/{number}").decode()
        if kind in _FAULTS and self._config.on_hang in ("abort", "raise"):
            # Whoever leaves first tears the others out of their calls.
            meet(self._store, f"left/{number}", self._world_size, limit_s=_ANSWER_S)
            self._act(kind)

    def _act(self, kind: str) -> None:
        if self._config.on_hang == "abort":
            self._notices.say(f"rank {self._rank} ends itself: STREAMGUARD_ON_HANG=abort")
            os._exit(HANG_STATUS)
        if self._config.on_hang == "raise":
            raise_in_main_thread(
                f"streamguard: a collective waits in vain ({kind}); the report is in "
                f"{self._recording.directory}"
            )

    def _mind_the_reader(self) -> None:
        if self._beat % 5:
            return
        # The reader itself can have been silent for so long that another one reads now.
        if not self._succession.has_changed(may_take_over=self._overseer is None):
            return
        # The new reader knows nothing yet: tell all that the ring still holds.
        self._overseer = None
        self._writer, self._position, self._sent = Writer(self._recording.buffers), 0, 0
        if self._succession.reader == self._rank:
            self._become_reader()

    def _wait_for_report(self) -> None:
        """Let the watch say who is missing before the error ends the program."""
        deadline = time.monotonic() + _ANSWER_S + 3
        before = self._alarms
        while time.monotonic() < deadline and self._alarms == before:
            time.sleep(0.05)

    def _last_call(self, number: int, sequence: int) -> str:
        from streamguard.collectives.views import buffer_of, describe

        records, _ = self._ring.read(max(0, self._position - 64))
        found = records[(records["group"] == number) & (records["sequence"] == sequence)]
        if not len(found):
            return "(no longer recorded)"
        frames = tuple(Frame(*f) for f in self._recording.frames(int(found[-1]["site"])))
        buffer = buffer_of(found[-1], self._recording.buffers)
        return f"{describe(found[-1], buffer)}  at {place(frames)}"
