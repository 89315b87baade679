//! The number of requests per endpoint, and their outcomes.

use std::sync::Mutex;
use std::time::Duration;

use crate::lock::lock;
use crate::model::admin::micro::EndpointStats;
use crate::model::admin::{ENDPOINTS, Endpoint, Problem};

#[derive(Default)]
pub(super) struct Counters([Mutex<Counter>; ENDPOINTS.len()]);

#[derive(Clone, Default)]
struct Counter {
    requests: u64,
    errors: u64,
    time: Duration,
    last_error: String,
}

impl Counters {
    pub fn note(&self, endpoint: Endpoint, took: Duration, problem: Option<&Problem>) {
        let places = ENDPOINTS.iter().zip(&self.0);
        for (_, counter) in places.filter(|(it, _)| **it == endpoint) {
            let mut counter = lock(counter);
            counter.requests += 1;
            counter.time += took;
            if let Some(problem) = problem {
                counter.errors += 1;
                counter.last_error = format!("{}:{}", problem.code.number(), problem.reason);
            }
        }
    }

    pub fn stats(
        &self,
        has_groups: bool,
        subject: impl Fn(Endpoint) -> String,
    ) -> Vec<EndpointStats> {
        let places = ENDPOINTS.iter().zip(&self.0);
        places
            .filter(|(endpoint, _)| endpoint.is_answered(has_groups))
            .map(|(endpoint, counter)| {
                let counter = lock(counter).clone();
                let nanos = u64::try_from(counter.time.as_nanos()).unwrap_or(u64::MAX);
                // Beyond it readers would round: after a hundred days.
                let nanos = nanos.min(1 << 53);
                EndpointStats {
                    name: endpoint.verb.as_str().into(),
                    subject: subject(*endpoint),
                    queue_group: String::new(),
                    num_requests: counter.requests,
                    num_errors: counter.errors,
                    last_error: counter.last_error,
                    processing_time: nanos,
                    average_processing_time: nanos.checked_div(counter.requests).unwrap_or(0),
                }
            })
            .collect()
    }
}
