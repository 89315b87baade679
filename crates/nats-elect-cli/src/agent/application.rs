//! One application that stands for a role: the role's handler, and what the application was
//! promised.

use std::sync::Mutex;
use std::time::Duration;

use nats_elect::lock::lock;
use nats_elect::{BoxError, EndCause, FencingToken, LeaderInfo, RoleHandler, Term};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::exec::Instant;
use crate::exec::alarm::Alarm;

/// What the application's stream tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No term has begun yet.
    Standing,
    Leading(FencingToken),
    WindingDown(FencingToken, EndCause),
    Ended(FencingToken, EndCause),
}

impl State {
    /// The order in which states follow one another: tokens grow from term to term.
    fn rank(self) -> Option<(FencingToken, u8)> {
        match self {
            Self::Standing => None,
            Self::Leading(token) => Some((token, 0)),
            Self::WindingDown(token, _) => Some((token, 1)),
            Self::Ended(token, _) => Some((token, 2)),
        }
    }
}

/// The shortest stop budget. The margin has to cover the time in which the end of a term becomes
/// known here, also on a machine that is short of processor time.
pub const LEAST_STOP_BUDGET: Duration = Duration::from_millis(500);
/// The longest time between two promises. Connections that are idle for longer are closed.
const LONGEST_PACE: Duration = Duration::from_secs(5);

/// A promise as the application gets it.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// Counted from before the application asked.
    pub remaining: Duration,
    pub winding_down: bool,
}

/// Why the application stands for the role no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It closed its Unix socket: whatever ran there stopped, or says so.
    Closed,
    /// The connection ended here, but may be open there. Its promises still count.
    Unproven,
}

/// An application, from the opening of its stream to the end of it.
pub struct Application {
    pub role: String,
    /// The time that its handler has to wind down.
    pub stop_budget: Duration,
    state: watch::Sender<State>,
    leader: watch::Sender<Option<LeaderInfo>>,
    current: Mutex<Option<Current>>,
    /// Cancelled as soon as the connection has ended, for either reason.
    over: CancellationToken,
    /// Cancelled if nothing of the application acts on a promise any more.
    closed: CancellationToken,
}

/// The term that goes on.
struct Current {
    term: Term,
    /// The end of the promise that was made last.
    until: Instant,
    /// Resolved by the application's word that it has stopped.
    stopped: watch::Sender<Option<Result<(), String>>>,
}

/// Forgets a term when its handler ends or is dropped. From then on nothing is promised.
struct Forget<'a>(&'a Application);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        *lock(&self.0.current) = None;
    }
}

impl Application {
    pub fn new(role: String, stop_budget: Duration) -> Self {
        Self {
            role,
            stop_budget,
            state: watch::Sender::new(State::Standing),
            leader: watch::Sender::new(None),
            current: Mutex::new(None),
            over: CancellationToken::new(),
            closed: CancellationToken::new(),
        }
    }

    pub fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub fn leaders(&self) -> watch::Receiver<Option<LeaderInfo>> {
        self.leader.subscribe()
    }

    /// Tells a state, unless a later one was told before.
    pub fn tell(&self, state: State) {
        self.state.send_if_modified(|told| {
            let is_later = told.rank() < state.rank();
            if is_later {
                *told = state;
            }
            is_later
        });
    }

    /// How often the application should ask for a new promise.
    pub fn pace(&self) -> Duration {
        (self.longest() / 3).min(LONGEST_PACE)
    }

    /// How long before the end of the lease a promise ends. It covers the rates of two clocks, and
    /// the time in which the end of a term becomes known here.
    fn margin(&self) -> Duration {
        self.stop_budget / 4
    }

    /// The longest promise.
    fn longest(&self) -> Duration {
        self.stop_budget.saturating_sub(self.margin())
    }

    /// How far a promise reaches that is made now.
    fn reach(&self, now: Instant, term: &Term) -> Instant {
        let lease = now.plus(term.remaining()).minus(self.margin());
        lease.min(now.plus(self.longest()))
    }

    /// Its connection has ended. Nothing is promised from now on.
    pub fn has_gone(&self, how: Gone) {
        self.over.cancel();
        if how == Gone::Closed {
            self.closed.cancel();
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// The term with this token, if the application leads in it.
    pub fn term(&self, token: FencingToken) -> Option<Term> {
        let current = lock(&self.current);
        let current = current.as_ref()?;
        let is_it = current.term.fencing_token() == token && !current.until.is_over();
        is_it.then(|| current.term.clone())
    }

    /// Makes a new promise. None is made to an application that let the last one pass: it may have
    /// been paused, and the role may be led by another one by now.
    pub fn renew(&self, token: FencingToken) -> Option<Promise> {
        let mut current = lock(&self.current);
        let current = current.as_mut()?;
        // The clock is read before the lease: a pause in between makes the promise shorter.
        let now = Instant::now();
        let is_over = self.is_over() || current.until <= now || current.stopped.borrow().is_some();
        // A lease that was revoked is over before the promise is.
        if is_over || !current.term.is_valid() || current.term.fencing_token() != token {
            return None;
        }
        let winding_down = current.term.is_cancelled();
        if !winding_down {
            current.until = current.until.max(self.reach(now, &current.term));
        }
        Some(Promise {
            remaining: current.until.since(now),
            winding_down,
        })
    }

    /// The application has stopped its work. Returns false if it does not lead in this term.
    pub fn stopped(&self, token: FencingToken, how: Result<(), String>) -> bool {
        let current = lock(&self.current);
        let of_term = current
            .as_ref()
            .filter(|it| it.term.fencing_token() == token);
        if let Some(current) = of_term {
            current.stopped.send_replace(Some(how));
        }
        of_term.is_some()
    }

    /// The end of the last promise, if it is not over. Otherwise none is made any more.
    fn promised(&self) -> Option<Instant> {
        let current = lock(&self.current);
        let until = current.as_ref().map(|it| it.until);
        until.filter(|it| !it.is_over())
    }
}

impl RoleHandler for Application {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let token = term.fencing_token();
        let (stopped, mut has_stopped) = watch::channel(None);
        // The time for its first request. Nothing is promised before that.
        let until = self.reach(Instant::now(), &term);
        *lock(&self.current) = Some(Current {
            term: term.clone(),
            until,
            stopped,
        });
        let _forget = Forget(self);
        self.tell(State::Leading(token));
        let mut silence = Alarm::at(until);
        loop {
            tokio::select! {
                biased;
                () = self.closed.cancelled() => return Ok(()),
                Ok(how) = has_stopped.wait_for(Option::is_some) => {
                    return how.clone().unwrap_or(Ok(())).map_err(Into::into);
                }
                () = silence.rings() => match self.promised() {
                    Some(renewed) => silence.set(renewed),
                    None if term.is_cancelled() || self.is_over() => return Ok(()),
                    None => {
                        return Err("the application did not renew its promise: it hangs, or is paused".into());
                    }
                },
            }
        }
    }

    async fn on_leader_change(&self, leader: Option<LeaderInfo>) {
        self.leader.send_replace(leader);
    }
}

#[cfg(test)]
mod tests {
    use nats_elect::testing::TestTerm;

    use super::*;

    const BUDGET: Duration = Duration::from_secs(2);
    const LONGEST: Duration = Duration::from_millis(1500);

    fn application() -> Application {
        Application::new("worker".into(), BUDGET)
    }

    /// Waits until the application leads.
    async fn led(application: &Application) {
        let mut states = application.states();
        let leads = |state: &State| matches!(state, State::Leading(_));
        states.wait_for(leads).await.expect("it is there");
    }

    #[tokio::test]
    async fn a_promise_reaches_no_further_than_the_stop_budget() {
        let (term, application) = (TestTerm::new("worker"), application());
        let token = term.term().fencing_token();
        let test = async {
            led(&application).await;
            let promise = application.renew(token).expect("it leads");
            assert!(promise.remaining <= LONGEST, "{promise:?}");
            application.stopped(token, Ok(()));
        };
        let (ended, ()) = tokio::join!(term.lead(&application), test);
        assert!(ended.expect("not aborted").is_ok());
        assert!(application.renew(token).is_none(), "the term is over");
    }

    #[tokio::test]
    async fn a_promise_ends_before_the_lease() {
        let (term, application) = (TestTerm::new("worker"), application());
        let token = term.term().fencing_token();
        term.set_lease(Duration::from_secs(1));
        let test = async {
            led(&application).await;
            let promise = application.renew(token).expect("it leads");
            // A quarter of the stop budget before the end of the lease.
            assert!(
                promise.remaining <= Duration::from_millis(500),
                "{promise:?}"
            );
            application.has_gone(Gone::Closed);
        };
        let (ended, ()) = tokio::join!(term.lead(&application), test);
        assert!(ended.expect("not aborted").is_ok());
    }

    #[tokio::test]
    async fn no_promise_is_extended_while_the_term_is_wound_down() {
        let (term, application) = (TestTerm::new("worker"), application());
        let token = term.term().fencing_token();
        let test = async {
            led(&application).await;
            let promise = application.renew(token).expect("it leads");
            let end = Instant::now().plus(promise.remaining);
            term.cancel();
            let last = application.renew(token).expect("it may still finish");
            assert!(last.winding_down);
            assert!(Instant::now().plus(last.remaining) <= end.plus(Duration::from_millis(1)));
        };
        // It says nothing more: its term ends with its promise.
        let (ended, ()) = tokio::join!(term.lead(&application), test);
        assert!(ended.expect("not aborted").is_ok());
        assert!(application.renew(token).is_none());
    }

    #[tokio::test]
    async fn an_application_without_a_proof_of_its_end_keeps_the_role_until_its_promise_is_over() {
        let (term, application) = (TestTerm::new("worker"), application());
        let token = term.term().fencing_token();
        let (sender, end) = tokio::sync::oneshot::channel();
        let test = async {
            led(&application).await;
            let promise = application.renew(token).expect("it leads");
            let _ = sender.send(Instant::now().plus(promise.remaining));
            application.has_gone(Gone::Unproven);
            assert!(application.renew(token).is_none(), "its connection is over");
        };
        let (ended, ()) = tokio::join!(term.lead(&application), test);
        assert!(ended.expect("not aborted").is_ok());
        let end = end.await.expect("a promise");
        assert!(end.minus(Duration::from_millis(1)).is_over(), "not before");
    }

    #[tokio::test]
    async fn a_promise_that_has_passed_is_not_renewed_and_ends_the_term() {
        let application = Application::new("worker".into(), LEAST_STOP_BUDGET);
        let term = TestTerm::new("worker");
        let token = term.term().fencing_token();
        let ended = term.lead(&application).await.expect("not aborted");
        assert!(ended.expect_err("it hangs").to_string().contains("renew"));
        assert!(application.renew(token).is_none());
        assert!(!application.stopped(token, Ok(())));
    }

    #[test]
    fn a_later_state_is_never_replaced_by_an_earlier_one() {
        let application = application();
        let token = |sequence| FencingToken { epoch: 1, sequence };
        let told = || *application.states().borrow();
        application.tell(State::Leading(token(1)));
        application.tell(State::Ended(token(1), EndCause::Returned));
        application.tell(State::WindingDown(token(1), EndCause::Returned));
        assert_eq!(told(), State::Ended(token(1), EndCause::Returned));
        application.tell(State::Leading(token(2)));
        application.tell(State::Ended(token(1), EndCause::Failed));
        assert_eq!(told(), State::Leading(token(2)));
    }
}
