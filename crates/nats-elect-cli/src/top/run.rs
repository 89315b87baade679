//! The loop: what is seen, what the instances say and what is typed go into the state; the state
//! goes onto the screen.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nats_elect::{ManagerConfig, Observer};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, timeout};

use super::look::Look;
use super::state::State;
use super::view;
use crate::exit::{Code, Failure, Outcome};
use crate::fleet::Watched;
use crate::looking::go_on;
use crate::output::Output;
use crate::stopped::stopped;
use crate::text::{hosts, ms_of, wall_clock};

/// Time between two pictures.
const FRAME: Duration = Duration::from_millis(200);
/// Between two looks at groups, instances and the past, of which there may be much.
const FRAMES: u32 = 5;
/// How long one picture waits for a heartbeat of each member. They come each second by default.
const HEARTBEATS: Duration = Duration::from_millis(2500);
/// How often it is looked whether everything is known.
const LOOK: Duration = Duration::from_millis(50);

/// Whether anything has panicked while there was a screen.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// What to look at, and how.
pub struct How {
    pub observer: Observer,
    pub config: ManagerConfig,
    pub interval: Duration,
    pub look: Look,
}

impl How {
    /// What is looked at, and a task that finds it out.
    fn begin(
        &self,
    ) -> (
        Arc<Watched>,
        impl Future<Output = Result<Infallible, Failure>> + Unpin,
    ) {
        let watched = Arc::new(Watched::new(&self.config.bucket, |_, _| ()));
        watched.observed_by(self.observer.clone());
        let (config, observer) = (self.config.clone(), self.observer.clone());
        let (view, interval) = (Arc::clone(&watched), self.interval);
        let finding = async move { go_on(&view, &config, observer, interval).await };
        (watched, Box::pin(finding))
    }

    fn state(&self) -> State {
        let mut state = State::default();
        state.facts.now_ms = ms_of(wall_clock());
        state.facts.bucket.clone_from(&self.config.bucket);
        state.facts.server = hosts(&self.config.servers);
        state
    }
}

/// Shows everything once, as text.
pub async fn once(how: How, output: Output) -> Outcome {
    let mut state = how.state();
    let (watched, finding) = how.begin();
    let known = async {
        let patience = how.config.start_timeout + HEARTBEATS;
        let _ = timeout(patience, until(|| is_known(&watched))).await;
        let _ = timeout(HEARTBEATS, until(|| are_confirmed(&watched))).await;
    };
    tokio::select! {
        Err(failure) = finding => return Err(failure),
        () = known => {}
    }
    state.facts.look(&watched, ms_of(wall_clock()));
    state.facts.look_further(&watched);
    let width = match ratatui::crossterm::terminal::size() {
        Ok((width, _)) if io::stdout().is_terminal() => width.into(),
        _ => view::PAGE,
    };
    for line in view::page(&state, how.look, width) {
        output.line(line.to_string().trim_end())?;
    }
    Ok(0)
}

/// Shows everything until somebody quits.
pub async fn watch(how: How) -> Outcome {
    let mut state = how.state();
    let (watched, mut finding) = how.begin();
    let mut stop = std::pin::pin!(stopped());
    let mut screen = Screen::open()?;
    let mut typed = typing();
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number: u32 = 0;
    loop {
        tokio::select! {
            event = typed.recv() => match event {
                Some(Ok(Event::Key(key))) => {
                    if !state.press(key) {
                        return Ok(0);
                    }
                }
                // A new size, which the next picture has.
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Failure::new(Code::Failed, "the keyboard can't be read")),
            },
            _ = frames.tick() => {
                state.facts.look(&watched, ms_of(wall_clock()));
                if number.is_multiple_of(FRAMES) {
                    state.facts.look_further(&watched);
                }
                number = number.wrapping_add(1);
            },
            Err(failure) = &mut finding => return Err(failure),
            () = &mut stop => return Ok(0),
        }
        screen.show(&state, how.look)?;
    }
}

/// Whether the instances were asked, and the history and the groups read, as far as they can be.
fn is_known(watched: &Watched) -> bool {
    let no_past = watched.history(None).err();
    let is_past_known = no_past.is_none_or(|none| none.code.is_some());
    let asked = watched.asked();
    let are_asked = asked.at.is_some() || asked.problem.is_some();
    is_past_known && are_asked && watched.groups_freshness().read
}

/// Whether a heartbeat of each member was seen.
fn are_confirmed(watched: &Watched) -> bool {
    let groups = watched.groups.groups();
    groups.all.groups.values().all(|group| {
        let mut members = group.members.values();
        members.all(|member| member.confirmed || member.over)
    })
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(LOOK).await;
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
