// SPDX-License-Identifier: MIT

use std::time::{Duration, Instant};

/// Ticks of real time, for a [`Wheel`](crate::Wheel) that wants some.
///
/// The time that it is is rounded down, and a deadline is rounded up: so nothing is early, and
/// nothing is late by more than a tick.
///
/// ```
/// use htw::{TickClock, Wheel};
/// use std::time::Duration;
///
/// let clock = TickClock::new(Duration::from_millis(1));
/// let wheel = Wheel::new(clock.now());
/// wheel.insert(clock.after(Duration::from_millis(2)), "tea");
/// while !wheel.is_empty() {
///     // A reactor would give this to poll() or epoll_wait().
///     if let Some(pause) = clock.until(wheel.next_deadline()) {
///         std::thread::sleep(pause);
///     }
///     for (_key, what) in wheel.advance(clock.now()) {
///         println!("{}", what);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    start: Instant,
    tick: u64,
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

impl TickClock {
    /// A clock that stands at tick 0 now. Panics if a tick is zero, or longer than 584 years.
    pub fn new(tick: Duration) -> TickClock {
        let tick = tick.as_nanos().try_into().expect("a tick that long");

        assert!(tick > 0, "a tick is longer than nothing");
        TickClock {
            start: Instant::now(),
            tick,
        }
    }

    /// The present tick: the last one that has come.
    pub fn now(&self) -> u64 {
        ns(self.start.elapsed()) / self.tick
    }

    /// The first tick that is not before a point in time; 0 if that is before the clock's start.
    pub fn at(&self, when: Instant) -> u64 {
        let ns = ns(when.saturating_duration_since(self.start));

        ns / self.tick + u64::from(ns % self.tick != 0)
    }

    /// The first tick that is not before the end of a delay.
    pub fn after(&self, delay: Duration) -> u64 {
        let ns = ns(self.start.elapsed()).saturating_add(ns(delay));

        ns / self.tick + u64::from(ns % self.tick != 0)
    }

    /// How long it is until a tick; nothing if it has come. `None` for `None`: for ever.
    pub fn until(&self, tick: Option<u64>) -> Option<Duration> {
        let ns = tick?.saturating_mul(self.tick);

        Some(Duration::from_nanos(ns).saturating_sub(self.start.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_deadlines_up_and_the_present_down() {
        let clock = TickClock::new(Duration::from_nanos(1000));

        assert_eq!(clock.at(clock.start), 0);
        assert_eq!(clock.at(clock.start + Duration::from_nanos(1)), 1);
        assert_eq!(clock.at(clock.start + Duration::from_nanos(1000)), 1);
        assert_eq!(clock.at(clock.start + Duration::from_nanos(1001)), 2);
        let before = clock.now();
        let deadline = clock.after(Duration::from_nanos(1500));
        assert!(deadline >= before + 2);
        assert!(clock.after(Duration::MAX) > 1 << 50);
    }

    #[test]
    fn waits_until_a_tick() {
        let clock = TickClock::new(Duration::from_secs(1000));

        assert_eq!(clock.until(None), None);
        assert_eq!(clock.until(Some(0)), Some(Duration::ZERO));
        let left = clock.until(Some(1)).unwrap();
        assert!(left > Duration::from_secs(900) && left <= Duration::from_secs(1000));
        assert!(clock.until(Some(u64::MAX)).unwrap() > Duration::from_secs(1 << 33));
    }

    #[test]
    #[should_panic(expected = "longer than nothing")]
    fn no_tick_of_nothing() {
        TickClock::new(Duration::ZERO);
    }
}
