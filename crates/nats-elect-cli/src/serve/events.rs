//! What happens, as it happens: a stream of server-sent events that can be resumed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{iter, mem};

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use nats_elect::lock::lock;
use serde_json::json;
use tokio::sync::broadcast;

use super::Served;
use super::server::Lasting;
use crate::output;
use crate::problem::Problem;

/// Events that are kept for those who come back.
const KEPT: usize = 1000;
/// The longest pause between two lines, so that both sides notice a dead connection.
const PULSE: Duration = Duration::from_secs(15);
/// How long a browser waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// Something that happened.
#[derive(Clone, Debug)]
struct Happening {
    number: u64,
    kind: &'static str,
    data: Arc<str>,
}

/// All that happens, in one order for all buckets.
pub struct Events {
    /// Numbers begin anew with each start, and so does this.
    start: String,
    kept: Mutex<Kept>,
    tell: broadcast::Sender<Happening>,
}

#[derive(Default)]
struct Kept {
    /// Of the last event.
    number: u64,
    /// The newest last.
    events: VecDeque<Happening>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            start: format!("{:016x}", rand::random::<u64>()),
            kept: Mutex::default(),
            tell: broadcast::channel(KEPT).0,
        }
    }
}

impl Events {
    /// Tells everyone.
    pub fn tell(&self, kind: &'static str, data: String) {
        let mut kept = lock(&self.kept);
        kept.number += 1;
        let event = Happening {
            number: kept.number,
            kind,
            data: data.into(),
        };
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Within the lock, so that readers get the events in their order. Nobody may listen.
        let _ = self.tell.send(event);
    }

    /// Begins to listen, after the event with this id if there is one. Returns what the reader is
    /// told first: from where it goes on, and what it missed; or else that it has to read everything
    /// again.
    fn listen(&self, after: Option<&str>) -> (Vec<Happening>, broadcast::Receiver<Happening>) {
        let kept = lock(&self.kept);
        let listener = self.tell.subscribe();
        let told = |after: &str| {
            let (start, number) = after.split_once('-')?;
            let number = number.parse::<u64>().ok()?;
            (start == self.start && number <= kept.number).then_some(number)
        };
        let number = after.map_or(Some(kept.number), told);
        let oldest = kept.events.front().map_or(kept.number + 1, |it| it.number);
        let Some(number) = number.filter(|number| number + 1 >= oldest) else {
            let why = json!({ "reason": "the last event that was read is not kept any more" });
            let again = Happening {
                number: kept.number,
                kind: "reload",
                data: output::json(&why).into(),
            };
            return (vec![again], listener);
        };
        let hello = Happening {
            number,
            kind: "hello",
            data: "{}".into(),
        };
        let missed = kept.events.iter().filter(|it| it.number > number);
        (iter::once(hello).chain(missed.cloned()).collect(), listener)
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.start)
    }

    fn event(&self, happening: &Happening, begin: Event) -> Event {
        begin
            .id(self.id(happening.number))
            .event(happening.kind)
            .data(&happening.data)
    }

    /// All events from now on, or after that one.
    fn follow(self: Arc<Self>, after: Option<&str>) -> impl Stream<Item = Event> + use<> {
        let (first, listener) = self.listen(after);
        let mut begin = Event::default().retry(RETRY);
        let first = first.iter().map(|it| self.event(it, mem::take(&mut begin)));
        let first: Vec<_> = first.collect();
        let later = stream::unfold((self, listener), async |(events, mut listener)| {
            // Who reads too slowly is let go. What it missed may be kept: it can come back for it.
            let happening = listener.recv().await.ok()?;
            let event = events.event(&happening, Event::default());
            Some((event, (events, listener)))
        });
        stream::iter(first).chain(later)
    }
}

/// `/api/v1/events`.
pub async fn events(
    State(served): State<Served>,
    Extension(lasting): Extension<Lasting>,
    headers: HeaderMap,
) -> Response {
    let Some(room) = lasting.stream() else {
        let why = "too many streams of events are open";
        return Problem::unavailable(why).into_response();
    };
    let after = headers.get("last-event-id");
    // What can't be read is of nothing that is kept.
    let after = after.map(|id| id.to_str().unwrap_or_default());
    let events = Arc::clone(&served.events).follow(after);
    let events = events.map(move |event| {
        // The room is taken as long as the stream is there.
        let _taken = &room;
        Ok::<_, Infallible>(event)
    });
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(PULSE))
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of the first event, and the numbers of the others.
    fn told(events: &Events, after: Option<&str>) -> (&'static str, Vec<u64>) {
        let (first, _) = events.listen(after);
        let missed = first[1..].iter().map(|it| it.number).collect();
        (first[0].kind, missed)
    }

    #[test]
    fn a_reader_who_comes_back_gets_what_was_missed_in_order() {
        let events = Events::default();
        for _ in 0..3 {
            events.tell("change", String::new());
        }
        for (number, missed) in [(1, vec![2, 3]), (0, vec![1, 2, 3]), (3, vec![])] {
            let told = told(&events, Some(&events.id(number)));
            assert_eq!(told, ("hello", missed), "{number}");
        }
        assert_eq!(told(&events, None), ("hello", vec![]));
        let (_, mut listener) = events.listen(None);
        events.tell("change", String::new());
        assert_eq!(listener.try_recv().expect("an event").number, 4);
    }

    #[test]
    fn a_reader_who_missed_too_much_or_knew_another_start_begins_anew() {
        let events = Events::default();
        let first = events.id(0);
        for _ in 0..=KEPT {
            events.tell("change", String::new());
        }
        let other = Events::default().id(1);
        let unknown = events.id(u64::try_from(KEPT).expect("small") + 9);
        for id in [&*first, &*other, &*unknown, "", "x", "a-b"] {
            assert_eq!(told(&events, Some(id)), ("reload", vec![]), "{id}");
        }
        assert_eq!(told(&events, Some(&events.id(1))).1.len(), KEPT);
    }
}
