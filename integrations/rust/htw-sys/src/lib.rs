// SPDX-License-Identifier: MIT
//! Declarations of libhtw, written by hand: functions, structures and constants of
//! `<libhtw.h>` and `<linux/htw.h>`, under their names there. That header documents them.
//!
//! `tests/header.rs` holds them against the header. The dispatcher is left out: it calls
//! functions of C, and a program in Rust has its own way to do that.
#![allow(non_camel_case_types)]

use std::os::raw::{c_int, c_uint};

/// A handle, of which only pointers exist here.
#[repr(C)]
pub struct htw {
    private: [u8; 0],
}

/// The type of an enumeration.
pub type htw_backend = c_uint;

/// Declare structures, and note their names and fields for the test.
macro_rules! structures {
    ($($(#[$note:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $($(#[$note])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name { $(pub $field: $type,)* })*

        /// Each structure with its size, and its fields with their offsets and sizes.
        #[doc(hidden)]
        #[allow(clippy::type_complexity)]
        pub fn structures() -> Vec<(&'static str, usize, Vec<(&'static str, usize, usize)>)> {
            vec![$({
                let value = $name::default();
                let begin = &value as *const $name as usize;
                let fields = vec![$((
                    stringify!($field),
                    &value.$field as *const $type as usize - begin,
                    std::mem::size_of::<$type>(),
                )),*];
                (stringify!($name), std::mem::size_of::<$name>(), fields)
            }),*]
        }
    };
}

structures! {
    /// For `htw_open()`.
    struct htw_setup_args {
        flags: u32,
        clock: i32,
        tick_ns: u64,
        limit: u64,
        event_size: u32,
        levels: u32,
        slots: [u32; 8],
    }

    /// From `htw_info()`.
    struct htw_info_args {
        features: u64,
        tick_ns: u64,
        limit: u64,
        timers: u64,
        bytes: u64,
        user_limit: u64,
        user_timers: u64,
        next: u64,
        clock: i32,
        flags: u32,
        event_size: u32,
        levels: u32,
        slots: [u32; 8],
    }

    /// For `htw_add()`.
    struct htw_add_args {
        id: u64,
        deadline: u64,
        interval: u64,
        slack: u64,
        cookie: u64,
        flags: u32,
        firings: u32,
    }

    /// For `htw_cancel()`.
    struct htw_cancel_args {
        id: u64,
        remaining: u64,
        cookie: u64,
        missed: u64,
        flags: u32,
        state: u32,
    }

    /// For `htw_mod()`.
    struct htw_mod_args {
        id: u64,
        deadline: u64,
        interval: u64,
        slack: u64,
        cookie: u64,
        flags: u32,
        firings: u32,
        state: u32,
        reserved: u32,
    }

    /// From `htw_query()`, `htw_list()` and `htw_harvest()`.
    struct htw_timer_info {
        id: u64,
        deadline: u64,
        remaining: u64,
        interval: u64,
        cookie: u64,
        missed: u64,
        firings: u32,
        state: u16,
        flags: u16,
    }

    /// From `htw_read()`.
    struct htw_event {
        id: u64,
        cookie: u64,
        deadline: u64,
        taken: u64,
        missed: u64,
        flags: u32,
        reserved: u32,
    }
}

/// Declare constants, and note their names and values for the test.
macro_rules! constants {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(pub const $name: $type = $value;)*

        #[doc(hidden)]
        pub const CONSTANTS: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),*];
    };
}

constants! {
    HTW_BACKEND_DEVICE: htw_backend = 1;
    HTW_BACKEND_PROCESS: htw_backend = 2;
    HTW_BACKEND_ANY: htw_backend = 3;
    HTW_SETUP_CLOCK: u32 = 1 << 0;
    HTW_SETUP_EXACT: u32 = 1 << 1;
    HTW_SETUP_ORDERED: u32 = 1 << 2;
    HTW_SETUP_PI: u32 = 0x8000_0000;
    HTW_CLOCK_MANUAL: i32 = 0x6874_7700;
    HTW_F_ABS: u32 = 1 << 0;
    HTW_F_KEEP: u32 = 1 << 1;
    HTW_F_PUT_OFF: u32 = 0x8000_0000;
    HTW_MOD_DEADLINE: u32 = 1 << 8;
    HTW_MOD_INTERVAL: u32 = 1 << 9;
    HTW_MOD_COOKIE: u32 = 1 << 10;
    HTW_MOD_SLACK: u32 = 1 << 11;
    HTW_STATE_PENDING: u32 = 1;
    HTW_STATE_DUE: u32 = 2;
    HTW_STATE_DISARMED: u32 = 3;
    HTW_EVENT_MORE: u32 = 1 << 0;
}

/// Declare functions, and note them for the test: each name with what stands in brackets.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        extern "C" {
            $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }

        #[doc(hidden)]
        pub const FUNCTIONS: &[(&str, &[&str], &str)] = &[
            $((stringify!($name), &[$(stringify!($type)),*], concat!($(stringify!($result))?))),*
        ];
    };
}

functions! {
    fn htw_open(htw: *mut *mut htw, backend: htw_backend, setup: *const htw_setup_args) -> c_int;
    fn htw_open_fd(htw: *mut *mut htw, fd: c_int) -> c_int;
    fn htw_close(htw: *mut htw);
    fn htw_shard(shard: *mut *mut htw, htw: *mut htw) -> c_int;
    fn htw_backend(htw: *const htw) -> htw_backend;
    fn htw_fd(htw: *const htw) -> c_int;
    fn htw_now(htw: *mut htw) -> u64;
    fn htw_info(htw: *mut htw, info: *mut htw_info_args) -> c_int;
    fn htw_reserve(htw: *mut htw, count: u64) -> c_int;
    fn htw_after(htw: *mut htw, ns: u64, cookie: u64, id: *mut u64) -> c_int;
    fn htw_timeout(htw: *mut htw, ns: u64, cookie: u64, id: *mut u64) -> c_int;
    fn htw_at(htw: *mut htw, when: u64, cookie: u64, id: *mut u64) -> c_int;
    fn htw_every(htw: *mut htw, first: u64, interval: u64, cookie: u64, id: *mut u64) -> c_int;
    fn htw_rearm(htw: *mut htw, id: u64, ns: u64) -> c_int;
    fn htw_stop(htw: *mut htw, id: u64) -> c_int;
    fn htw_add(htw: *mut htw, add: *mut htw_add_args) -> c_int;
    fn htw_cancel(htw: *mut htw, cancel: *mut htw_cancel_args) -> c_int;
    fn htw_mod(htw: *mut htw, arguments: *mut htw_mod_args) -> c_int;
    fn htw_query(htw: *mut htw, query: *mut htw_timer_info) -> c_int;
    fn htw_remaining(htw: *mut htw, id: u64, ns: *mut u64) -> c_int;
    fn htw_next_time(htw: *mut htw, when: *mut u64) -> c_int;
    fn htw_add_many(htw: *mut htw, common: *const htw_add_args, deadlines: *const u64,
        cookies: *const u64, ids: *mut u64, count: c_uint, results: *mut c_int) -> c_int;
    fn htw_rearm_many(htw: *mut htw, ids: *const u64, deadlines: *const u64, count: c_uint,
        flags: c_uint, results: *mut c_int) -> c_int;
    fn htw_stop_many(htw: *mut htw, ids: *const u64, count: c_uint, results: *mut c_int) -> c_int;
    fn htw_read(htw: *mut htw, events: *mut htw_event, count: c_uint) -> c_int;
    fn htw_wait(htw: *mut htw, timeout: i64) -> c_int;
    fn htw_cancel_all(htw: *mut htw) -> i64;
    fn htw_list(htw: *mut htw, cursor: *mut u64, entries: *mut htw_timer_info,
        count: c_uint) -> c_int;
    fn htw_list_in(htw: *mut htw, states: c_uint, cursor: *mut u64, entries: *mut htw_timer_info,
        count: c_uint) -> c_int;
    fn htw_harvest(htw: *mut htw, cursor: *mut u64, entries: *mut htw_timer_info,
        count: c_uint) -> c_int;
    fn htw_advance(htw: *mut htw, ns: u64, flags: c_uint) -> c_int;
    fn htw_put_off(htw: *mut htw, id: u64, when: u64) -> c_int;
}
