#![no_main]

use libfuzzer_sys::fuzz_target;
use nats_elect::fuzzing::answer;

fuzz_target!(|data: &[u8]| answer::holds(data));
