//! The loop: what is seen, what the instances say and what is typed go into the state; the state
//! goes onto the screen.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use futures::{StreamExt, stream};
use nats_elect::admin::AdminClient;
use nats_elect::{Change, FencingToken, FollowedGroups, Observer};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::facts::{Facts, Now, Seen, Told};
use super::look::Look;
use super::state::State;
use super::{convert, keys, view};
use crate::asking::{ask, keep_asking};
use crate::exit::{Code, Failure, Outcome};
use crate::options::Shared;
use crate::output::Output;
use crate::past_event::{MOST, past_events};
use crate::seen::began;
use crate::stopped::stopped;
use crate::text::{clean, wall_clock};

/// Time between two pictures.
const FRAME: Duration = Duration::from_millis(200);
/// Time between two looks at groups, which may have many units.
const GROUPS: Duration = Duration::from_secs(1);
/// How long one picture waits for a heartbeat of each member. They come each second by default.
const HEARTBEATS: Duration = Duration::from_millis(2500);
/// So many fence records are read at a time.
const READS: usize = 16;

/// Whether anything has panicked while there was a screen.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Whom to look at, and how.
pub struct How<'a> {
    pub shared: &'a Shared,
    pub observer: Observer,
    pub admin: AdminClient,
    pub bucket: String,
    pub server: String,
    pub interval: Duration,
    pub look: Look,
}

/// Shows everything once, as text.
pub async fn once(how: How<'_>, output: Output) -> Outcome {
    let clock = Clock::start();
    let mut state = State::new(Facts::new(clock.now(), how.bucket, how.server));
    let (reports, history, groups) = tokio::join!(
        ask(&how.admin, &how.observer),
        history(how.shared),
        how.observer.groups(HEARTBEATS)
    );
    let answers = convert::answers(reports);
    let facts = state.facts_mut();
    facts.answers(clock.now(), answers);
    match groups {
        Ok(groups) => facts.seen_groups = convert::groups(&groups, true),
        Err(error) => facts.stale_groups = Some(clean(&error.to_string())),
    }
    look_on(&how.observer, facts, clock);
    learn(facts, clock.now(), history);
    let (tell, mut learned) = mpsc::unbounded_channel();
    let (want, wanted) = mpsc::unbounded_channel();
    let _ = want.send(facts.unfenced());
    drop(want);
    read_fences(how.shared, &tell, wanted).await;
    while let Ok(past) = learned.try_recv() {
        learn(facts, clock.now(), past);
    }
    let width = match ratatui::crossterm::terminal::size() {
        Ok((width, _)) if output.is_terminal() => width.into(),
        _ => view::page_width(&state),
    };
    for line in view::page(&state, how.look, width) {
        output.line(line.to_string().trim_end())?;
    }
    Ok(0)
}

/// Shows everything until somebody quits.
pub async fn watch(how: How<'_>) -> Outcome {
    let clock = Clock::start();
    let mut state = State::new(Facts::new(clock.now(), how.bucket, how.server));
    let mut changes = how.observer.changes();
    let groups = how.observer.follow_groups()?;
    let mut looks = tokio::time::interval(GROUPS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (tell, mut reports) = mpsc::channel(1);
    tokio::spawn(keep_asking(
        how.admin,
        how.observer.clone(),
        how.interval,
        tell,
    ));
    let (learns, mut learned) = mpsc::unbounded_channel();
    let (want, wanted) = mpsc::unbounded_channel();
    let mut reading = Box::pin(read_past(how.shared, learns, wanted));
    let mut stop = std::pin::pin!(stopped());
    let mut screen = Screen::open()?;
    let mut typed = typing();
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // A change that was seen goes before the history, which may have it, too.
            biased;
            event = typed.recv() => match event {
                Some(Ok(Event::Key(key))) => {
                    let action = keys::action(key, state.typing);
                    if action.is_some_and(|action| !state.act(action)) {
                        return Ok(0);
                    }
                }
                // A new size, which the next picture has.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Failure::new(Code::Failed, "the keyboard can't be read")),
            },
            change = changes.next() => match change {
                Some(change) => changed(state.facts_mut(), clock.now(), change),
                None => return Err(Failure::new(Code::Failed, "the observer ended")),
            },
            Some(reports) = reports.recv() => {
                let answers = convert::answers(reports);
                state.facts_mut().answers(clock.now(), answers);
            }
            _ = frames.tick() => {
                let facts = state.facts_mut();
                look_on(&how.observer, facts, clock);
                let unfenced = facts.unfenced();
                if !unfenced.is_empty() {
                    let _ = want.send(unfenced);
                }
            },
            _ = looks.tick() => look_on_groups(&groups, state.facts_mut()),
            Some(past) = learned.recv() => learn(state.facts_mut(), clock.now(), past),
            never = &mut reading => match never {},
            () = &mut stop => return Ok(0),
        }
        screen.show(&state, how.look)?;
    }
}

/// Takes in how all roles stand.
fn look_on(observer: &Observer, facts: &mut Facts, clock: Clock) {
    let roles = observer.roles();
    let roles: BTreeMap<_, _> = roles
        .iter()
        .map(|(name, observed)| (name.clone(), Seen::from(observed)))
        .collect();
    facts.sight(clock.now(), roles, convert::stale(observer.connection()));
}

/// Takes in how all groups stand.
fn look_on_groups(followed: &FollowedGroups, facts: &mut Facts) {
    let connection = followed.connection();
    let all = followed.groups().unwrap_or_default();
    facts.seen_groups = convert::groups(&all, connection.is_current());
    facts.stale_groups = convert::stale(connection).map(|(_, why)| why);
}

/// What was before the start.
enum Past {
    /// What instances published, and whether that is all that is kept.
    History(Result<Vec<Told>, &'static str>, bool),
    Fences(Vec<Fence>),
}

/// When NATS stored the fence record of this role's term.
type Fence = (String, FencingToken, SystemTime);

fn learn(facts: &mut Facts, now: Now, past: Past) {
    match past {
        Past::History(told, is_all) => facts.past(now, told, is_all),
        Past::Fences(fences) => facts.fenced(fences),
    }
}

/// Reads the history once, and the fence records of terms that are wanted.
async fn read_past(
    shared: &Shared,
    tell: mpsc::UnboundedSender<Past>,
    wanted: mpsc::UnboundedReceiver<Vec<(String, FencingToken)>>,
) -> Infallible {
    let reading = async {
        let _ = tell.send(history(shared).await);
    };
    tokio::join!(reading, read_fences(shared, &tell, wanted));
    std::future::pending().await
}

async fn history(shared: &Shared) -> Past {
    match past_events(shared, None).await {
        Ok(events) => {
            let is_all = events.len() < MOST;
            Past::History(Ok(events.into_iter().map(Told::from).collect()), is_all)
        }
        Err(failure) => Past::History(Err(convert::without_history(&failure)), true),
    }
}

/// Reads when terms began, until nobody wants to know any more. A term whose fence record can't be
/// read is left out.
async fn read_fences(
    shared: &Shared,
    tell: &mpsc::UnboundedSender<Past>,
    mut wanted: mpsc::UnboundedReceiver<Vec<(String, FencingToken)>>,
) {
    let Ok(bucket) = shared.bucket().await else {
        return;
    };
    let bucket = &bucket;
    while let Some(terms) = wanted.recv().await {
        let reads = stream::iter(terms).map(|(role, token)| async move {
            let at = began(bucket, &role, token).await?;
            Some((role, token, at))
        });
        let found = reads.buffered(READS).filter_map(std::future::ready);
        let _ = tell.send(Past::Fences(found.collect().await));
    }
}

fn changed(facts: &mut Facts, now: Now, change: Change) {
    match change {
        Change::Role(change) => facts.happened(now, &(*change).into()),
        Change::Current => facts.note(now, "the view is current again".into()),
        Change::Stale { reason } => facts.note(now, format!("the view is stale: {reason}")),
        Change::Lagged { missed } => facts.note(now, format!("{missed} changes were missed")),
        _ => {}
    }
}

/// What is typed, read by a thread of its own, which ends with the process.
fn typing() -> mpsc::UnboundedReceiver<io::Result<Event>> {
    let (tell, typed) = mpsc::unbounded_channel();
    thread::spawn(move || {
        loop {
            let event = event::read();
            let over = event.is_err();
            if tell.send(event).is_err() || over {
                return;
            }
        }
    });
    typed
}

/// The terminal while it is a screen: it is as it was when this is dropped, and when something
/// panics.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> io::Result<Self> {
        let screen = ratatui::try_init().map(Self).inspect_err(|_| {
            // Some of it may have been done.
            let _ = ratatui::try_restore();
        })?;
        // Whatever panics, in the library's tasks as well: then the terminal is restored and told
        // why. The screen must not go on.
        let restore = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            PANICKED.store(true, Ordering::Relaxed);
            restore(what);
        }));
        Ok(screen)
    }

    fn show(&mut self, state: &State, look: Look) -> io::Result<()> {
        if PANICKED.load(Ordering::Relaxed) {
            return Err(io::Error::other("it panicked: see above"));
        }
        self.0.draw(|frame| view::draw(frame, state, look))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Counts from the start.
#[derive(Clone, Copy)]
struct Clock(Instant);

#[expect(
    clippy::disallowed_methods,
    reason = "for people to read; no lease rests on it"
)]
impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Now {
        Now {
            since_start: self.0.elapsed(),
            wall: wall_clock(),
        }
    }
}
