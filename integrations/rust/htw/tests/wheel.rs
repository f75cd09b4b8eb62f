// SPDX-License-Identifier: MIT
//! The wheel, as its users see it.

use htw::{Key, Wheel};
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;

/// The values that are due.
fn due<T>(wheel: &Wheel<T>, now: u64) -> Vec<T> {
    wheel.advance(now).map(|(_, value)| value).collect()
}

/// xorshift, so that each run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A deadline that is near or far.
fn deadline(random: &mut Random, now: u64) -> u64 {
    let bits = random.below(40);

    (now + random.below(1 << bits)).saturating_sub(random.below(4))
}

/// Random steps, held against an ordered map of (deadline, number of the start).
fn against_a_model(wheel: Wheel<u64>, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut model: BTreeMap<(u64, u64), Key> = BTreeMap::new();
    let mut keys: Vec<(Key, u64, u64)> = Vec::new();
    let mut ended = Vec::new();
    let mut now = wheel.now();
    let mut starts = 0;

    for _ in 0..steps {
        match random.below(10) {
            0..=3 => {
                let at = deadline(&mut random, now);
                let key = wheel.insert(at, starts);
                assert!(keys.iter().all(|k| k.0 != key) && !ended.contains(&key));
                assert_eq!(wheel.deadline(key), Some(at.max(now)));
                model.insert((at.max(now), starts), key);
                keys.push((key, at.max(now), starts));
                starts += 1;
            }
            4 if !keys.is_empty() => {
                let (key, at, start) = keys.swap_remove(random.below(keys.len() as u64) as usize);
                assert!(wheel.contains(key));
                assert!(wheel.cancel(key).is_some());
                assert_eq!(model.remove(&(at, start)), Some(key));
                ended.push(key);
            }
            5 if !keys.is_empty() => {
                let i = random.below(keys.len() as u64) as usize;
                let (key, at, start) = keys[i];
                let later = deadline(&mut random, now);
                assert!(wheel.reschedule(key, later));
                assert_eq!(model.remove(&(at, start)), Some(key));
                keys[i] = (key, later.max(now), starts);
                model.insert((later.max(now), starts), key);
                starts += 1;
            }
            6 if !ended.is_empty() => {
                let key = ended[random.below(ended.len() as u64) as usize];
                assert_eq!(wheel.cancel(key), None);
                assert!(!wheel.reschedule(key, now) && !wheel.contains(key));
                assert_eq!(wheel.deadline(key), None);
            }
            _ => {
                // Never later than the first, so a reactor that sleeps until then is in time.
                let first = model.keys().next().map(|k| k.0);
                match (wheel.next_deadline(), first) {
                    (Some(next), Some(first)) => assert!(next <= first.max(now)),
                    (None, first) => assert!(first.map_or(true, |f| f > 1 << 63)),
                    (Some(_), None) => {}
                }
                let bits = random.below(36);
                now += random.below(1 << bits);
                let came: Vec<Key> = wheel.advance(now).map(|(key, _)| key).collect();
                let later = model.split_off(&(now + 1, 0));
                let expected: Vec<Key> = model.values().copied().collect();
                assert_eq!(came, expected, "at {}", now);
                model = later;
                keys.retain(|k| !came.contains(&k.0));
                ended.extend(came);
                ended.truncate(200);
            }
        }
        assert_eq!(wheel.len(), model.len());
        assert_eq!(wheel.is_empty(), model.is_empty());
    }
    let left: HashSet<Key> = wheel.take_all().map(|(key, _)| key).collect();
    assert_eq!(left, model.values().copied().collect());
}

#[test]
fn behaves_as_a_model() {
    for seed in 1..6 {
        against_a_model(Wheel::new(0), seed, 4000);
        against_a_model(Wheel::with_capacity(1 << 40, 10_000), seed, 4000);
        against_a_model(Wheel::with_slots(77, &[10, 60, 5]).unwrap(), seed, 4000);
    }
}

#[test]
fn equal_deadlines_come_in_order() {
    let wheel = Wheel::new(0);
    let first = wheel.insert(5, 0);

    // So many that levels are added meanwhile.
    for i in 1..1000 {
        wheel.insert(5, i);
    }
    assert!(wheel.reschedule(first, 5));
    assert!(due(&wheel, 4).is_empty());
    let expected: Vec<i32> = (1..1000).chain([0]).collect();
    assert_eq!(due(&wheel, 5), expected);
}

#[test]
fn a_loop_that_feeds_itself_ends() {
    let wheel = Wheel::new(100);

    for i in 101..110 {
        wheel.insert(i, i);
    }
    let mut taken = Vec::new();
    for (_, i) in wheel.advance(1000) {
        taken.push(i);
        wheel.insert(0, 0);
    }
    // All that were due, before those that the loop has added.
    assert_eq!(taken, (101..110).collect::<Vec<u64>>());
    assert_eq!(wheel.len(), 9);
    assert_eq!(wheel.next_deadline(), Some(1000));
    assert_eq!(due(&wheel, 1000), [0; 9]);
}

#[test]
fn a_loop_that_is_left_loses_nothing() {
    let wheel = Wheel::new(0);

    for i in 0..1000 {
        wheel.insert(i / 10, i);
    }
    assert_eq!(wheel.advance(100).next().unwrap().1, 0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        for (_, i) in wheel.advance(100) {
            assert_ne!(i, 500);
        }
    }));
    assert!(result.is_err());
    assert_eq!(due(&wheel, 100), (501..1000).collect::<Vec<u64>>());
}

#[test]
fn the_loop_may_cancel_what_is_due() {
    let wheel = Wheel::new(0);
    let keys: Vec<Key> = (0..10).map(|i| wheel.insert(1, i)).collect();
    let mut taken = Vec::new();

    for (key, i) in wheel.advance(1) {
        assert_eq!(key, keys[i]);
        assert_eq!(wheel.cancel(key), None);
        taken.push(i);
        if i % 2 == 0 {
            assert_eq!(wheel.cancel(keys[i + 1]), Some(i + 1));
        }
    }
    assert_eq!(taken, [0, 2, 4, 6, 8]);
}

#[test]
fn time_only_goes_forward() {
    let wheel = Wheel::new(10);

    wheel.insert(20, ());
    assert_eq!(due(&wheel, 15).len(), 0);
    assert_eq!(due(&wheel, 3).len(), 0);
    assert_eq!(wheel.now(), 15);
    // It has come, so it is due at once.
    wheel.insert(4, ());
    assert_eq!(wheel.next_deadline(), Some(15));
    assert_eq!(due(&wheel, 4).len(), 1);
}

#[test]
fn the_end_of_time() {
    let wheel = Wheel::new(0);

    wheel.insert(u64::MAX, "never");
    wheel.insert((1 << 63) + 1, "nor this");
    assert_eq!(wheel.next_deadline(), None);
    wheel.insert(1 << 63, "last");
    assert!(wheel.next_deadline().unwrap() <= 1 << 63);
    assert_eq!(due(&wheel, (1 << 63) - 1), [""; 0]);
    assert_eq!(due(&wheel, 1 << 63), ["last"]);
    assert_eq!(due(&wheel, u64::MAX), [""; 0]);
    assert_eq!(wheel.len(), 2);
}

#[test]
fn values_are_dropped_once() {
    struct Counted(Rc<Cell<usize>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    let dropped = Rc::new(Cell::new(0));
    let wheel = Wheel::new(0);
    let keys: Vec<Key> = (0..1000)
        .map(|i| wheel.insert(i, Counted(dropped.clone())))
        .collect();
    drop(wheel.cancel(keys[999]));
    assert_eq!(dropped.get(), 1);
    assert_eq!(wheel.advance(99).count(), 100);
    assert_eq!(dropped.get(), 101);
    drop(
        wheel
            .advance(299)
            .take(100)
            .map(|(_, value)| value)
            .collect::<Vec<Counted>>(),
    );
    assert_eq!(dropped.get(), 201);
    drop(wheel);
    assert_eq!(dropped.get(), 1000);
}

#[test]
fn a_value_that_uses_the_wheel_as_it_is_dropped() {
    struct Chained(Rc<Wheel<Option<Chained>>>, Key);
    impl Drop for Chained {
        fn drop(&mut self) {
            self.0.cancel(self.1);
            self.0.insert(0, None);
        }
    }

    let wheel = Rc::new(Wheel::new(0));
    let mut last = wheel.insert(1000, None);
    for i in 0..100 {
        last = wheel.insert(i, Some(Chained(wheel.clone(), last)));
    }
    assert!(wheel.cancel(last).unwrap().is_some());
    assert_eq!(wheel.len(), 100);
    // One that is cancelled drops the next one, and so on.
    assert!(!due(&wheel, 1).is_empty());
    wheel.take_all().for_each(drop);
    assert!(wheel.is_empty());
}

#[test]
fn a_wheel_can_be_moved() {
    let mut wheel = Wheel::new(0);
    let keys: Vec<Key> = (0..1000).map(|i| wheel.insert(i, i)).collect();
    let moved = std::mem::replace(&mut wheel, Wheel::new(0));

    // A key of another wheel is none.
    for i in 0..1000 {
        wheel.insert(i, i + 5000);
    }
    assert!(keys
        .iter()
        .all(|&key| !wheel.contains(key) && wheel.cancel(key).is_none()));
    let mut moved = std::thread::spawn(move || {
        assert_eq!(moved.advance(499).count(), 500);
        moved
    })
    .join()
    .unwrap();
    *moved.get_mut(keys[500]).unwrap() = 7;
    assert_eq!(moved.get_mut(keys[0]), None);
    assert_eq!(moved.cancel(keys[500]), Some(7));
    assert_eq!(moved.len(), 499);
}

#[test]
fn slots_are_checked() {
    for bad in [&[][..], &[1], &[2; 9], &[4096], &[2048; 8]] {
        let error = Wheel::<()>::with_slots(0, bad).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
    let day = Wheel::with_slots(0, &[60, 60, 24]).unwrap();
    for second in (0..200_000).step_by(97) {
        day.insert(second, second);
    }
    for now in 0..200_000 {
        assert_eq!(
            due(&day, now),
            if now % 97 == 0 { vec![now] } else { vec![] }
        );
    }
}

#[test]
fn values_of_any_size() {
    let nothing = Wheel::new(0);
    let large = Wheel::new(0);
    let aligned = Wheel::new(0);

    #[derive(PartialEq, Debug)]
    #[repr(align(64))]
    struct Aligned(u8);
    for i in 0..1000 {
        nothing.insert(i, ());
        large.insert(i, [i; 100]);
        aligned.insert(i, Aligned(i as u8));
    }
    assert_eq!(nothing.advance(998).count(), 999);
    assert_eq!(large.advance(998).count(), 999);
    assert_eq!(due(&large, 999), [[999; 100]]);
    assert_eq!(aligned.advance(998).count(), 999);
    for value in due(&aligned, 999) {
        assert_eq!(&value as *const Aligned as usize % 64, 0);
        assert_eq!(value, Aligned((999 % 256) as u8));
    }
}
