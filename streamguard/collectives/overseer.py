"""The one rank that reads what all write, compares it, and notices who waits too long."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streamguard.collectives.agreement import first_difference
from streamguard.collectives.desync import (
    AGREED,
    Verdict,
    Wait,
    groups_of,
    judge,
    waits_of,
)
from streamguard.collectives.exchange import Reader, Store, drop_matched_messages
from streamguard.collectives.record import read_log
from streamguard.collectives.views import View, view_of
from streamguard.errors import CallRecordError

# A rank whose watch thread says nothing for so long is taken for dead. Long enough for a thread
# that has to wait for the GIL on a busy machine.
SILENT_AFTER_S = 5.0
# The same for one that was asked where it is and gave no answer.
UNANSWERED_AFTER_S = 1.5
_INTERRUPT = "KeyboardInterrupt"
_LEFT = ("ended", "gone")


@dataclass(slots=True)
class _Rank:
    reader: Reader
    read: int = 0
    beat: int = -1
    heard: float = 0.0
    state: dict[str, object] | None = None
    has_left: bool = False  # and its last calls were read
    left: View | None = None  # what its file holds, once its process is gone

    @property
    def view(self) -> View:
        return self.reader.view if self.left is None else self.left


class Overseer:
    """Reads all ranks of one epoch.

    Args:
        store: The ranks' side channel.
        epoch: Number of the overseer; a later one starts from what ranks still hold.
        world_size: How many ranks there are.
        hang_after_s: How long a rank may wait.
        host: Ranks on this host can be told dead at once, by their process ids.
        directory: Where those ranks keep their records, which outlive them.
    """

    def __init__(
        self, store: Store, *, epoch: int, world_size: int, hang_after_s: float, host: str,
        directory: Path,
    ) -> None:  # fmt: skip
        self._store = store
        self._epoch = epoch
        self._hang_after_s = hang_after_s
        self._host = host
        self._directory = directory
        self._ranks = {rank: _Rank(Reader(rank)) for rank in range(world_size)}
        self._unseen = list(range(world_size))
        self._compared: dict[str, int] = {}
        self._reported: set[object] = set()
        self._since: dict[tuple[int, str, int], float] = {}
        self._activity: dict[tuple[int, str], tuple[int, float]] = {}
        self._quiet_until = 0.0
        self._unanswered: frozenset[int] = frozenset()

    def read(self) -> list[Verdict]:
        """Take in what is new; returns what was found to differ. Each is returned once."""
        self._look_for_unseen()
        seen = [rank for rank in self._ranks if rank not in self._unseen]
        states = self._store.multi_get([f"s/{rank}" for rank in seen]) if seen else []
        wanted: list[tuple[int, str]] = []
        now = time.monotonic()
        for rank, raw in zip(seen, states, strict=True):
            one = self._ranks[rank]
            state = json.loads(raw)
            one.state = state
            if state["beat"] != one.beat:
                one.beat, one.heard = state["beat"], now
            if state["epoch"] != self._epoch:
                # Has not noticed yet that somebody else reads now, or ended before.
                if state["ended"] and not one.has_left:
                    one.has_left = True
                    wanted.append((rank, f"last/{rank}"))
                continue
            for n in range(one.read + 1, state["n"] + 1):
                wanted.append((rank, f"d/{self._epoch}/{rank}/{n}"))
            one.read = max(one.read, state["n"])
        if wanted:
            for (rank, key), message in zip(
                wanted, self._store.multi_get([key for _, key in wanted]), strict=True
            ):
                self._ranks[rank].reader.take(message)
                if not key.startswith("last/"):
                    self._store.delete_key(key)
        has_lost = self._set_statuses(now)
        return self._compare() if wanted or has_lost else []

    def views(self) -> dict[int, View]:
        """Every rank that was heard of."""
        return {rank: one.view for rank, one in self._ranks.items() if one.state is not None}

    @property
    def has_seen_all(self) -> bool:
        """Whether every rank has been heard of."""
        return not self._unseen

    def agreed(self) -> dict[str, int]:
        """Up to which position the members of each group were found to call the same."""
        return dict(self._compared)

    def is_settled(self) -> bool:
        """Whether all calls that any rank told of have been compared with those of the others."""
        views = self.views()
        if any(view.messages for view in views.values()):
            return False
        for key, members in groups_of(views).items():
            ends = {views[r].streams[key].end if r in views and key in views[r].streams else 0
                    for r in members}  # fmt: skip
            if len(ends) > 1:
                return False
        return True

    def overdue(self) -> tuple[Wait, ...]:
        """The waits that have lasted too long, unless they were reported already."""
        now = time.monotonic()
        views = self.views()
        waits = waits_of(views, groups_of(views))
        alive: dict[tuple[int, str, int], float] = {}
        late = []
        for wait in waits:
            if views[wait.rank].status in ("ended", "gone"):
                continue
            where = wait.rank, wait.key, wait.position
            alive[where] = self._since.get(where, now)
            count = len(views[wait.rank].messages) if wait.position < 0 else (
                views[wait.rank].streams[wait.key].end
            )  # fmt: skip
            before, since = self._activity.get((wait.rank, wait.key), (-1, now))
            if before != count:
                since = now
            self._activity[wait.rank, wait.key] = count, since
            if now - max(alive[where], since) >= self._hang_after_s:
                late.append(wait)
        self._since = alive
        shape = frozenset((w.rank, w.key, w.position) for w in late)
        if not late or (shape in self._reported and now < self._quiet_until):
            return ()
        if shape in self._reported:
            self._quiet_until = now + 10 * self._hang_after_s
            return ()
        self._reported.add(shape)
        self._quiet_until = now + 10 * self._hang_after_s
        return tuple(late)

    def conclude(self, stacks: dict[int, list[str]]) -> Verdict:
        """The verdict over a stall, with the stacks that ranks gave when asked."""
        self._unanswered = frozenset(self.living()) - stacks.keys()
        self._set_statuses(time.monotonic())
        for rank, stack in stacks.items():
            self._ranks[rank].view.stack = tuple(stack)
        return judge(self.views())

    def verdict_at_end(self) -> Verdict:
        """Whose end made others fail in a call that it never made; else that all agree.

        A rank that left calls behind and ended well, or by the user's interrupt, is no finding; nor
        is one that was not heard of yet: it may be about to tell what it called.
        """
        views = self.views()
        verdict = judge(views)
        if any(rank not in views or views[rank].status not in _LEFT for rank in verdict.culprits):
            return AGREED
        remarks = {rank: view.remark for rank, view in views.items() if view.status == "ended"}
        if any(remarks.get(rank, "").startswith(_INTERRUPT) for rank in verdict.culprits):
            return AGREED
        errors = [remarks.get(wait.rank, "") for wait in verdict.waits]
        has_failed = any(error and not error.startswith(_INTERRUPT) for error in errors)
        return verdict if has_failed and verdict.kind in ("ended", "dead") else AGREED

    def living(self) -> Sequence[int]:
        """Ranks that can be expected to answer."""
        return [
            rank for rank, view in self.views().items() if view.status in ("running", "leaving")
        ]

    def _look_for_unseen(self) -> None:
        if not self._unseen:
            return
        if self._store.check([f"s/{rank}" for rank in self._unseen]):
            self._unseen = []
        else:
            self._unseen = [r for r in self._unseen if not self._store.check([f"s/{r}"])]

    def _set_statuses(self, now: float) -> bool:
        """Whether a rank was found gone, and has left calls that it told nobody of."""
        has_lost = False
        for one in self._ranks.values():
            view, state = one.view, one.state
            if state is None:
                continue
            view.remark = str(state.get("remark", ""))
            if state["ended"]:
                view.status = "ended"
            elif state["host"] == self._host and not is_alive(int(str(state["pid"]))):
                if view.status != "gone":
                    one.left = view = self._what_is_left(view, int(str(state["pid"])))
                    has_lost = True
                view.status = "gone"
                view.remark = f"process {state['pid']}"
            elif now - one.heard > (
                UNANSWERED_AFTER_S if view.rank in self._unanswered else SILENT_AFTER_S
            ):
                view.status = "silent"
                view.remark = f"for {now - one.heard:.0f} s"
            else:
                view.status = "leaving" if state["leaving"] else "running"
        return has_lost

    def _what_is_left(self, told: View, pid: int) -> View:
        """A killed rank as its file shows it: it had no time to tell its last calls."""
        try:
            left = view_of(read_log(self._directory / f"collectives-{told.rank}-{pid}.ring"))
        except CallRecordError:
            return told
        left.members, left.names = told.members | left.members, told.names | left.names
        # Those of the others that found these are forgotten already.
        left.messages, left.is_partial = told.messages, told.is_partial
        return left

    def _compare(self) -> list[Verdict]:
        found: list[Verdict] = []
        views = self.views()
        for one in self._ranks.values():
            one.reader.refresh()
        groups = groups_of(views)
        agreed: dict[str, int] = {}
        for key, members in groups.items():
            if key in self._reported or any(rank not in views for rank in members):
                continue
            streams = {r: views[r].streams[key] for r in members if key in views[r].streams}
            if len(streams) < len(members):
                continue
            begin = self._compared.get(key, 0)
            difference = first_difference(streams, begin)
            if difference is not None:
                self._reported.add(key)
                found.append(
                    Verdict("mismatch", difference.minority, (), key, difference.position,
                            difference, difference.position - 1)
                )  # fmt: skip
                continue
            self._compared[key] = agreed[key] = min(s.end for s in streams.values())
        verdict = judge({r: _messages_only(v) for r, v in views.items()})
        if verdict.kind in ("mismatch", "membership"):
            mark = verdict.kind, verdict.key, verdict.culprits
            if mark not in self._reported:
                self._reported.add(mark)
                found.append(verdict)
        else:
            drop_matched_messages(views.values())
        for one in self._ranks.values():
            one.reader.compress(agreed)
        return found


def _messages_only(view: View) -> View:
    return View(
        view.rank, view.status, members=view.members, names=view.names, messages=view.messages
    )


def is_alive(pid: int) -> bool:
    """Whether a process of this host runs or is stopped."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except PermissionError:
        return True
    except (ProcessLookupError, FileNotFoundError):
        return False
    except OSError:
        return True
