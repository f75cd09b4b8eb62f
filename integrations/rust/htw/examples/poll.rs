// SPDX-License-Identifier: MIT
//! Timers beside other descriptors, in a loop by poll(): what mio and epoll do as well.

use htw::{Options, Timers};
use std::io;
use std::os::unix::io::{AsFd, AsRawFd};
use std::time::Duration;

fn main() -> io::Result<()> {
    let timers: Timers<&str> = Options::new().open()?;
    let slow = timers.add(Duration::from_millis(500), "slow")?;

    timers.add(Duration::from_millis(10), "first")?;
    timers.add(Duration::from_millis(20), "second")?;
    while !timers.is_empty() {
        let mut poll = [libc::pollfd {
            fd: timers.as_fd().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        // SAFETY: an array of one.
        if unsafe { libc::poll(poll.as_mut_ptr(), 1, -1) } < 0 {
            return Err(io::Error::last_os_error());
        }
        for due in timers.drain() {
            let (_id, what) = due?;
            println!("{}", what);
            if what == "second" {
                println!("cancelled: {:?}", timers.cancel(slow));
            }
        }
    }
    Ok(())
}
