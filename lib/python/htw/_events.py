# SPDX-License-Identifier: MIT
"""What is reported of timers: events, and which of them were not handed out."""

import struct
from itertools import chain, islice, repeat, starmap
from operator import length_hint
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ._library import EVENT, EVENT_MORE, SECOND, Query

ROW = struct.Struct(EVENT)
_SLACK = 16384      # places that an order may have beyond twice what is needed
_STATES = {1: "pending", 2: "due", 3: "disarmed"}


class Event(NamedTuple):
    """A timer has fired.

    taken_ns: when the event was taken from the library.
    missed: further firings of a periodic timer that came due before this one was read.
    more: the timer is periodic or kept, and its id stays valid.
    """

    id: int
    cookie: Any
    deadline_ns: int
    taken_ns: int
    missed: int
    more: bool

    @property
    def late(self) -> float:
        """Time from the deadline until the event was taken, in seconds."""
        return (self.taken_ns - self.deadline_ns) / SECOND


class Pending(NamedTuple):
    """A timer, as query(), list() and harvest() report it.

    remaining, interval: in seconds; zero if it is due, and if it is not periodic.
    missed: firings that came due after the one that is still to be read.
    firings: how many are left, with those; zero for no limit.
    state: "pending"; "due", and its event was not handed out; or "disarmed": kept.
    """

    id: int
    cookie: Any
    deadline_ns: int
    remaining: float
    interval: float
    missed: int
    firings: int
    state: str


def due(event: Event, interval: float = 0.0, firings: int = 0) -> Pending:
    """Report a timer whose event was not handed out."""
    return Pending(event.id, event.cookie, event.deadline_ns, 0.0, interval, event.missed, firings, "due")


def pending(query: Query, cookie: Any, unread: Optional[Event]) -> Pending:
    """Report a timer that the library has; unread: its event, if that was not handed out."""
    interval = query.interval / SECOND
    if unread is not None:
        return due(unread, interval, query.firings)
    return Pending(query.id, cookie, query.deadline, query.remaining / SECOND, interval, query.missed,
                   query.firings, _STATES[query.state])


class Unread:
    """Events that were read from the library, and not handed out.

    An iterator that hands them out may run in any thread, and in a signal handler, between any
    two steps here. So it is made of functions that are written in C, and takes an event within
    one step.
    """

    def __init__(self) -> None:
        # By id: of timers that have ended; and of those that go on, if such a one has fired
        # again meanwhile the first.
        self.ended: Dict[int, Event] = {}
        self.again: Dict[int, Event] = {}
        # What the library has returned, and where its rows are, until they are kept.
        self.counts: List[int] = []
        self._raw: Any = None
        self._order: List[Tuple[Dict[int, Event], int, None]] = []
        self.renew()

    def __len__(self) -> int:
        return len(self.ended) + len(self.again)

    def clear(self) -> None:
        """Forget all; loops over them end."""
        self.counts.clear()
        self.ended.clear()
        self.again.clear()

    def pop(self, id_: int) -> Optional[Event]:
        """Take the event of a timer out."""
        return self.ended.pop(id_, None) or self.again.pop(id_, None)

    def renew(self) -> None:
        """Leave out of the order what is not there any more."""
        self._order = [place for place in self._order if place[1] in place[0]] if len(self) else []
        self._places = iter(self._order)

    def hand_out(self, most: int) -> Iterator[Event]:
        """Return an iterator over at most so many events. All iterators share the order."""
        # Another one may have come to the end before the last events were added: it stays there.
        if not length_hint(self._places) or len(self._order) > 2 * len(self) + _SLACK:
            self.renew()
        # Without those that are not there any more, which are None.
        return islice(filter(None, starmap(dict.pop, self._places)), min(most, len(self)))

    def take(self, read: Callable[..., int], handle: Any, raw: Any, want: int, cookies: Dict[int, Any]) -> int:
        """Read from the library; return the number of events, or a negative error.

        A signal handler does not run within a function that is written in C: so one such call
        reads and notes the result. If a handler raises an exception, also one after the other,
        keep() finds it later.
        """
        if not len(self):
            self.renew()
        self._raw = raw
        self.counts.extend(map(read, (handle,), (raw,), (want,)))
        return self.keep(cookies)

    def keep(self, cookies: Dict[int, Any]) -> int:
        """Keep the events that were read; return as take()."""
        count = sum(self.counts)
        if count <= 0:
            self.counts.clear()
            return count
        ended: Dict[int, Event] = {}
        again: Dict[int, Event] = {}
        order: List[Tuple[Dict[int, Event], int, None]] = []
        new, find = tuple.__new__, cookies.get
        for id_, cookie, deadline, taken, missed, flags, _ in ROW.iter_unpack(memoryview(self._raw)[:count * ROW.size]):
            more = flags & EVENT_MORE
            if again or self.again:
                first = again.pop(id_, None) or self.again.get(id_)
                if first is not None:
                    deadline, taken, missed = first.deadline_ns, first.taken_ns, first.missed + 1 + missed
            event = new(Event, (id_, find(id_, cookie), deadline, taken, missed, bool(more)))
            (again if more else ended)[id_] = event
            order.append((self.again if more else self.ended, id_, None))
        # One step, so that nothing is kept twice, or forgotten.
        steps: Any = (map(self.again.pop, ended, repeat(None)),         # type: ignore[misc]
                      map(dict.update, (self.ended, self.again), (ended, again)),  # type: ignore[arg-type]
                      map(self._order.extend, (order,)), map(cookies.pop, ended, repeat(None)),
                      map(list.clear, (self.counts,)))  # type: ignore[arg-type]
        list(chain.from_iterable(steps))
        return count
