// SPDX-License-Identifier: MIT
//! `sleep` and `timeout` as futures, for every executor: a shard of timers for each worker.
//!
//! A [`Service`] has some shards, and each thread starts its timers in one of them: with as many
//! shards as workers, none waits for another. Each has a [`Driver`], a descriptor that something
//! must wait for: when it is readable, [`Driver::turn`] wakes the tasks whose time has come. With
//! tokio that is a task:
//!
//! ```no_run
//! use htw::{service::{Driver, Service}, Options};
//! use std::{io, time::Duration};
//! use tokio::io::unix::AsyncFd;
//!
//! async fn drive(driver: Driver) -> io::Result<()> {
//!     let fd = AsyncFd::new(driver)?;
//!     loop {
//!         let mut ready = fd.readable().await?;
//!         if fd.get_ref().turn()? {
//!             ready.clear_ready();
//!         }
//!     }
//! }
//!
//! #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
//! async fn main() -> io::Result<()> {
//!     let (timers, drivers) = Service::open(2, &Options::new().limit(1 << 24))?;
//!     for driver in drivers {
//!         tokio::spawn(drive(driver));
//!     }
//!
//!     timers.sleep(Duration::from_millis(5)).await?;
//!     let answer = timers.timeout(Duration::from_secs(1), async { 42 }).await?;
//!     assert_eq!(answer, 42);
//!     Ok(())
//! }
//! ```
//!
//! A future that is dropped cancels its timer, in O(1), and leaves nothing behind. One that is
//! ready when it is first polled starts none. Timers with [`Options::exact`] have a tick of 10 µs.
//!
//! Futures can go to another thread, and so can a service, of which each clone is the same one:
//!
//! ```
//! fn is_send<T: Send>(_: &T) {}
//! fn is_sync<T: Sync>(_: &T) {}
//!
//! let (timers, drivers) = htw::service::Service::open(1, &htw::Options::new())?;
//! let second = std::time::Duration::from_secs(1);
//! is_send(&timers);
//! is_sync(&timers);
//! is_send(&drivers);
//! is_sync(&drivers);
//! is_send(&timers.sleep(second));
//! is_send(&timers.timeout(second, async {}));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! But not that of a future which cannot:
//!
//! ```compile_fail
//! fn is_send<T: Send>(_: &T) {}
//!
//! let (timers, _drivers) = htw::service::Service::open(1, &htw::Options::new())?;
//! let second = std::time::Duration::from_secs(1);
//! let mine = std::rc::Rc::new(());
//! is_send(&timers.timeout(second, async move { std::future::pending::<()>().await; drop(mine) }));
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::{AddError, Id, Options, Timers};
use std::collections::VecDeque;
use std::future::Future;
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use std::{fmt, io, mem};

/// Tasks that are woken for each time that the lock is taken.
const WAKES: usize = 256;

/// Timers of a worker. On cache lines of its own.
#[repr(align(128))]
struct Shard {
    state: Mutex<State>,
    /// That of the timers, which live as long.
    fd: RawFd,
}

struct State {
    /// Those that have started, with the tasks to be woken.
    timers: Timers<Waker>,
    /// The driver has gone: nobody would wake a task.
    closed: bool,
}

impl Shard {
    /// Nothing panics while it is locked, and nothing of the user's runs.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Timers for futures, in as many shards as there are workers.
#[derive(Clone)]
pub struct Service {
    shards: Arc<[Arc<Shard>]>,
}

/// A number for each thread that starts timers, one after the other.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));

    // A thread that ends has no number any more; any shard will do.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

impl Service {
    /// Open a service of so many shards, at least one, and their drivers. The options are those of
    /// each shard, its limit among them. The clock must be
    /// [`Clock::Monotonic`](crate::Clock::Monotonic), which is that of `Instant`.
    pub fn open(shards: usize, options: &Options) -> io::Result<(Service, Vec<Driver>)> {
        if !options.is_monotonic() || shards == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let shards = (0..shards)
            .map(|_| {
                let timers: Timers<Waker> = options.open()?;
                let fd = timers.as_raw_fd();
                Ok(Arc::new(Shard {
                    state: Mutex::new(State {
                        timers,
                        closed: false,
                    }),
                    fd,
                }))
            })
            .collect::<io::Result<Vec<_>>>()?;
        let drivers = shards
            .iter()
            .map(|shard| Driver {
                shard: shard.clone(),
                due: Mutex::new(VecDeque::with_capacity(WAKES)),
            })
            .collect();

        Ok((
            Service {
                shards: shards.into(),
            },
            drivers,
        ))
    }

    /// A future that is ready when a time has passed.
    pub fn sleep(&self, after: Duration) -> Sleep {
        // Some 30 years are for ever, where an Instant cannot be so late.
        let now = Instant::now();
        let deadline = now
            .checked_add(after)
            .unwrap_or_else(|| now + Duration::from_secs(1 << 30));

        self.sleep_until(deadline)
    }

    /// A future that is ready at a point in time.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        let shard = self.shards[thread_number() % self.shards.len()].clone();

        Sleep {
            shard,
            deadline,
            timer: None,
        }
    }

    /// A future that is what another one is, or `ErrorKind::TimedOut` if that is not ready after a
    /// time. It is asked first, so one that is ready is never late.
    pub fn timeout<F: Future>(&self, after: Duration, future: F) -> Timeout<F> {
        Timeout {
            sleep: self.sleep(after),
            future,
        }
    }

    /// Timers that are pending, in all shards.
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().timers.len())
            .sum()
    }

    /// Is none pending?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

/// What wakes the tasks of a shard: see the [module](self).
///
/// When it is dropped, the futures of its shard are woken, and fail with `ErrorKind::BrokenPipe`.
pub struct Driver {
    shard: Arc<Shard>,
    /// Tasks that are to be woken. Its memory is kept.
    due: Mutex<VecDeque<Waker>>,
}

impl Driver {
    /// Wake the tasks whose time has come. To be called when the descriptor is readable.
    ///
    /// `true`: all that was due; an edge-triggered loop waits for the next edge. `false`: there may
    /// be more, and it calls again, perhaps after others had their turn.
    pub fn turn(&self) -> io::Result<bool> {
        // Else it is another thread that does it, or a waker that calls us.
        let mut due = match self.due.try_lock() {
            Ok(due) => due,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        // Tasks that sleep again for no time do not keep us here.
        let mut left = self.shard.lock().timers.len() / WAKES + 2;

        while left > 0 {
            let mut error = None;
            {
                let state = self.shard.lock();
                for item in state.timers.drain().take(WAKES) {
                    match item {
                        Ok((_id, waker)) => due.push_back(waker),
                        Err(e) => error = Some(e),
                    }
                }
            }
            let all = due.is_empty();
            // One that panics leaves the others for the next call.
            while let Some(waker) = due.pop_front() {
                waker.wake();
            }
            if let Some(error) = error {
                return Err(error);
            }
            if all {
                return Ok(true);
            }
            left -= 1;
        }
        Ok(false)
    }
}

impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as the shard's timers are.
        unsafe { BorrowedFd::borrow_raw(self.shard.fd) }
    }
}

impl AsRawFd for Driver {
    fn as_raw_fd(&self) -> RawFd {
        self.shard.fd
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let all = {
            let mut state = self.shard.lock();
            state.closed = true;
            state.timers.take_all()
        };

        for (_id, waker) in all {
            waker.wake();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("fd", &self.shard.fd)
            .finish_non_exhaustive()
    }
}

/// See [`Service::sleep`]. Its result is an error only if no timer could be started, as at a limit,
/// or if its driver has gone.
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    shard: Arc<Shard>,
    deadline: Instant,
    timer: Option<Id>,
}

impl Sleep {
    /// When it is ready.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Give it another time, as at each message of a connection; also after it was ready.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if let Some(timer) = self.timer {
            let after = deadline.saturating_duration_since(Instant::now());
            // If it has come, or cannot be moved, the next poll starts another one.
            if !matches!(self.shard.lock().timers.rearm(timer, after), Ok(true)) {
                self.cancel();
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(timer) = self.timer.take() {
            let waker = self.shard.lock().timers.cancel(timer);
            // Not under the lock.
            drop(waker);
        }
    }
}

impl Future for Sleep {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let now = Instant::now();

        if now >= this.deadline {
            this.cancel();
            return Poll::Ready(Ok(()));
        }
        // Cloned, and the old one dropped, without the lock.
        let waker = cx.waker().clone();
        let old;
        {
            let mut state = this.shard.lock();
            if let Some(pending) = this.timer.and_then(|timer| state.timers.get_mut(timer)) {
                old = Ok(Some(mem::replace(pending, waker)));
            } else if state.closed {
                old = Err(AddError {
                    value: waker,
                    error: io::ErrorKind::BrokenPipe.into(),
                });
            } else {
                // Not started yet; or moved after it had come.
                old = state.timers.add(this.deadline - now, waker).map(|timer| {
                    this.timer = Some(timer);
                    None
                });
            }
        }
        match old {
            Ok(_) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// See [`Service::timeout`].
#[must_use = "futures do nothing unless they are polled"]
#[derive(Debug)]
pub struct Timeout<F> {
    sleep: Sleep,
    future: F,
}

impl<F> Timeout<F> {
    /// The future, without a timeout from now on.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = io::Result<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<F::Output>> {
        // SAFETY: the future is not moved out of what is pinned, which has no Drop of its own.
        let (sleep, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.sleep, Pin::new_unchecked(&mut this.future))
        };

        if let Poll::Ready(value) = future.poll(cx) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(sleep)
            .poll(cx)
            .map(|result| result.and(Err(io::ErrorKind::TimedOut.into())))
    }
}
