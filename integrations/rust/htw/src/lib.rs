// SPDX-License-Identifier: MIT
//! Millions of timeouts: a timing wheel by itself, timers behind one descriptor, and `sleep` and
//! `timeout` for futures.
//!
//! * [`Wheel`] is a data structure: one thread, no clock, no lock, no system call. For a reactor
//!   that has a loop of its own.
//! * [`Timers`] are timers of libhtw, in the kernel or in the process, behind a descriptor that
//!   epoll, mio and tokio can wait for.
//! * [`service`] has futures, which work with every executor: a shard of timers for each worker.
//!
//! None is early, and starting, moving and cancelling one takes the same time whether a thousand
//! are pending or a million. The manual is `docs/rust.md` of htw.
#![warn(missing_docs, missing_debug_implementations)]

#[cfg(feature = "timers")]
pub mod service;
mod tick_clock;
#[cfg(feature = "timers")]
mod timers;
mod wheel;

pub use tick_clock::TickClock;
#[cfg(feature = "timers")]
pub use timers::{AddError, Backend, Clock, Drain, Id, Options, Timers};
pub use wheel::{Advance, InvalidSlots, Key, TakeAll, Wheel};
