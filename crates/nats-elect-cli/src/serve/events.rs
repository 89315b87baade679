//! What happens, as it happens: a stream of server-sent events that can be resumed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::sync::watch;

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
    kept: watch::Sender<Kept>,
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
            kept: watch::Sender::default(),
        }
    }
}

impl Events {
    /// Tells everyone.
    pub fn tell(&self, kind: &'static str, data: String) {
        self.kept.send_modify(|kept| {
            kept.number += 1;
            if kept.events.len() == KEPT {
                kept.events.pop_front();
            }
            kept.events.push_back(Happening {
                number: kept.number,
                kind,
                data: data.into(),
            });
        });
    }

    /// The first event of a reader, after the event with this id if there is one: from where it goes
    /// on, or else that it has to read everything again.
    fn first(&self, after: Option<&str>) -> Happening {
        let kept = self.kept.borrow();
        let told = |after: &str| {
            let (start, number) = after.split_once('-')?;
            let number = number.parse::<u64>().ok()?;
            (start == self.start && number <= kept.number).then_some(number)
        };
        let number = after.map_or(Some(kept.number), told);
        let oldest = kept.events.front().map_or(kept.number + 1, |it| it.number);
        let why = json!({ "reason": "the last event that was read is not kept any more" });
        let (number, kind, data) = match number.filter(|number| number + 1 >= oldest) {
            Some(number) => (number, "hello", "{}".into()),
            None => (kept.number, "reload", output::json(&why).into()),
        };
        Happening { number, kind, data }
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
        let first = self.first(after);
        let begin = self.event(&first, Event::default().retry(RETRY));
        let from = (self.kept.subscribe(), first.number, self);
        let later = stream::unfold(from, async |(mut listener, number, events)| {
            // A reader that is too slow is let go.
            let happening = next(&mut listener, number).await?;
            let event = events.event(&happening, Event::default());
            Some((event, (listener, happening.number, events)))
        });
        stream::once(ready(begin)).chain(later)
    }
}

/// The event after the one with this number, as soon as it happens. `None` if it is not kept any
/// more.
async fn next(listener: &mut watch::Receiver<Kept>, number: u64) -> Option<Happening> {
    let kept = listener.wait_for(|kept| kept.number > number).await.ok()?;
    let behind = usize::try_from(kept.number - number).ok()?;
    let place = kept.events.len().checked_sub(behind)?;
    kept.events.get(place).cloned()
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

    /// The kind of the first event, and the numbers of the others that happened before.
    async fn told(events: &Events, after: Option<&str>) -> (&'static str, Vec<u64>) {
        let (first, mut missed) = (events.first(after), Vec::new());
        let (mut listener, last) = (events.kept.subscribe(), events.kept.borrow().number);
        for number in first.number..last {
            missed.extend(next(&mut listener, number).await.map(|it| it.number));
        }
        (first.kind, missed)
    }

    #[tokio::test]
    async fn a_reader_who_comes_back_gets_what_was_missed_in_order() {
        let events = Events::default();
        for _ in 0..3 {
            events.tell("change", String::new());
        }
        for (number, missed) in [(1, vec![2, 3]), (0, vec![1, 2, 3]), (3, vec![])] {
            let told = told(&events, Some(&events.id(number))).await;
            assert_eq!(told, ("hello", missed), "{number}");
        }
        assert_eq!(told(&events, None).await, ("hello", vec![]));
        let mut listener = events.kept.subscribe();
        events.tell("change", String::new());
        assert_eq!(next(&mut listener, 3).await.expect("an event").number, 4);
    }

    #[tokio::test]
    async fn a_reader_who_missed_too_much_or_knew_another_start_begins_anew() {
        let events = Events::default();
        let first = events.id(0);
        for _ in 0..=KEPT {
            events.tell("change", String::new());
        }
        let other = Events::default().id(1);
        let unknown = events.id(u64::try_from(KEPT).expect("small") + 9);
        for id in [&*first, &*other, &*unknown, "", "x", "a-b"] {
            assert_eq!(told(&events, Some(id)).await, ("reload", vec![]), "{id}");
        }
        assert_eq!(told(&events, Some(&events.id(1))).await.1.len(), KEPT);
        assert!(next(&mut events.kept.subscribe(), 0).await.is_none());
    }
}
