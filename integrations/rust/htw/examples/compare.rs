// SPDX-License-Identifier: MIT
//! Compares timers: those of this crate, tokio's, `tokio_util`'s `DelayQueue` and a `BinaryHeap`.
//!
//! `compare [MOST]` prints a table as Markdown. Each of one or two workers has timeouts of its own.
//! It starts them all, cancels 95 of 100 in another order, and waits for the others, up to ten
//! times. Printed is what one costs from its start to its end: ns of CPU of the whole process, the
//! median of three turns, in which all that are compared take part.

use htw::service::{Driver, Service};
use htw::{Backend, Options, TickClock, Timers, Wheel};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{env, io, thread};
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio_util::time::DelayQueue;

const TURNS: usize = 3;
const STARTED: usize = 300_000;
const ROUNDS: usize = 10;
const TICK: Duration = Duration::from_millis(1);

/// The timeouts of a worker in a round: how long each is, in which order they are cancelled.
struct Plan {
    delays: Vec<Duration>,
    cancelled: Vec<usize>,
    rounds: usize,
}

impl Plan {
    fn new(count: usize, workers: usize) -> Plan {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let count = count / workers;
        // Hardly any comes before all have been started and cancelled.
        let least = 50_000 + 2 * count;
        let mut order: Vec<usize> = (0..count).collect();

        for n in (1..count).rev() {
            order.swap(n, random(n + 1));
        }
        order.truncate(count * 95 / 100);
        Plan {
            delays: (0..count)
                .map(|_| Duration::from_micros((least + random(least)) as u64))
                .collect(),
            cancelled: order,
            rounds: (STARTED / workers / count).clamp(1, ROUNDS),
        }
    }

    fn left(&self) -> usize {
        self.delays.len() - self.cancelled.len()
    }
}

fn wheel(plan: &Plan) {
    let clock = TickClock::new(TICK);
    let wheel = Wheel::new(clock.now());

    for _ in 0..plan.rounds {
        let keys: Vec<_> = plan
            .delays
            .iter()
            .enumerate()
            .map(|(n, delay)| wheel.insert(clock.after(*delay), n))
            .collect();
        for n in &plan.cancelled {
            assert_eq!(wheel.cancel(keys[*n]), Some(*n));
        }
        while !wheel.is_empty() {
            thread::sleep(clock.until(wheel.next_deadline()).unwrap());
            wheel.advance(clock.now()).for_each(drop);
        }
    }
}

/// What was cancelled stays in the heap until its time has come, as in many programs.
fn heap(plan: &Plan) {
    let mut heap = BinaryHeap::new();

    for _ in 0..plan.rounds {
        let mut live = vec![true; plan.delays.len()];
        for (n, delay) in plan.delays.iter().enumerate() {
            heap.push(Reverse((Instant::now() + *delay, n)));
        }
        for n in &plan.cancelled {
            live[*n] = false;
        }
        let mut came = 0;
        while let Some(Reverse((when, n))) = heap.peek().copied() {
            if live[n] {
                thread::sleep(when.saturating_duration_since(Instant::now()));
                came += 1;
            }
            heap.pop();
        }
        assert_eq!(came, plan.left());
    }
}

fn timers(plan: &Plan) {
    let options = Options::new().backend(Backend::Process).limit(1 << 24);
    let timers: Timers<usize> = options.open().unwrap();

    for _ in 0..plan.rounds {
        let ids: Vec<_> = plan
            .delays
            .iter()
            .enumerate()
            .map(|(n, delay)| timers.add(*delay, n).unwrap())
            .collect();
        for n in &plan.cancelled {
            assert_eq!(timers.cancel(ids[*n]), Some(*n));
        }
        while !timers.is_empty() {
            timers.wait(None).unwrap();
            timers.drain().for_each(drop);
        }
    }
}

/// `std::future::poll_fn`, which Rust has since 1.64.
struct PollFn<F>(F);

impl<T, F: FnMut(&mut Context<'_>) -> Poll<T> + Unpin> Future for PollFn<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        (self.0)(context)
    }
}

/// Futures: all are polled once, most are dropped, the rest are awaited.
async fn futures<F: Future>(plan: &Plan, sleep: impl Fn(Duration) -> F) {
    for _ in 0..plan.rounds {
        let mut all: Vec<_> = plan
            .delays
            .iter()
            .map(|delay| Some(Box::pin(sleep(*delay))))
            .collect();
        PollFn(|context: &mut Context<'_>| {
            for future in all.iter_mut().flatten() {
                let _ = future.as_mut().poll(context);
            }
            Poll::Ready(())
        })
        .await;
        for n in &plan.cancelled {
            all[*n] = None;
        }
        // Each has a task of its own in a program; here one after the other is awaited.
        for future in all.into_iter().flatten() {
            future.await;
        }
    }
}

async fn delay_queue(plan: &Plan) {
    let mut queue = DelayQueue::new();

    for _ in 0..plan.rounds {
        let keys: Vec<_> = plan
            .delays
            .iter()
            .enumerate()
            .map(|(n, delay)| queue.insert(n, *delay))
            .collect();
        for n in &plan.cancelled {
            queue.remove(&keys[*n]);
        }
        while PollFn(|context: &mut Context<'_>| queue.poll_expired(context))
            .await
            .is_some()
        {}
    }
}

fn threads(plan: &Plan, workers: usize, work: fn(&Plan)) {
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(plan));
        }
    });
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
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

type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Run a task for each worker, by a runtime with so many.
fn tasks(
    runtime: &Runtime,
    workers: usize,
    plan: &'static Plan,
    task: impl Fn(&'static Plan) -> Task<'static>,
) {
    let handles: Vec<_> = (0..workers).map(|_| runtime.spawn(task(plan))).collect();

    for handle in handles {
        runtime.block_on(handle).unwrap();
    }
}

fn tokio_sleep(plan: &'static Plan, workers: usize) {
    tasks(&runtime(workers), workers, plan, |plan| {
        Box::pin(futures(plan, tokio::time::sleep))
    });
}

fn tokio_util(plan: &'static Plan, workers: usize) {
    tasks(&runtime(workers), workers, plan, |plan| {
        Box::pin(delay_queue(plan))
    });
}

fn service(plan: &'static Plan, workers: usize) {
    let runtime = runtime(workers);
    let options = Options::new().backend(Backend::Process).limit(1 << 24);
    let (timers, drivers) = Service::open(workers, &options).unwrap();

    for driver in drivers {
        runtime.spawn(drive(driver));
    }
    tasks(&runtime, workers, plan, |plan| {
        let timers = timers.clone();
        Box::pin(async move { futures(plan, |delay| timers.sleep(delay)).await })
    });
}

fn cpu() -> Duration {
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) }, 0);
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);

    of(usage.ru_utime) + of(usage.ru_stime)
}

fn main() {
    let most: usize = env::args()
        .nth(1)
        .map_or(1_000_000, |n| n.parse().expect("a number"));
    type Run = fn(&'static Plan, usize);
    let all: [(&str, Run); 6] = [
        ("`Wheel`", |plan, workers| threads(plan, workers, wheel)),
        ("`BinaryHeap`", |plan, workers| threads(plan, workers, heap)),
        ("`Timers`, in the process", |plan, workers| {
            threads(plan, workers, timers)
        }),
        ("`service`, in the process", service),
        ("`tokio::time::sleep`", tokio_sleep),
        ("`tokio_util::time::DelayQueue`", tokio_util),
    ];
    let counts: Vec<usize> = [1_000, 10_000, 100_000, 1_000_000]
        .into_iter()
        .filter(|n| *n <= most)
        .collect();
    let mut rows = vec![String::new(); all.len()];

    print!("| workers |");
    for workers in [1, 2] {
        for count in &counts {
            print!(" {}, {} |", workers, count);
            let plan: &'static Plan = Box::leak(Box::new(Plan::new(*count, workers)));
            let started = (plan.delays.len() * plan.rounds * workers) as u128;
            let mut costs = vec![Vec::new(); all.len()];
            for _ in 0..TURNS {
                for (n, (_, run)) in all.iter().enumerate() {
                    let before = cpu();
                    run(plan, workers);
                    costs[n].push((cpu() - before).as_nanos() / started);
                }
            }
            for (n, cost) in costs.iter_mut().enumerate() {
                cost.sort_unstable();
                write!(rows[n], " {} |", cost[TURNS / 2]).expect("a String takes all");
            }
        }
    }
    println!("\n| --- |{}", " ---: |".repeat(2 * counts.len()));
    for (n, (name, _)) in all.iter().enumerate() {
        println!("| {} |{}", name, rows[n]);
    }
}
