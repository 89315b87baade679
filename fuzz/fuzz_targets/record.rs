#![no_main]

use libfuzzer_sys::fuzz_target;
use nats_elect::fuzzing::record;

fuzz_target!(|data: &[u8]| record::holds(data));
