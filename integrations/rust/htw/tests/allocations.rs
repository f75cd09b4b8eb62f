// SPDX-License-Identifier: MIT
//! A wheel allocates nothing once it is warm.

use htw::Wheel;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what all threads allocate; so this is a program with one test.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        System.dealloc(memory, layout);
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn life(wheel: &Wheel<u64>, begin: u64, count: u64) {
    let mut last = None;

    for i in 0..count {
        let key = wheel.insert(begin + i % 5000, i);
        assert!(wheel.reschedule(key, begin + 1 + i % 7000));
        if i % 3 == 0 {
            last = Some(key);
        } else if let Some(key) = last.take() {
            assert!(wheel.cancel(key).is_some());
        }
    }
    let mut now = begin;
    while !wheel.is_empty() {
        now = wheel.next_deadline().unwrap().max(now);
        wheel.advance(now).for_each(drop);
    }
}

#[test]
fn none_once_warm() {
    const COUNT: u64 = 20_000;
    let wheel = Wheel::new(0);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    life(&wheel, 0, COUNT);
    assert!(
        ALLOCATIONS.load(Ordering::Relaxed) > before,
        "they are counted"
    );

    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for round in 1..5 {
        life(&wheel, round * 10_000, COUNT);
    }
    let ready = Wheel::with_capacity(0, COUNT as usize);
    let of_a_wheel = ALLOCATIONS.load(Ordering::Relaxed);
    life(&ready, 0, COUNT);
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(of_a_wheel - before > 0);
    assert_eq!(after, of_a_wheel, "with its capacity");

    life(&wheel, 100_000, COUNT);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), after, "once warm");
}
