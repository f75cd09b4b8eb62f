// SPDX-License-Identifier: MIT
//! The places of timeouts: they do not move, and are found by keys.

use super::{Key, Node};
use std::mem::{self, MaybeUninit};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots of a chunk.
const CHUNK: usize = 256;

/// The end of the list of free slots.
const NONE: u32 = u32::MAX;

/// A place for a timeout. The node is first, so that its address is the slot's.
#[repr(C)]
pub(super) struct Slot<T> {
    /// Of a free slot, `expires` is the index of the next one.
    node: Node,
    index: u32,
    /// Odd while the slot is in use; so each use has a number of its own.
    generation: u32,
    value: MaybeUninit<T>,
}

pub(super) struct Slots<T> {
    chunks: Vec<NonNull<Slot<T>>>,
    free: u32,
    used: usize,
    /// The generation at which slots begin, another one for each wheel. When a slot comes to it
    /// again all its keys have been used.
    first: u32,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Slots<T> {
        // Far from those of the wheels before.
        static WHEELS: AtomicU32 = AtomicU32::new(0);
        let number = WHEELS.fetch_add(1, Ordering::Relaxed);

        Slots {
            chunks: Vec::new(),
            free: NONE,
            used: 0,
            first: number.wrapping_mul(0x9e37_79b9) << 1,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }

    pub(super) fn reserve(&mut self, capacity: usize) {
        self.chunks.reserve((capacity + CHUNK - 1) / CHUNK);
        while self.chunks.len() * CHUNK < capacity {
            self.grow();
        }
    }

    /// Add a chunk, whose slots are taken in their order.
    fn grow(&mut self) {
        let begin = self.chunks.len() * CHUNK;
        let end = u32::try_from(begin + CHUNK).expect("fewer than 2^32 timeouts");
        let mut chunk = Vec::with_capacity(CHUNK);

        for index in begin as u32..end {
            let next = if index + 1 < end {
                index + 1
            } else {
                self.free
            };
            chunk.push(Slot {
                node: Node {
                    next: ptr::null_mut(),
                    prev: ptr::null_mut(),
                    expires: next.into(),
                },
                index,
                generation: self.first,
                value: MaybeUninit::uninit(),
            });
        }
        let chunk: *mut [Slot<T>] = Box::into_raw(chunk.into_boxed_slice());
        self.chunks
            .push(NonNull::new(chunk.cast()).expect("a box is somewhere"));
        self.free = begin as u32;
    }

    /// The slot of an index below the number of slots.
    fn slot(&self, index: u32) -> *mut Slot<T> {
        let index = index as usize;

        // SAFETY: the chunk has so many slots.
        unsafe { self.chunks[index / CHUNK].as_ptr().add(index % CHUNK) }
    }

    /// Put a value into a free slot. The slot's node is to be started.
    pub(super) fn put(&mut self, value: T) -> (Key, *mut Node) {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = self.slot(index);

        // SAFETY: slots stay where they are; this one is free, so nothing else refers to it.
        unsafe {
            self.free = (*slot).node.expires as u32;
            (*slot).generation = (*slot).generation.wrapping_add(1);
            (*slot).value = MaybeUninit::new(value);
            self.used += 1;
            (
                Key {
                    index,
                    generation: (*slot).generation,
                },
                slot.cast(),
            )
        }
    }

    /// The node of a live key, which is in the wheel.
    pub(super) fn find(&self, key: Key) -> Option<*mut Node> {
        let chunk = self.chunks.get(key.index as usize / CHUNK)?;

        // SAFETY: the chunk has so many slots. A key's generation is odd, so the slot is in use.
        unsafe {
            let slot = chunk.as_ptr().add(key.index as usize % CHUNK);
            ((*slot).generation == key.generation).then(|| slot.cast())
        }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot: *mut Slot<T> = self.find(key)?.cast();

        // SAFETY: it is in use, so there is a value; the wheel's C does not touch it.
        Some(unsafe { (*slot).value.assume_init_mut() })
    }

    /// Take the value out, and end its key.
    ///
    /// # Safety
    ///
    /// The node is that of a slot in use, and is in no wheel any more.
    pub(super) unsafe fn take(&mut self, node: *mut Node) -> (Key, T) {
        let slot: *mut Slot<T> = node.cast();
        let index = (*slot).index;
        let generation = (*slot).generation;
        let value = (*slot).value.as_ptr().read();

        (*slot).generation = generation.wrapping_add(1);
        // Else it has had all its keys, and is not used again.
        if (*slot).generation != self.first {
            (*slot).node.expires = self.free.into();
            self.free = index;
        }
        self.used -= 1;
        (Key { index, generation }, value)
    }
}

impl<T> Drop for Slots<T> {
    /// Frees the memory. Values that are left are not dropped: the wheel takes them out before.
    fn drop(&mut self) {
        for chunk in mem::take(&mut self.chunks) {
            // SAFETY: grow() got it from a box of so many.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(chunk.as_ptr(), CHUNK)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_without_keys_is_given_up() {
        let mut slots = Slots::new();
        let (key, node) = slots.put('a');
        let slot: *mut Slot<char> = node.cast();

        // As after two billion uses.
        unsafe { (*slot).generation = slots.first.wrapping_sub(1) };
        let (last, value) = unsafe { slots.take(node) };
        assert_eq!((last.index, value), (key.index, 'a'));
        for _ in 0..3 * CHUNK {
            let (other, _) = slots.put('b');
            assert_ne!(other.index, key.index);
        }
        assert_eq!(slots.find(last), None);
        assert_eq!(slots.len(), 3 * CHUNK);
    }

    #[test]
    fn wheels_have_other_keys() {
        let mut a = Slots::new();
        let mut b = Slots::new();
        let (key, _) = a.put(1);
        b.put(2);

        assert!(a.find(key).is_some());
        assert!(b.find(key).is_none());
    }
}
