#![no_main]

use libfuzzer_sys::fuzz_target;
use nats_elect::fuzzing::config;

fuzz_target!(|data: &[u8]| config::holds(data));
