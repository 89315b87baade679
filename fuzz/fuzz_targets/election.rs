#![no_main]

use libfuzzer_sys::fuzz_target;
use nats_elect_fuzz::election;

fuzz_target!(|data: &[u8]| election::holds(data));
