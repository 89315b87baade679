//! The leader changes that a JetStream stream has kept.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{self, DeliverPolicy, pull};
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, ErrorCode};
use futures::StreamExt;

use crate::error::Error;
use crate::model::leader_event::{LeaderChange, LeaderEvent};
use crate::store::events_stream;
use nats_elect_core::name::{BucketName, RoleName};

/// How long may pass before the first event and between two events that are read.
const PATIENCE: Duration = Duration::from_secs(5);
/// If the end of the stream has too few events of a role, this many times as much of it is tried.
const FURTHER: u64 = 16;

/// The leader changes of a bucket that are kept: see
/// [`EventsConfig::keep`](crate::EventsConfig::keep).
#[derive(Clone, Debug)]
pub struct History {
    stream: Stream,
    /// The prefix of the subjects of a role's events.
    prefix: String,
}

impl History {
    /// Finds the history of a bucket.
    ///
    /// # Errors
    /// Returns [`Error::HistoryNotKept`] if nobody has made the stream, or if it was made by hand with
    /// subjects other than `<prefix>.<bucket>.*`. Returns [`Error::Name`] and [`Error::Unavailable`].
    pub async fn open(client: Client, bucket: &str) -> Result<Self, Error> {
        let bucket = BucketName::new(bucket)?;
        let name = events_stream(&bucket);
        let found = jetstream::new(client).get_stream(&name).await;
        let stream = found.map_err(|error| {
            if is_missing(&error) {
                Error::HistoryNotKept { stream: name }
            } else {
                unavailable(error)
            }
        })?;
        let subjects = &stream.cached_info().config.subjects;
        let own = format!(".{bucket}.");
        // The subject is as instances make it, or wider in its last part.
        let of_roles = |subject: &String| {
            let prefix = subject.strip_suffix(['*', '>'])?;
            prefix.ends_with(&own).then(|| prefix.to_owned())
        };
        let Some(prefix) = subjects.iter().find_map(of_roles) else {
            let stream = stream.cached_info().config.name.clone();
            return Err(Error::HistoryNotKept { stream });
        };
        Ok(Self { stream, prefix })
    }

    /// Returns the last events of a role, in the order of its terms. At most `most` events are
    /// returned. If `most` is 0, no request is sent.
    ///
    /// The events are read from the end of the stream, and not all that it keeps.
    ///
    /// # Errors
    /// Returns [`Error::Name`] or [`Error::Unavailable`].
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left behind.
    pub async fn of_role(&self, role: &str, most: usize) -> Result<Vec<LeaderEvent>, Error> {
        let role = RoleName::new(role)?;
        self.read(format!("{}{role}", self.prefix), most).await
    }

    /// Returns the last events of all roles, oldest first. The events of each role are in the order
    /// of its terms. At most `most` events are returned.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`].
    pub async fn of_all(&self, most: usize) -> Result<Vec<LeaderEvent>, Error> {
        self.read(format!("{}*", self.prefix), most).await
    }

    async fn read(&self, subject: String, most: usize) -> Result<Vec<LeaderEvent>, Error> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let (consumer, mut left) = self.last(&subject, most).await?;
        let mut last = VecDeque::new();
        let mut messages = consumer.messages().await.map_err(unavailable)?;
        while left > 0 {
            let next = tokio::time::timeout(PATIENCE, messages.next()).await;
            let next = next.map_err(unavailable)?.transpose();
            let Some(message) = next.map_err(unavailable)? else {
                break;
            };
            left = message
                .info()
                .map_err(|error| failed(&error.to_string()))?
                .pending;
            if let Some(event) = LeaderEvent::parse(&message.payload) {
                if last.len() == most {
                    last.pop_front();
                }
                last.push_back(event);
            }
        }
        Ok(by_time_and_term(last.into()))
    }

    /// Begins to read where at least `most` messages follow, if the stream has so many. Returns
    /// their number, too.
    async fn last(
        &self,
        subject: &str,
        most: usize,
    ) -> Result<(consumer::Consumer<pull::OrderedConfig>, u64), Error> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let info = tokio::time::timeout(PATIENCE, self.stream.get_info()).await;
        let state = info.map_err(unavailable)?.map_err(unavailable)?.state;
        let mut reach = most;
        loop {
            let from = (state.last_sequence + 1).saturating_sub(reach);
            let is_all = from <= state.first_sequence;
            let config = pull::OrderedConfig {
                // A named consumer allows a permission for this stream's consumers alone.
                name: Some(format!("nats-elect-history-{:016x}", rand::random::<u64>())),
                filter_subject: subject.to_owned(),
                deliver_policy: if is_all {
                    DeliverPolicy::All
                } else {
                    DeliverPolicy::ByStartSequence {
                        start_sequence: from,
                    }
                },
                ..pull::OrderedConfig::default()
            };
            let created = tokio::time::timeout(PATIENCE, self.stream.create_consumer(config)).await;
            let mut consumer = created.map_err(unavailable)?.map_err(unavailable)?;
            let left = consumer.info().await.map_err(unavailable)?.num_pending;
            if is_all || left >= most {
                return Ok((consumer, left));
            }
            reach = reach.saturating_mul(FURTHER);
        }
    }
}

/// Sorts by time, but keeps each role's events in the order of its terms.
///
/// Two instances report one handoff, and the event of the later leader may arrive first. The clock
/// of one of them may be wrong.
fn by_time_and_term(mut events: Vec<LeaderEvent>) -> Vec<LeaderEvent> {
    events.sort_by_cached_key(|event| {
        let is_end = matches!(event.change, LeaderChange::TermEnded { .. });
        (event.role.clone(), event.fencing_token, is_end)
    });
    let mut latest = HashMap::<String, u64>::new();
    let at = |event: LeaderEvent| {
        let latest = latest.entry(event.role.clone()).or_default();
        *latest = event.at_ms.max(*latest);
        (*latest, event)
    };
    let mut events: Vec<_> = events.into_iter().map(at).collect();
    events.sort_by_key(|(at, _)| *at);
    events.into_iter().map(|(_, event)| event).collect()
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn unavailable(error: impl std::error::Error) -> Error {
    let cause = error
        .source()
        .map_or_else(String::new, |cause| format!(": {cause}"));
    failed(&format!("{error}{cause}"))
}

fn failed(cause: &str) -> Error {
    Error::Unavailable {
        after: PATIENCE,
        reason: format!("the history can't be read: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(role: &str, term: u8, at: u64, change: &str) -> LeaderEvent {
        let change = match change {
            "starts" => r#""event":"term_started","vacancy":"released""#,
            _ => r#""event":"term_ended","cause":"stopped","lasted_seconds":1,"released":true"#,
        };
        let json = format!(
            r#"{{"v":1,"bucket":"b","role":"{role}","instance_id":"i","incarnation":"00000000-0000-0000-0000-000000000001",
                "correlation_id":"c","fencing_token":"{term:032x}","at_ms":{at},{change}}}"#
        );
        LeaderEvent::parse(json.as_bytes()).expect("an event")
    }

    #[test]
    fn events_are_sorted_by_time_and_those_of_one_role_by_term() {
        let told = vec![
            event("quick", 1, 10, "starts"),
            // The event of the new leader arrived first.
            event("quick", 2, 50, "starts"),
            event("quick", 1, 50, "ends"),
            event("other", 7, 40, "starts"),
            // The clock of this instance is behind.
            event("other", 8, 30, "starts"),
            event("quick", 2, 70, "ends"),
            // This instance was cut off.
            event("other", 7, 45, "ends"),
        ];
        let ordered = by_time_and_term(told);
        let names: Vec<_> = ordered
            .iter()
            .map(|it| (&*it.role, it.fencing_token.to_u128(), it.name()))
            .collect();
        let expected = [
            ("quick", 1, "term_started"),
            ("other", 7, "term_started"),
            ("other", 7, "term_ended"),
            ("other", 8, "term_started"),
            ("quick", 1, "term_ended"),
            ("quick", 2, "term_started"),
            ("quick", 2, "term_ended"),
        ];
        assert_eq!(names, expected);
    }
}
