//! How often each endpoint was asked, and how it went.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::model::admin::micro::EndpointStats;
use crate::model::admin::{ENDPOINTS, Endpoint, Problem};

#[derive(Default)]
pub(super) struct Tallies([Mutex<Tally>; ENDPOINTS.len()]);

#[derive(Clone, Default)]
struct Tally {
    requests: u64,
    errors: u64,
    time: Duration,
    last_error: String,
}

impl Tallies {
    pub fn note(&self, endpoint: Endpoint, took: Duration, problem: Option<&Problem>) {
        let places = ENDPOINTS.iter().zip(&self.0);
        for (_, tally) in places.filter(|(it, _)| **it == endpoint) {
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.requests += 1;
            tally.time += took;
            if let Some(problem) = problem {
                tally.errors += 1;
                tally.last_error = format!("{}:{}", problem.code.number(), problem.reason);
            }
        }
    }

    pub fn stats(&self, subject: impl Fn(Endpoint) -> String) -> Vec<EndpointStats> {
        let places = ENDPOINTS.iter().zip(&self.0);
        places
            .map(|(endpoint, tally)| {
                let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                let tally = tally.clone();
                let nanos = u64::try_from(tally.time.as_nanos()).unwrap_or(u64::MAX);
                EndpointStats {
                    name: endpoint.verb.as_str().into(),
                    subject: subject(*endpoint),
                    queue_group: String::new(),
                    num_requests: tally.requests,
                    num_errors: tally.errors,
                    last_error: tally.last_error,
                    processing_time: nanos,
                    average_processing_time: nanos.checked_div(tally.requests).unwrap_or(0),
                }
            })
            .collect()
    }
}
