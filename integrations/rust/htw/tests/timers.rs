// SPDX-License-Identifier: MIT
//! Timers, with those of `$HTW_BACKEND`: `process`, which is the default, or `device`.

use htw::{Backend, Clock, Id, Options, Timers};
use std::os::unix::io::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use std::{env, io};

const SECOND: Duration = Duration::from_secs(1);

fn backend() -> Backend {
    match env::var("HTW_BACKEND").as_deref() {
        Ok("device") => Backend::Device,
        Ok("process") | Err(_) => Backend::Process,
        Ok(other) => panic!("HTW_BACKEND={}", other),
    }
}

/// On a clock that only the test moves.
fn manual<T>() -> Timers<T> {
    Options::new()
        .backend(backend())
        .clock(Clock::Manual)
        .open()
        .unwrap()
}

fn due<T>(timers: &Timers<T>) -> Vec<T> {
    timers.drain().map(|item| item.unwrap().1).collect()
}

/// Is the descriptor readable?
fn readable<T>(timers: &Timers<T>, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd {
        fd: timers.as_fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };

    assert!(unsafe { libc::poll(&mut poll, 1, timeout_ms) } >= 0);
    poll.revents & libc::POLLIN != 0
}

#[test]
fn opens_what_is_asked_for() {
    let timers: Timers<()> = Timers::open(backend()).unwrap();
    assert_eq!(timers.backend(), backend());
    assert!(timers.tick().unwrap() <= Duration::from_millis(10));
    let exact: Timers<()> = Options::new()
        .backend(backend())
        .exact(true)
        .open()
        .unwrap();
    assert_eq!(exact.tick().unwrap(), Duration::from_micros(10));
    let both = Options::new()
        .backend(backend())
        .exact(true)
        .tick(SECOND)
        .open::<()>();
    assert_eq!(both.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    let ns = Options::new()
        .backend(backend())
        .tick(Duration::from_nanos(10))
        .open::<()>();
    assert!(matches!(
        ns.unwrap_err().raw_os_error(),
        Some(libc::ERANGE) | Some(libc::EPERM)
    ));
    assert!(format!("{:?}", exact).contains("len: 0"));
}

#[test]
fn adds_cancels_and_drains() {
    let timers = manual();
    let first = timers.add(SECOND * 30, "first".to_string()).unwrap();
    let second = timers.add_at(SECOND * 10, "second".to_string()).unwrap();
    let third = timers.add(SECOND * 20, "third".to_string()).unwrap();

    assert_eq!(timers.len(), 3);
    assert!(timers.next_time().unwrap().unwrap() <= SECOND * 10);
    assert_eq!(timers.cancel(third).as_deref(), Some("third"));
    assert_eq!(timers.cancel(third), None);
    assert!(!timers.advance(SECOND * 9).unwrap());
    assert!(due(&timers).is_empty() && !readable(&timers, 0));
    assert!(timers.advance(SECOND).unwrap());
    assert!(readable(&timers, 0));
    let all: Vec<(Id, String)> = timers.drain().map(Result::unwrap).collect();
    assert_eq!(all, [(second, "second".to_string())]);
    assert!(!readable(&timers, 0));
    assert_eq!(timers.cancel(second), None);
    assert!(!timers.rearm(second, SECOND).unwrap());
    assert!(timers.rearm(first, SECOND).unwrap());
    timers.advance(SECOND).unwrap();
    assert_eq!(due(&timers), ["first"]);
    assert!(timers.is_empty());
    assert_eq!(timers.next_time().unwrap(), None);
    assert_eq!(timers.now(), SECOND * 11);
}

#[test]
fn due_timers_can_be_cancelled_and_moved() {
    let timers = manual();
    let ids: Vec<Id> = (0..300).map(|i| timers.add(SECOND, i).unwrap()).collect();

    timers.advance(SECOND).unwrap();
    let mut taken = Vec::new();
    for item in timers.drain() {
        let (id, i) = item.unwrap();
        assert_eq!(id, ids[i]);
        assert_eq!(timers.cancel(id), None);
        taken.push(i);
        if i == 0 {
            // Their events have been read with that of the first, or have not.
            for j in (1..300).step_by(3) {
                assert_eq!(timers.cancel(ids[j]), Some(j));
                assert!(timers.rearm(ids[j + 1], SECOND).unwrap());
            }
        }
    }
    assert_eq!(taken, (0..300).step_by(3).collect::<Vec<usize>>());
    assert_eq!(timers.len(), 100);
    assert!(due(&timers).is_empty());
    timers.advance(SECOND).unwrap();
    assert_eq!(due(&timers), (2..300).step_by(3).collect::<Vec<usize>>());
}

#[test]
fn a_loop_that_is_left_loses_nothing() {
    let timers = manual();

    for i in 0..300 {
        timers.add(SECOND, i).unwrap();
    }
    timers.advance(SECOND).unwrap();
    let mut taken = Vec::new();
    while taken.len() < 300 {
        // As long as something is left the descriptor says so.
        assert!(readable(&timers, 1000) && timers.wait(Some(Duration::ZERO)).unwrap());
        assert!(timers.next_time().unwrap().unwrap() <= timers.now());
        taken.extend(timers.drain().take(70).map(|item| item.unwrap().1));
    }
    assert_eq!(taken, (0..300).collect::<Vec<i32>>());
    assert!(due(&timers).is_empty() && !readable(&timers, 0));
}

#[test]
fn a_loop_that_feeds_itself_ends() {
    let timers = manual();

    for i in 0..300 {
        timers.add(SECOND, i).unwrap();
    }
    timers.advance(SECOND).unwrap();
    let mut taken = 0;
    for item in timers.drain() {
        item.unwrap();
        timers.add(Duration::ZERO, 0).unwrap();
        taken += 1;
    }
    assert_eq!(taken, 300);
    assert_eq!(timers.len(), 300);
    assert!(readable(&timers, 1000));
    assert_eq!(due(&timers), [0; 300]);
}

#[test]
fn nothing_is_left_to_read_of_what_was_cancelled() {
    let timers = manual();
    let id = timers.add(SECOND, ()).unwrap();

    timers.advance(SECOND).unwrap();
    assert!(readable(&timers, 0));
    timers.cancel(id);
    assert!(due(&timers).is_empty());
    assert!(!readable(&timers, 0));
}

#[test]
fn puts_off() {
    let timers = manual();
    let id = timers.timeout(SECOND, "put off").unwrap();
    let plain = timers.add(SECOND * 5, "plain").unwrap();

    timers.advance(SECOND / 2).unwrap();
    assert!(timers.put_off(id, SECOND));
    assert!(!timers.put_off(plain, SECOND * 9));
    timers.advance(SECOND / 2).unwrap();
    assert!(due(&timers).is_empty());
    timers.advance(SECOND / 2).unwrap();
    assert_eq!(due(&timers), ["put off"]);
    assert!(!timers.put_off(id, SECOND));
}

#[test]
fn what_cannot_start_is_given_back() {
    let timers = Options::new()
        .backend(backend())
        .clock(Clock::Manual)
        .limit(2)
        .open()
        .unwrap();
    let first = timers.add(SECOND, "first".to_string()).unwrap();

    timers.add(SECOND, "second".to_string()).unwrap();
    let error = timers.add(SECOND, "third".to_string()).unwrap_err();
    assert_eq!(error.value, "third");
    assert_eq!(error.error.raw_os_error(), Some(libc::ENOSPC));
    assert!(error.to_string().starts_with("cannot start a timer: "));
    assert_eq!(io::Error::from(error).raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(
        timers.reserve(3).unwrap_err().raw_os_error(),
        Some(libc::ENOSPC)
    );
    timers.reserve(2).unwrap();
    assert_eq!(timers.cancel(first).as_deref(), Some("first"));
    timers.add(SECOND, "third".to_string()).unwrap();
    timers.advance(SECOND).unwrap();
    assert_eq!(due(&timers), ["second", "third"]);
}

#[test]
fn takes_all() {
    let timers = manual();
    let ids: Vec<Id> = (0..300)
        .map(|i| timers.add(SECOND * (i % 2), i).unwrap())
        .collect();

    assert_eq!(timers.drain().next().unwrap().unwrap().1, 0);
    let mut all = timers.take_all();
    all.sort();
    let expected: Vec<(Id, u32)> = (1..300).map(|i| (ids[i as usize], i)).collect();
    assert_eq!(all, expected);
    assert!(timers.is_empty());
    timers.advance(SECOND * 2).unwrap();
    assert!(due(&timers).is_empty());
    assert!(ids.iter().all(|&id| timers.cancel(id).is_none()));
}

#[test]
fn values_are_dropped_with_the_timers() {
    let value = std::rc::Rc::new(());
    let timers = manual();

    for _ in 0..10 {
        timers.add(SECOND, value.clone()).unwrap();
    }
    let mut timers = timers;
    let id = timers.add(SECOND, value.clone()).unwrap();
    assert_eq!(std::rc::Rc::strong_count(timers.get_mut(id).unwrap()), 12);
    drop(timers);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}

#[test]
fn never_early_in_real_time() {
    for exact in [false, true] {
        let timers = Options::new()
            .backend(backend())
            .exact(exact)
            .open()
            .unwrap();
        let begin = Instant::now();

        for i in 0..100 {
            let after = Duration::from_micros(i * 317);
            timers.add(after, begin + after).unwrap();
        }
        while !timers.is_empty() {
            assert!(timers.wait(None).unwrap());
            for item in timers.drain() {
                assert!(Instant::now() >= item.unwrap().1);
            }
        }
        assert!(!timers.wait(Some(Duration::from_millis(1))).unwrap());
    }
}

#[test]
fn other_threads_may_have_them() {
    let timers = manual();
    let id = timers.add(SECOND, vec![1]).unwrap();

    let timers = std::thread::spawn(move || {
        timers.add(SECOND, vec![2]).unwrap();
        timers
    })
    .join()
    .unwrap();
    assert_eq!(timers.cancel(id), Some(vec![1]));
    timers.advance(SECOND).unwrap();
    assert_eq!(due(&timers), [[2]]);
}

#[test]
fn a_child_of_fork_leaves_them_alone() {
    let timers = manual();
    let id = timers.add(SECOND, 7).unwrap();

    // SAFETY: the child calls nothing that needs other threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let refused = |result: io::Error| result.raw_os_error() == Some(libc::EPERM);
        let ok = timers
            .add(SECOND, 8)
            .map_or_else(|e| refused(e.error), |_| false)
            && timers.rearm(id, SECOND).map_or_else(refused, |_| false)
            && timers
                .drain()
                .next()
                .map_or(false, |item| item.map_or_else(refused, |_| false));
        drop(timers);
        unsafe { libc::_exit(if ok { 0 } else { 1 }) };
    }
    let mut status = 0;
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    timers.advance(SECOND).unwrap();
    assert_eq!(due(&timers), [7]);
}
