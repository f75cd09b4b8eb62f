#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Run the cases of kunit/timer_cases.h with timer_list and with callouts, in a module.
# Runs in the VM; TAP.

insmod /lib/htw/htw_timers.ko || exit
said=$(cat /sys/kernel/debug/htw_timers)
echo "$said"
rmmod htw_timers || exit
case $said in
*'not ok'* | '') exit 1 ;;
esac
