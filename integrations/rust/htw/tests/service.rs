// SPDX-License-Identifier: MIT
//! Futures, by tokio; what its own timers promise is promised here. Timers are those of
//! `$HTW_BACKEND`: `process`, which is the default, or `device`.

use htw::service::{Driver, Service};
use htw::{Backend, Clock, Options};
use std::future::{pending, ready, Future};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{env, io, thread};
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn options() -> Options {
    Options::new().backend(match env::var("HTW_BACKEND").as_deref() {
        Ok("device") => Backend::Device,
        Ok("process") | Err(_) => Backend::Process,
        Ok(other) => panic!("HTW_BACKEND={}", other),
    })
}

async fn drive(driver: Driver) -> io::Result<()> {
    let fd = AsyncFd::new(driver)?;

    loop {
        let mut ready = fd.readable().await?;
        if fd.get_ref().turn()? {
            ready.clear_ready();
        }
    }
}

/// A runtime with so many workers, and a service with a shard for each.
fn start(workers: usize, options: &Options) -> (Runtime, Service) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap();
    let (timers, drivers) = Service::open(workers, options).unwrap();

    for driver in drivers {
        runtime.spawn(drive(driver));
    }
    (runtime, timers)
}

/// Counts how often it was woken.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Poll a future once, for a task that counts.
fn poll_once<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Poll<F::Output> {
    let waker: Waker = count.clone().into();

    std::pin::Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn sleeps_are_never_early() {
    for exact in [false, true] {
        let (runtime, timers) = start(2, &options().exact(exact));
        let tasks: Vec<_> = (0..500)
            .map(|i| {
                let timers = timers.clone();
                runtime.spawn(async move {
                    let deadline = Instant::now() + Duration::from_micros(i * 137);
                    timers.sleep_until(deadline).await.unwrap();
                    assert!(Instant::now() >= deadline);
                })
            })
            .collect();

        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        assert!(timers.is_empty());
    }
}

#[test]
fn what_has_come_is_ready_at_once() {
    // There is no driver's task: nothing waits.
    let (timers, _drivers) = Service::open(1, &options()).unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));

    assert!(poll_once(&mut timers.sleep(Duration::ZERO), &count).is_ready());
    assert!(poll_once(&mut timers.sleep_until(Instant::now() - MS), &count).is_ready());
    let mut answer = timers.timeout(Duration::ZERO, ready(42));
    assert_eq!(
        poll_once(&mut answer, &count).map(Result::unwrap),
        Poll::Ready(42)
    );
    let mut late = timers.timeout(Duration::ZERO, pending::<()>());
    match poll_once(&mut late, &count) {
        Poll::Ready(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
        other => panic!("{:?}", other),
    }
    assert_eq!(
        poll_once(&mut timers.timeout(HOUR, ready(7)).into_inner(), &count),
        Poll::Ready(7)
    );
    assert!(timers.is_empty());
}

#[test]
fn a_timeout_ends_what_takes_too_long() {
    let (runtime, timers) = start(2, &options());

    runtime.block_on(async {
        let begin = Instant::now();
        let result = timers.timeout(20 * MS, pending::<()>()).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() >= 20 * MS);
        let value = timers.timeout(HOUR, async {
            timers.sleep(5 * MS).await.unwrap();
            "done"
        });
        assert_eq!(value.await.unwrap(), "done");
        assert!(timers.is_empty());
    });
}

#[test]
fn what_is_dropped_leaves_nothing() {
    let (timers, drivers) = Service::open(1, &options()).unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let mut sleeps: Vec<_> = (0..1000).map(|_| timers.sleep(2000 * MS)).collect();

    for sleep in &mut sleeps {
        assert!(poll_once(sleep, &count).is_pending());
    }
    assert_eq!(timers.len(), 1000);
    assert_eq!(Arc::strong_count(&count), 1001);
    // By another thread than the one that started them.
    thread::spawn(move || drop(sleeps)).join().unwrap();
    assert!(timers.is_empty());
    assert_eq!(Arc::strong_count(&count), 1);
    thread::sleep(2010 * MS);
    assert!(drivers[0].turn().unwrap());
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
}

#[test]
fn the_last_task_is_woken() {
    let (timers, drivers) = Service::open(1, &options()).unwrap();
    let first = Arc::new(Count(AtomicUsize::new(0)));
    let last = Arc::new(Count(AtomicUsize::new(0)));
    let mut sleep = timers.sleep(200 * MS);

    assert!(poll_once(&mut sleep, &first).is_pending());
    assert!(poll_once(&mut sleep, &last).is_pending());
    assert_eq!(Arc::strong_count(&first), 1);
    while !timers.is_empty() {
        thread::sleep(MS);
        assert!(drivers[0].turn().unwrap());
    }
    assert_eq!(first.0.load(Ordering::SeqCst), 0);
    assert_eq!(last.0.load(Ordering::SeqCst), 1);
    assert!(poll_once(&mut sleep, &first).is_ready());
    // It can be used again.
    sleep.reset(Instant::now() + HOUR);
    assert!(poll_once(&mut sleep, &first).is_pending());
    assert_eq!(timers.len(), 1);
}

#[test]
fn a_sleep_can_be_moved() {
    let (runtime, timers) = start(2, &options());

    runtime.block_on(async {
        // Put off again and again.
        let mut sleep = timers.sleep(10 * MS);
        let mut last = Instant::now();
        for _ in 0..20 {
            let early = tokio::select! {
                _ = &mut sleep => true,
                _ = tokio::time::sleep(2 * MS) => false,
            };
            if !early {
                last = Instant::now() + 10 * MS;
                sleep.reset(last);
            }
        }
        sleep.await.unwrap();
        assert!(Instant::now() >= last);

        // Earlier.
        let mut sleep = timers.sleep(HOUR);
        tokio::select! {
            _ = &mut sleep => panic!("an hour early"),
            _ = tokio::time::sleep(MS) => {}
        }
        sleep.reset(Instant::now() + MS);
        sleep.await.unwrap();
        assert!(timers.is_empty());
    });
}

#[test]
fn without_a_driver_it_fails() {
    let (timers, drivers) = Service::open(1, &options()).unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let mut sleep = timers.sleep(HOUR);

    assert!(poll_once(&mut sleep, &count).is_pending());
    drop(drivers);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    for mut sleep in [sleep, timers.sleep(HOUR)] {
        match poll_once(&mut sleep, &count) {
            Poll::Ready(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
            other => panic!("{:?}", other),
        }
    }
    assert!(timers.is_empty());
}

#[test]
fn a_limit_is_an_error() {
    let (timers, _drivers) = Service::open(1, &options().limit(1)).unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let mut first = timers.sleep(HOUR);

    assert!(poll_once(&mut first, &count).is_pending());
    let mut second = timers.timeout(HOUR, pending::<()>());
    match poll_once(&mut second, &count) {
        Poll::Ready(Err(error)) => assert_eq!(error.raw_os_error(), Some(libc::ENOSPC)),
        other => panic!("{:?}", other),
    }
    drop(first);
    assert!(poll_once(&mut second, &count).is_pending());
}

#[test]
fn not_every_clock_will_do() {
    for clock in [Clock::Manual, Clock::Realtime, Clock::Boottime] {
        let error = Service::open(1, &options().clock(clock)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    assert!(Service::open(0, &options()).is_err());
}

#[test]
fn very_late_is_for_ever() {
    let (timers, _drivers) = Service::open(1, &options()).unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let mut sleep = timers.sleep(Duration::MAX);

    assert!(sleep.deadline() > Instant::now() + 1000 * 24 * HOUR);
    assert!(poll_once(&mut sleep, &count).is_pending());
}

/// Tasks that sleep for no time again and again, on few timers, do not keep others waiting.
#[test]
fn tasks_that_sleep_all_the_time() {
    let (runtime, timers) = start(2, &options());
    let busy: Vec<_> = (0..10)
        .map(|_| {
            let timers = timers.clone();
            runtime.spawn(async move {
                loop {
                    timers.sleep(Duration::from_nanos(100)).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();

    runtime.block_on(async {
        for _ in 0..10 {
            timers.sleep(2 * MS).await.unwrap();
        }
    });
    busy.iter().for_each(|task| task.abort());
}

/// 20,000 at once: more than are woken for a time that the lock is taken, from all workers, some
/// cancelled by others.
#[test]
fn many_at_once() {
    let (runtime, timers) = start(2, &options());
    let fired = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    tasks.extend((0..20_000).map(|i| {
        let (timers, fired) = (timers.clone(), fired.clone());
        runtime.spawn(async move {
            timers
                .sleep(if i % 4 == 0 { HOUR } else { 30 * MS })
                .await
                .unwrap();
            fired.fetch_add(1, Ordering::SeqCst);
        })
    }));

    for (i, task) in tasks.into_iter().enumerate() {
        if i % 4 == 0 {
            task.abort();
        }
        assert_eq!(runtime.block_on(task).is_err(), i % 4 == 0);
    }
    assert_eq!(fired.load(Ordering::SeqCst), 15_000);
    assert!(timers.is_empty());
}
