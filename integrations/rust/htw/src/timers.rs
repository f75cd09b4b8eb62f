// SPDX-License-Identifier: MIT
//! Timers of libhtw, which own what they are for.

use htw_sys as sys;
use std::cell::RefCell;
use std::iter::FusedIterator;
use std::os::raw::c_int;
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::time::Duration;
use std::{error, fmt, io, mem};

/// Events that are read at once.
const EVENTS: usize = 128;

/// Where timers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// In the kernel, by `/dev/htw`.
    Device,
    /// In this process.
    Process,
    /// In the kernel if the device can be opened, else in this process.
    Any,
}

/// What time timers are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`, as [`std::time::Instant`].
    Monotonic,
    /// `CLOCK_BOOTTIME`, which goes on while the machine is suspended.
    Boottime,
    /// `CLOCK_REALTIME`, the time of day, which can be set.
    Realtime,
    /// One that only [`Timers::advance`] moves, from zero on: for tests and simulations.
    Manual,
}

impl Clock {
    fn number(self) -> i32 {
        match self {
            Clock::Realtime => 0,
            Clock::Monotonic => 1,
            Clock::Boottime => 7,
            Clock::Manual => sys::HTW_CLOCK_MANUAL,
        }
    }
}

/// How to open [`Timers`].
///
/// ```
/// use htw::{Backend, Clock, Options, Timers};
///
/// # fn main() -> std::io::Result<()> {
/// let timers: Timers<&str> =
///     Options::new().backend(Backend::Process).clock(Clock::Manual).limit(1000).open()?;
/// assert_eq!(timers.backend(), Backend::Process);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    backend: Backend,
    clock: Clock,
    exact: bool,
    tick: Duration,
    limit: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// The device, else the process; the monotonic clock; the device's tick, or a millisecond.
    pub fn new() -> Options {
        Options {
            backend: Backend::Any,
            clock: Clock::Monotonic,
            exact: false,
            tick: Duration::ZERO,
            limit: 0,
        }
    }

    /// Where to keep the timers.
    pub fn backend(mut self, backend: Backend) -> Options {
        self.backend = backend;
        self
    }

    /// What clock they are on.
    pub fn clock(mut self, clock: Clock) -> Options {
        self.clock = clock;
        self
    }

    /// A tick of 10 µs, for timers that must not be late. Each tick at which one comes wakes the
    /// program: keep others apart.
    pub fn exact(mut self, exact: bool) -> Options {
        self.exact = exact;
        self
    }

    /// The tick, from 10 µs to a second, on a manual clock from a nanosecond. Not with
    /// [`exact`](Options::exact).
    pub fn tick(mut self, tick: Duration) -> Options {
        self.tick = tick;
        self
    }

    /// How many timers there may be at a time, by default 2^20 in the process, and what the module
    /// says on the device.
    pub fn limit(mut self, limit: u64) -> Options {
        self.limit = limit;
        self
    }

    pub(crate) fn is_monotonic(&self) -> bool {
        self.clock == Clock::Monotonic
    }

    /// Open timers. The errors are those of `htw_open()`.
    pub fn open<T>(&self) -> io::Result<Timers<T>> {
        let backend = match self.backend {
            Backend::Device => sys::HTW_BACKEND_DEVICE,
            Backend::Process => sys::HTW_BACKEND_PROCESS,
            Backend::Any => sys::HTW_BACKEND_ANY,
        };
        let setup = sys::htw_setup_args {
            flags: sys::HTW_SETUP_CLOCK | if self.exact { sys::HTW_SETUP_EXACT } else { 0 },
            clock: self.clock.number(),
            tick_ns: ns(self.tick),
            limit: self.limit,
            ..Default::default()
        };
        let mut handle = ptr::null_mut();

        // SAFETY: both point to what they should.
        check(unsafe { sys::htw_open(&mut handle, backend, &setup) })?;
        Ok(Timers {
            handle: NonNull::new(handle).expect("htw_open() sets it"),
            state: RefCell::new(State {
                slots: Vec::new(),
                free: None,
                used: 0,
                events: Vec::new(),
                read: 0,
            }),
        })
    }
}

/// Identifies a timer of [`Timers`], and borrows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    slot: u32,
    generation: u32,
}

/// A timer could not be started. What it was for is given back.
#[derive(Debug)]
pub struct AddError<T> {
    /// What it was to be for.
    pub value: T,
    /// Why: `ENOSPC` at the limit of these timers, `EDQUOT` at that of the user, `ENOMEM`.
    pub error: io::Error,
}

impl<T> fmt::Display for AddError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start a timer: {}", self.error)
    }
}

impl<T: fmt::Debug> error::Error for AddError<T> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<T> From<AddError<T>> for io::Error {
    fn from(error: AddError<T>) -> io::Error {
        error.error
    }
}

/// Timers behind one descriptor, which own what they are for.
///
/// They are kept in the kernel or in the process ([`Backend`]), with the same meaning. A timer is
/// pending until [`drain`](Timers::drain) has given what it is for: until then it can be cancelled
/// and moved, however late the program is.
///
/// Methods take `&self`, so that the loop over what is due can add and cancel.
///
/// ```
/// use htw::{Backend, Clock, Options};
/// use std::time::Duration;
///
/// # fn main() -> std::io::Result<()> {
/// let timers = Options::new().backend(Backend::Process).clock(Clock::Manual).open()?;
///
/// let first = timers.add(Duration::from_secs(30), "first")?;
/// timers.add(Duration::from_secs(10), "second")?;
/// let third = timers.add(Duration::from_secs(20), "third")?;
///
/// assert_eq!(timers.cancel(third), Some("third"));
/// assert!(timers.rearm(first, Duration::from_secs(60))?);
///
/// timers.advance(Duration::from_secs(30))?;
/// for due in timers.drain() {
///     let (_id, what) = due?;
///     assert_eq!(what, "second");
/// }
/// assert_eq!(timers.len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Threads
///
/// They can go to another thread if what they own can:
///
/// ```
/// let timers = htw::Options::new().open()?;
/// timers.add(std::time::Duration::ZERO, String::from("yours"))?;
/// std::thread::spawn(move || timers.len());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// ```compile_fail
/// let timers = htw::Options::new().open()?;
/// timers.add(std::time::Duration::ZERO, std::rc::Rc::new("mine"))?;
/// std::thread::spawn(move || timers.len());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Two threads cannot have them at the same time; a `Mutex` lets them take turns:
///
/// ```
/// let timers = htw::Options::new().open()?;
/// timers.add(std::time::Duration::ZERO, String::from("ours"))?;
/// let timers = std::sync::Mutex::new(timers);
/// std::thread::scope(|s| {
///     s.spawn(|| timers.lock().unwrap().len());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// ```compile_fail
/// let timers = htw::Options::new().open()?;
/// timers.add(std::time::Duration::ZERO, String::from("ours"))?;
/// std::thread::scope(|s| {
///     s.spawn(|| timers.len());
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The descriptor is lent, and not longer than they live:
///
/// ```compile_fail
/// use std::os::unix::io::AsFd;
///
/// let timers: htw::Timers<()> = htw::Options::new().open()?;
/// let fd = timers.as_fd();
/// drop(timers);
/// fd.try_clone_to_owned()?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # fork
///
/// They belong to the process that opened them: in a child, calls fail with `EPERM`, and dropping
/// them leaves the parent's alone.
pub struct Timers<T> {
    handle: NonNull<sys::htw>,
    /// Never borrowed while something of the user's runs, such as the drop of a T.
    state: RefCell<State<T>>,
}

// SAFETY: a handle may be used by any thread.
unsafe impl<T: Send> Send for Timers<T> {}

struct State<T> {
    slots: Vec<Slot<T>>,
    free: Option<u32>,
    used: usize,
    /// Events that were read, of which those before `read` have been handled.
    events: Vec<sys::htw_event>,
    read: usize,
}

/// A place for what a timer is for. Its index is the timer's cookie.
struct Slot<T> {
    /// Counts uses: of an id that has ended it is another one.
    generation: u32,
    content: Content<T>,
}

enum Content<T> {
    Free {
        next: Option<u32>,
    },
    /// With the id of libhtw.
    Used {
        id: u64,
        value: T,
    },
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// The result of a function of libhtw, which is a negative errno if it has failed.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(result)
    }
}

const ENOENT: i32 = 2;

fn is_ended(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ENOENT)
}

impl<T> State<T> {
    /// The index of a slot that is free.
    fn free_slot(&mut self) -> u32 {
        self.free.unwrap_or_else(|| {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 timers");

            self.slots.push(Slot {
                generation: 0,
                content: Content::Free { next: None },
            });
            self.free = Some(index);
            index
        })
    }

    fn fill(&mut self, index: u32, id: u64, value: T) -> Id {
        let slot = &mut self.slots[index as usize];

        if let Content::Free { next } = slot.content {
            self.free = next;
        }
        slot.content = Content::Used { id, value };
        self.used += 1;
        Id {
            slot: index,
            generation: slot.generation,
        }
    }

    /// The id of libhtw, and the value, of a timer that has not ended.
    fn find(&mut self, id: Id) -> Option<(&mut u64, &mut T)> {
        let slot = self.slots.get_mut(id.slot as usize)?;

        match &mut slot.content {
            Content::Used { id: of_htw, value } if slot.generation == id.generation => {
                Some((of_htw, value))
            }
            _ => None,
        }
    }

    /// Empty a slot that is in use.
    fn take(&mut self, index: u32) -> Option<(Id, T)> {
        let slot = self.slots.get_mut(index as usize)?;

        if let Content::Free { .. } = slot.content {
            return None;
        }
        let id = Id {
            slot: index,
            generation: slot.generation,
        };
        let content = mem::replace(&mut slot.content, Content::Free { next: None });
        // A slot that has had all its generations is not used again.
        if slot.generation < u32::MAX {
            slot.generation += 1;
            slot.content = Content::Free { next: self.free };
            self.free = Some(index);
        }
        self.used -= 1;
        match content {
            Content::Used { value, .. } => Some((id, value)),
            Content::Free { .. } => None,
        }
    }

    /// The slot of an event's timer; `None` if that has been cancelled or moved since the event
    /// was read, or is not ours: other processes may share a device.
    fn slot_of(&self, event: &sys::htw_event) -> Option<u32> {
        let index = u32::try_from(event.cookie).ok()?;

        match self.slots.get(index as usize)?.content {
            Content::Used { id, .. } if id == event.id => Some(index),
            _ => None,
        }
    }

    /// The slot of the next event's timer, among those that have been read.
    fn next_slot(&mut self) -> Option<u32> {
        while let Some(event) = self.events.get(self.read) {
            if let Some(index) = self.slot_of(event) {
                return Some(index);
            }
            self.read += 1;
        }
        None
    }
}

impl<T> Timers<T> {
    /// Open timers with the default options, which are those of [`Options::new`].
    pub fn open(backend: Backend) -> io::Result<Timers<T>> {
        Options::new().backend(backend).open()
    }

    fn htw(&self) -> *mut sys::htw {
        self.handle.as_ptr()
    }

    fn start(&self, deadline: u64, flags: u32, value: T) -> Result<Id, AddError<T>> {
        let mut state = self.state.borrow_mut();
        let index = state.free_slot();
        let mut add = sys::htw_add_args {
            deadline,
            flags,
            cookie: index.into(),
            ..Default::default()
        };

        // SAFETY: the handle is open, and the argument is what it should be.
        match check(unsafe { sys::htw_add(self.htw(), &mut add) }) {
            Ok(_) => Ok(state.fill(index, add.id, value)),
            Err(error) => Err(AddError { value, error }),
        }
    }

    /// Start a timer that is due after a delay; at once if that is zero.
    ///
    /// Those of the same deadline come in the order in which they were started, on the device those
    /// that were started on the same CPU.
    pub fn add(&self, after: Duration, value: T) -> Result<Id, AddError<T>> {
        self.start(ns(after), 0, value)
    }

    /// Start a timer that is due at a point in time, on the clock that [`now`](Timers::now) tells.
    pub fn add_at(&self, when: Duration, value: T) -> Result<Id, AddError<T>> {
        self.start(ns(when), sys::HTW_F_ABS, value)
    }

    /// Start a timeout that [`put_off`](Timers::put_off) can move.
    pub fn timeout(&self, after: Duration, value: T) -> Result<Id, AddError<T>> {
        self.start(ns(after), sys::HTW_F_PUT_OFF, value)
    }

    /// Move a deadline later by a store, without a lock or a system call: for what happens at each
    /// message of a connection. An earlier deadline counts only when the timer comes. `false` if it
    /// has ended, or was not started by [`timeout`](Timers::timeout).
    pub fn put_off(&self, id: Id, after: Duration) -> bool {
        let mut state = self.state.borrow_mut();

        match state.find(id) {
            // SAFETY: the handle is open.
            Some((&mut of_htw, _)) => unsafe {
                let when = sys::htw_now(self.htw()).saturating_add(ns(after));
                sys::htw_put_off(self.htw(), of_htw, when) == 0
            },
            None => false,
        }
    }

    /// End a timer, and give back what it was for; `None` if it has ended.
    pub fn cancel(&self, id: Id) -> Option<T> {
        let mut state = self.state.borrow_mut();
        let of_htw = *state.find(id)?.0;

        // SAFETY: the handle is open. If that fails, the event has been read and is not handled
        // any more, or this is a child of fork(), which has no event.
        unsafe { sys::htw_stop(self.htw(), of_htw) };
        state.take(id.slot).map(|(_id, value)| value)
    }

    /// Give a timer a new deadline, from now, also if it is due. `false` if it has ended.
    pub fn rearm(&self, id: Id, after: Duration) -> io::Result<bool> {
        let mut state = self.state.borrow_mut();
        let of_htw = match state.find(id) {
            Some((of_htw, _)) => of_htw,
            None => return Ok(false),
        };

        // SAFETY: the handle is open.
        match check(unsafe { sys::htw_rearm(self.htw(), *of_htw, ns(after)) }) {
            Ok(_) => Ok(true),
            // Its event has been read, and not yet handled: that counts no more.
            Err(error) if is_ended(&error) => {
                let mut add = sys::htw_add_args {
                    deadline: ns(after),
                    cookie: id.slot.into(),
                    ..Default::default()
                };
                // SAFETY: as above.
                check(unsafe { sys::htw_add(self.htw(), &mut add) })?;
                *of_htw = add.id;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Is it still pending?
    pub fn contains(&self, id: Id) -> bool {
        self.state.borrow_mut().find(id).is_some()
    }

    /// What a timer is for.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.state.get_mut().find(id).map(|(_, value)| value)
    }

    /// The number of timers, those that are due included.
    pub fn len(&self) -> usize {
        self.state.borrow().used
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Take what is due, in the order of deadlines; on the device, those of each CPU.
    ///
    /// The loop may add, move and cancel, and ends: what it adds for now may be left for the next
    /// call. It may also be left: what it has not taken stays. An error is the last item.
    ///
    /// A level-triggered loop, as mio's or `poll()`, calls it once for each time that the
    /// descriptor is readable, and an edge-triggered one until it gives nothing.
    pub fn drain(&self) -> Drain<'_, T> {
        let left = self.len();

        Drain {
            timers: self,
            left,
            more: true,
        }
    }

    /// Wait until a timer is due, or for at most as long as that; `None` is for ever. `false` if
    /// none is. Real time, also with a manual clock.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        {
            let state = self.state.borrow();
            if state.read < state.events.len() {
                return Ok(true);
            }
        }
        let timeout = timeout.map_or(-1, |t| ns(t).min(i64::MAX as u64) as i64);

        // SAFETY: the handle is open.
        check(unsafe { sys::htw_wait(self.htw(), timeout) }).map(|n| n > 0)
    }

    /// The time, since the clock's zero.
    pub fn now(&self) -> Duration {
        // SAFETY: the handle is open.
        Duration::from_nanos(unsafe { sys::htw_now(self.htw()) })
    }

    /// A time before which nothing is due, on the clock that [`now`](Timers::now) tells; `None` if
    /// nothing is pending.
    pub fn next_time(&self) -> io::Result<Option<Duration>> {
        let mut when = 0;

        {
            let state = self.state.borrow();
            if state.read < state.events.len() {
                return Ok(Some(self.now()));
            }
        }
        // SAFETY: the handle is open.
        match check(unsafe { sys::htw_next_time(self.htw(), &mut when) }) {
            Ok(_) => Ok(Some(Duration::from_nanos(when))),
            Err(error) if is_ended(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Move a manual clock forward. Is something due then?
    pub fn advance(&self, by: Duration) -> io::Result<bool> {
        // SAFETY: the handle is open.
        check(unsafe { sys::htw_advance(self.htw(), ns(by), 0) }).map(|n| n > 0)
    }

    /// Allocate memory for as many timers in all. `ENOSPC` if that is beyond the limit.
    pub fn reserve(&self, count: usize) -> io::Result<()> {
        let mut state = self.state.borrow_mut();

        // SAFETY: the handle is open.
        check(unsafe { sys::htw_reserve(self.htw(), count as u64) })?;
        let more = count.saturating_sub(state.slots.len());
        state.slots.reserve(more);
        Ok(())
    }

    /// End all timers, and take what they are for, in no particular order.
    pub fn take_all(&self) -> Vec<(Id, T)> {
        let mut state = self.state.borrow_mut();
        let mut all = Vec::with_capacity(state.used);

        // SAFETY: the handle is open.
        unsafe { sys::htw_cancel_all(self.htw()) };
        for index in 0..state.slots.len() as u32 {
            all.extend(state.take(index));
        }
        state.events.clear();
        state.read = 0;
        all
    }

    /// Where the timers are: [`Backend::Device`] or [`Backend::Process`].
    pub fn backend(&self) -> Backend {
        // SAFETY: the handle is open.
        match unsafe { sys::htw_backend(self.htw()) } {
            sys::HTW_BACKEND_DEVICE => Backend::Device,
            _ => Backend::Process,
        }
    }

    /// The tick.
    pub fn tick(&self) -> io::Result<Duration> {
        let mut info = sys::htw_info_args::default();

        // SAFETY: the handle is open.
        check(unsafe { sys::htw_info(self.htw(), &mut info) })?;
        Ok(Duration::from_nanos(info.tick_ns))
    }
}

impl<T> Drop for Timers<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { sys::htw_close(self.htw()) };
    }
}

impl<T> AsFd for Timers<T> {
    /// It is readable when [`drain`](Timers::drain) should be called. Use it for nothing else.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as the handle is.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl<T> AsRawFd for Timers<T> {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the handle is open.
        unsafe { sys::htw_fd(self.htw()) }
    }
}

impl<T> fmt::Debug for Timers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers")
            .field("backend", &self.backend())
            .field("len", &self.len())
            .finish()
    }
}

/// What is due: see [`Timers::drain`].
pub struct Drain<'a, T> {
    timers: &'a Timers<T>,
    /// As many as there were when it began: with those it ends.
    left: usize,
    /// It has not read yet, or there may be more to read.
    more: bool,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = io::Result<(Id, T)>;

    fn next(&mut self) -> Option<io::Result<(Id, T)>> {
        let state = &mut *self.timers.state.borrow_mut();

        loop {
            if let Some(index) = state.next_slot() {
                if self.left == 0 {
                    return None;
                }
                self.left -= 1;
                state.read += 1;
                return state.take(index).map(Ok);
            }
            if !self.more {
                return None;
            }

            state.read = 0;
            state.events.resize(EVENTS, Default::default());
            // SAFETY: the handle is open, and there is room for so many.
            let read = unsafe {
                sys::htw_read(self.timers.htw(), state.events.as_mut_ptr(), EVENTS as u32)
            };
            state.events.truncate(read.max(0) as usize);
            // Also if nothing is pending: else the descriptor would stay readable.
            self.more = read as usize == EVENTS && self.left > 0;
            if let Err(error) = check(read) {
                return Some(Err(error));
            }
        }
    }
}

impl<T> FusedIterator for Drain<'_, T> {}

impl<T> Drop for Drain<'_, T> {
    /// Events that were read and not handled are for the next call: the descriptor becomes readable
    /// again, by a timer that is nothing else's.
    fn drop(&mut self) {
        let state = self.timers.state.borrow();

        if state.read < state.events.len() {
            let mut nudge = sys::htw_add_args {
                cookie: u64::MAX,
                ..Default::default()
            };
            // SAFETY: the handle is open. At the limit it fails: then there are others, which make
            // the descriptor readable.
            unsafe { sys::htw_add(self.timers.htw(), &mut nudge) };
        }
    }
}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("timers", self.timers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_without_generations_is_given_up() {
        let timers = Options::new()
            .backend(Backend::Process)
            .clock(Clock::Manual)
            .open()
            .unwrap();
        let id = timers.add(Duration::from_secs(1), 'a').unwrap();

        timers.state.borrow_mut().slots[id.slot as usize].generation = u32::MAX;
        assert_eq!(timers.cancel(id), None);
        let last = Id {
            generation: u32::MAX,
            ..id
        };
        assert_eq!(timers.cancel(last), Some('a'));
        for _ in 0..10 {
            assert_ne!(timers.add(Duration::ZERO, 'b').unwrap().slot, id.slot);
        }
        assert_eq!(timers.cancel(last), None);
        assert_eq!(timers.drain().count(), 10);
    }
}
