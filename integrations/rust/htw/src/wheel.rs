// SPDX-License-Identifier: MIT
//! The wheel by itself.
//!
//! Its nodes are linked by the wheel's C, so they must not move: they lie in chunks that are
//! allocated once and stay. All memory belongs to the wheel, which can be sent to another thread
//! with all of it.

mod slots;

use slots::Slots;
use std::cell::UnsafeCell;
use std::iter::FusedIterator;
use std::os::raw::{c_char, c_uint};
use std::ptr::NonNull;
use std::{error, ffi, fmt, mem};

/// `struct htw_node`.
#[repr(C)]
struct Node {
    next: *mut Node,
    prev: *mut Node,
    expires: u64,
}

/// `struct htw_geometry`.
#[repr(C)]
struct Geometry {
    levels: c_uint,
    slots: [c_uint; MAX_LEVELS],
}

const MAX_LEVELS: usize = 8;

/// `struct htw_wheel`, of which only pointers exist here.
#[repr(C)]
struct CWheel {
    private: [u8; 0],
}

extern "C" {
    fn htw_rust_size_of_wheel() -> usize;
    #[cfg(test)]
    fn htw_rust_size_of_node() -> usize;
    fn htw_rust_wheel_init(w: *mut CWheel, now: u64);
    fn htw_rust_start(w: *mut CWheel, n: *mut Node, tick: u64);
    fn htw_rust_stop(w: *mut CWheel, n: *mut Node);
    fn htw_rust_restart(w: *mut CWheel, n: *mut Node, tick: u64);
    fn htw_rust_expire(w: *mut CWheel, now: u64) -> *mut Node;
    fn htw_rust_wheel_cascade(w: *mut CWheel, budget: *mut c_uint) -> bool;
    fn htw_rust_wheel_next(w: *mut CWheel) -> u64;
    fn htw_rust_wheel_evict(w: *mut CWheel) -> *mut Node;
    fn htw_rust_geometry_default(geo: *mut Geometry, tick_ns: u64, nodes: u64);
    fn htw_rust_geometry_error(geo: *const Geometry) -> *const c_char;
    fn htw_rust_geometry_bytes(geo: *const Geometry) -> usize;
    fn htw_rust_wheel_add_levels(
        w: *mut CWheel,
        geo: *const Geometry,
        memory: *mut u64,
        bytes: usize,
    ) -> bool;
}

/// `HTW_LAST_TICK`: the last tick that can come.
const LAST_TICK: u64 = 1 << 63;

/// Few timers are a sorted list, which needs no levels.
const FEW: usize = 63;

/// Nodes that an [`Advance`] looks at to move them down, once it has nothing that is due.
const MOVES: c_uint = 4096;

/// Identifies a timeout of a [`Wheel`], and borrows nothing.
///
/// A key that has ended is not reused before the place of its timeout has had two billion others,
/// and then that place is given up instead. Any key may be given to any wheel: that of another
/// one is as one that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

/// The slots of a wheel's levels are not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSlots(&'static str);

impl fmt::Display for InvalidSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl error::Error for InvalidSlots {}

/// A timing wheel that owns what its timeouts are for.
///
/// A tick is what you say: a millisecond of some clock ([`TickClock`](crate::TickClock)), a frame,
/// a step of a simulation. The wheel reads no clock: it knows the time that [`advance`] was given.
/// It is for one thread, which may share it by reference, or by `Rc`: methods take `&self`, so that
/// the loop over what is due can insert and cancel, and a future can cancel its timeout when it is
/// dropped.
///
/// [`advance`]: Wheel::advance
///
/// ```
/// let wheel = htw::Wheel::new(0);
///
/// let first = wheel.insert(30, "first");
/// wheel.insert(10, "second");
/// let third = wheel.insert(20, "third");
///
/// assert_eq!(wheel.next_deadline(), Some(10));
/// assert_eq!(wheel.cancel(third), Some("third"));
/// assert!(wheel.reschedule(first, 40));
///
/// let due: Vec<_> = wheel.advance(25).map(|(_key, what)| what).collect();
/// assert_eq!(due, ["second"]);
/// assert_eq!(wheel.len(), 1);
/// ```
///
/// # Threads
///
/// A wheel can go to another thread if what it owns can:
///
/// ```
/// let wheel = htw::Wheel::new(0);
/// wheel.insert(1, String::from("yours"));
/// std::thread::spawn(move || wheel.len());
/// ```
///
/// ```compile_fail
/// let wheel = htw::Wheel::new(0);
/// wheel.insert(1, std::rc::Rc::new("mine"));
/// std::thread::spawn(move || wheel.len());
/// ```
///
/// Two threads cannot have it at the same time:
///
/// ```compile_fail
/// let wheel = htw::Wheel::new(0);
/// wheel.insert(1, String::from("ours"));
/// std::thread::scope(|s| {
///     s.spawn(|| wheel.len());
/// });
/// ```
///
/// What is due was the wheel's, and is now the caller's, so it can be moved:
///
/// ```
/// let wheel = htw::Wheel::new(0);
/// let key = wheel.insert(1, vec![1]);
/// let owned: Vec<i32> = wheel.cancel(key).unwrap();
/// drop(wheel);
/// assert_eq!(owned, [1]);
/// ```
///
/// What [`get_mut`](Wheel::get_mut) lends cannot be held while the wheel changes:
///
/// ```
/// let mut wheel = htw::Wheel::new(0);
/// let key = wheel.insert(1, vec![1]);
/// let lent = wheel.get_mut(key).unwrap();
/// lent.push(2);
/// wheel.cancel(key);
/// ```
///
/// ```compile_fail
/// let mut wheel = htw::Wheel::new(0);
/// let key = wheel.insert(1, vec![1]);
/// let lent = wheel.get_mut(key).unwrap();
/// wheel.cancel(key);
/// lent.push(2);
/// ```
pub struct Wheel<T> {
    inner: UnsafeCell<Inner<T>>,
}

struct Inner<T> {
    wheel: NonNull<CWheel>,
    slots: Slots<T>,
    /// The latest time that the wheel was told.
    now: u64,
    has_levels: bool,
    /// The memory of the C structures: first that of the wheel, then that of its levels. They
    /// refer to themselves and to each other.
    memory: Vec<NonNull<[u64]>>,
}

// SAFETY: all that it leads to belongs to it: the memory of the wheel and of its levels, and the
// slots with what is in them. Nothing of it is bound to a thread, but perhaps a T.
unsafe impl<T: Send> Send for Wheel<T> {}

impl<T> Inner<T> {
    fn allocate(&mut self, bytes: usize) -> *mut u64 {
        let words = bytes / mem::size_of::<u64>() + 1;
        let memory = Box::into_raw(vec![0u64; words].into_boxed_slice());

        self.memory
            .push(NonNull::new(memory).expect("a box is somewhere"));
        memory.cast()
    }

    fn add_levels(&mut self, geometry: &Geometry) {
        // SAFETY: geometry is valid; the memory is as large as is asked, aligned for u64, and
        // stays until the wheel has gone. The wheel has no levels.
        let added = unsafe {
            let bytes = htw_rust_geometry_bytes(geometry);
            let memory = self.allocate(bytes);
            htw_rust_wheel_add_levels(self.wheel.as_ptr(), geometry, memory, bytes)
        };
        assert!(added, "the levels' memory is what they take");
        self.has_levels = true;
    }

    fn add_default_levels(&mut self, nodes: usize) {
        let mut geometry = Geometry {
            levels: 0,
            slots: [0; MAX_LEVELS],
        };

        // SAFETY: it is written.
        unsafe { htw_rust_geometry_default(&mut geometry, 1_000_000, nodes as u64) };
        self.add_levels(&geometry);
    }
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        for &memory in &self.memory {
            // SAFETY: allocate() got it from a box. What is in it is not used any more: the
            // wheel's nodes are freed after this without looking at it.
            drop(unsafe { Box::from_raw(memory.as_ptr()) });
        }
    }
}

impl<T> Wheel<T> {
    /// An empty wheel, at the present tick. It grows as it needs to.
    pub fn new(now: u64) -> Wheel<T> {
        let mut inner = Inner {
            wheel: NonNull::dangling(),
            slots: Slots::new(),
            now,
            has_levels: false,
            memory: Vec::with_capacity(2),
        };
        // SAFETY: the memory is as large as the structure, aligned for u64, and stays.
        unsafe {
            let memory = inner.allocate(htw_rust_size_of_wheel());
            inner.wheel = NonNull::new(memory.cast()).expect("memory is somewhere");
            htw_rust_wheel_init(inner.wheel.as_ptr(), now);
        }
        Wheel {
            inner: UnsafeCell::new(inner),
        }
    }

    /// The same, with memory for as many timeouts at a time: up to that it allocates nothing more.
    pub fn with_capacity(now: u64, capacity: usize) -> Wheel<T> {
        let mut wheel = Wheel::new(now);
        let inner = wheel.inner.get_mut();

        inner.slots.reserve(capacity);
        if capacity > FEW {
            inner.add_default_levels(capacity);
        }
        wheel
    }

    /// The same, with levels of so many slots each, finest first: `&[60, 60, 24]` for a day of
    /// seconds. Levels make a wheel quick, and do not limit it: timeouts may be later.
    ///
    /// One to eight levels of 2 to 2,048 slots, which span 2^61 ticks at most. Without them a wheel
    /// with more than a few timeouts gets levels of 256, 64, 64, 64 and 64 slots, as suits ticks of
    /// a millisecond.
    pub fn with_slots(now: u64, slots: &[u32]) -> Result<Wheel<T>, InvalidSlots> {
        let mut geometry = Geometry {
            levels: slots.len() as c_uint,
            slots: [0; MAX_LEVELS],
        };

        if slots.len() > MAX_LEVELS {
            return Err(InvalidSlots("more than 8 levels"));
        }
        geometry.slots[..slots.len()].copy_from_slice(slots);
        // SAFETY: it only reads; what it returns is a string that stays.
        let error = unsafe { htw_rust_geometry_error(&geometry).as_ref() };
        if let Some(error) = error {
            // SAFETY: as above.
            let error = unsafe { ffi::CStr::from_ptr(error) };
            return Err(InvalidSlots(error.to_str().unwrap_or("invalid levels")));
        }
        let mut wheel = Wheel::new(now);
        wheel.inner.get_mut().add_levels(&geometry);
        Ok(wheel)
    }

    /// What may change through a shared reference.
    ///
    /// Whoever uses it must be done with it before anything of the user's runs, such as the drop
    /// of a T, which could come back here.
    #[allow(clippy::mut_from_ref)]
    fn inner(&self) -> &mut Inner<T> {
        // SAFETY: one thread, as the wheel is not Sync; and no reference to it exists as long as
        // this one, by the rule above.
        unsafe { &mut *self.inner.get() }
    }

    /// Start a timeout that is due when a tick comes; at once, if it has come.
    ///
    /// Those of the same tick are due in the order in which they were inserted or rescheduled. One
    /// beyond 2^63 ticks never comes.
    pub fn insert(&self, deadline: u64, value: T) -> Key {
        let inner = self.inner();

        if !inner.has_levels && inner.slots.len() >= FEW {
            inner.add_default_levels(0);
        }
        let (key, node) = inner.slots.put(value);
        // SAFETY: the node is in no wheel, and stays where it is.
        unsafe { htw_rust_start(inner.wheel.as_ptr(), node, deadline.max(inner.now)) };
        key
    }

    /// End a timeout, and give back what it was for; `None` if it has ended.
    pub fn cancel(&self, key: Key) -> Option<T> {
        let inner = self.inner();
        let node = inner.slots.find(key)?;

        // SAFETY: the node of a live key is in the wheel.
        unsafe { htw_rust_stop(inner.wheel.as_ptr(), node) };
        // SAFETY: it is in use, and in no wheel any more.
        Some(unsafe { inner.slots.take(node) }.1)
    }

    /// Give a timeout another deadline. It counts as inserted anew. `false` if it has ended.
    pub fn reschedule(&self, key: Key, deadline: u64) -> bool {
        let inner = self.inner();

        match inner.slots.find(key) {
            Some(node) => {
                // SAFETY: the node of a live key is in the wheel.
                unsafe { htw_rust_restart(inner.wheel.as_ptr(), node, deadline.max(inner.now)) };
                true
            }
            None => false,
        }
    }

    /// Is it still pending?
    pub fn contains(&self, key: Key) -> bool {
        self.inner().slots.find(key).is_some()
    }

    /// The tick at which a timeout is due, or was when it was inserted; `None` if it has ended.
    pub fn deadline(&self, key: Key) -> Option<u64> {
        let node = self.inner().slots.find(key)?;

        // SAFETY: nodes stay where they are.
        Some(unsafe { (*node).expires })
    }

    /// What a timeout is for.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.inner.get_mut().slots.get_mut(key)
    }

    /// The number of timeouts, those that are due included.
    pub fn len(&self) -> usize {
        self.inner().slots.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The latest tick that the wheel was told.
    pub fn now(&self) -> u64 {
        self.inner().now
    }

    /// When to call [`advance`](Wheel::advance) next, for the timeout of a reactor that parks;
    /// `None` if there is no need to.
    ///
    /// It is never later than the first deadline. It may be earlier, when timeouts are to be moved
    /// to a finer level; and after a cancel it may name a tick at which nothing is left.
    pub fn next_deadline(&self) -> Option<u64> {
        // SAFETY: the wheel is initialized.
        let next = unsafe { htw_rust_wheel_next(self.inner().wheel.as_ptr()) };

        (next <= LAST_TICK).then(|| next)
    }

    /// Tell the present tick, and take what is due, in the order of deadlines.
    ///
    /// The loop may insert, reschedule and cancel, and ends: what it inserts for a tick that has
    /// come is due behind all that were due when it began, and may be left for the next call. It
    /// may also be left: what it has not taken stays.
    ///
    /// Ticks go forward: an earlier one than before counts as that.
    pub fn advance(&self, now: u64) -> Advance<'_, T> {
        let inner = self.inner();

        inner.now = inner.now.max(now);
        Advance {
            wheel: self,
            left: inner.slots.len(),
            done: false,
        }
    }

    /// Take all timeouts, in no particular order, as a shutdown needs; those that the loop inserts
    /// as well.
    pub fn take_all(&self) -> TakeAll<'_, T> {
        TakeAll { wheel: self }
    }
}

impl<T> Drop for Wheel<T> {
    fn drop(&mut self) {
        if mem::needs_drop::<T>() {
            self.take_all().for_each(drop);
        }
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("now", &self.now())
            .field("len", &self.len())
            .finish()
    }
}

/// What is due: see [`Wheel::advance`].
pub struct Advance<'a, T> {
    wheel: &'a Wheel<T>,
    /// As many as there were when it began: with those it ends.
    left: usize,
    done: bool,
}

impl<T> Iterator for Advance<'_, T> {
    type Item = (Key, T);

    fn next(&mut self) -> Option<(Key, T)> {
        let inner = self.wheel.inner();

        if self.left > 0 {
            // SAFETY: the wheel is initialized.
            let node = unsafe { htw_rust_expire(inner.wheel.as_ptr(), inner.now) };
            if !node.is_null() {
                self.left -= 1;
                // SAFETY: nodes are started in slots only; this one is in no wheel any more.
                return Some(unsafe { inner.slots.take(node) });
            }
            self.left = 0;
        }
        if !self.done {
            let mut budget = MOVES;
            // SAFETY: the wheel is initialized. What is left to move makes next_deadline() a tick
            // that has come.
            unsafe { htw_rust_wheel_cascade(inner.wheel.as_ptr(), &mut budget) };
            self.done = true;
        }
        None
    }
}

impl<T> FusedIterator for Advance<'_, T> {}

impl<T> fmt::Debug for Advance<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advance")
            .field("wheel", self.wheel)
            .finish_non_exhaustive()
    }
}

/// All timeouts: see [`Wheel::take_all`].
pub struct TakeAll<'a, T> {
    wheel: &'a Wheel<T>,
}

impl<T> Iterator for TakeAll<'_, T> {
    type Item = (Key, T);

    fn next(&mut self) -> Option<(Key, T)> {
        let inner = self.wheel.inner();
        // SAFETY: the wheel is initialized.
        let node = unsafe { htw_rust_wheel_evict(inner.wheel.as_ptr()) };

        if node.is_null() {
            return None;
        }
        // SAFETY: nodes are started in slots only; this one is in no wheel any more.
        Some(unsafe { inner.slots.take(node) })
    }
}

impl<T> fmt::Debug for TakeAll<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeAll")
            .field("wheel", self.wheel)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_laid_out_as_in_c() {
        assert_eq!(mem::size_of::<Node>(), unsafe { htw_rust_size_of_node() });
    }
}
