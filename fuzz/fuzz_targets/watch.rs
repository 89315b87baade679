#![no_main]

use libfuzzer_sys::fuzz_target;
use nats_elect::fuzzing::watch;

fuzz_target!(|data: &[u8]| watch::holds(data));
