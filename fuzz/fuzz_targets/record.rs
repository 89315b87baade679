#![no_main]

use libfuzzer_sys::fuzz_target;
use nats_elect_fuzz::properties;

fuzz_target!(|data: &[u8]| properties::record::holds(data));
