//! The terms of a role: those that the history has, and those that were seen here. A term is known
//! by its fencing token, so one that is in both counts once.

use std::time::{Duration, SystemTime};

use nats_elect::FencingToken;

use super::facts::{Who, same};

/// Terms of a role that are kept: the history has no more than half as many.
const MOST_TERMS: usize = 20_000;

/// A term, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Term {
    who: Who,
    /// Not known between a claim and its fence record, nor of other libraries.
    token: Option<FencingToken>,
    /// When it was seen to begin, if it was, by this machine's wall clock.
    seen_at: Option<SystemTime>,
    /// When it began, by the clock of NATS or of its instance.
    began: Option<SystemTime>,
    /// Its very claim was seen, and not only that somebody else leads than before.
    claimed: bool,
    /// It comes from the history alone.
    told: bool,
    over: bool,
    /// Its end was seen here.
    end_seen: bool,
    /// Its fence record was asked for.
    asked: bool,
}

impl Term {
    const fn new(who: Who, token: Option<FencingToken>) -> Self {
        Self {
            who,
            token,
            seen_at: None,
            began: None,
            claimed: false,
            told: false,
            over: false,
            end_seen: false,
            asked: false,
        }
    }

    fn at(&self) -> Option<SystemTime> {
        self.seen_at.or(self.began)
    }

    fn is_present_of(&self, who: &Who) -> bool {
        !self.over && same(&self.who, who)
    }
}

/// For how long somebody has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedFor {
    About(Duration),
    /// Its beginning is not known.
    AtLeast(Duration),
}

/// The terms of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    terms: Vec<Term>,
    /// The last change that was seen is that its leader freed it.
    pub freed: bool,
}

impl Past {
    /// Somebody is seen to lead, by this term if it is known.
    pub fn leads(&mut self, who: &Who, token: Option<FencingToken>) {
        let Some(token) = token else {
            if !self.terms.iter().any(|term| term.is_present_of(who)) {
                self.push(Term::new(who.clone(), None));
            }
            return;
        };
        let told = self.terms.iter().position(|it| it.token == Some(token));
        let is_it = |term: &Term| term.token.is_none() && term.is_present_of(who);
        match (told, self.terms.iter().rposition(is_it)) {
            (None, None) => self.push(Term::new(who.clone(), Some(token))),
            (None, Some(at)) => self.terms[at].token = Some(token),
            (Some(at), None) => {
                self.terms[at].over = false;
                self.terms[at].told = false;
            }
            // The history was read before the claim was told.
            (Some(told), Some(at)) => {
                self.terms[at].token = Some(token);
                self.terms[at].began = self.terms[told].began;
                self.terms.remove(told);
            }
        }
    }

    /// Somebody claimed the role, or is found to lead it.
    pub fn begins(&mut self, who: &Who, claimed: bool, now: SystemTime) {
        let known = |term: &Term| !term.told && !same(&term.who, who);
        let was_led = self.terms.iter().any(known);
        if !claimed && let Some(last) = self.terms.last_mut().filter(|last| same(&last.who, who)) {
            last.over = false;
            // It was seen to lead before this was told.
            if was_led && last.at().is_none() {
                last.seen_at = Some(now);
            }
            return;
        }
        let mut terms = self.terms.iter_mut();
        let unseen = terms.find(|term| term.is_present_of(who) && term.seen_at.is_none());
        if let Some(term) = unseen {
            term.seen_at = Some(now);
            term.claimed = claimed;
            return;
        }
        self.push(Term {
            seen_at: (claimed || was_led).then_some(now),
            claimed,
            ..Term::new(who.clone(), None)
        });
    }

    /// The term of this leader was seen to end.
    pub fn ends(&mut self, who: &Who) {
        // What is seen may be ahead of what is told: the first of two terms is the one.
        if let Some(term) = self.terms.iter_mut().find(|term| term.is_present_of(who)) {
            term.over = true;
            term.end_seen = true;
        }
    }

    /// The history has the beginning of a term. Returns whether it was not seen here. Tell the
    /// latest first.
    pub fn began(&mut self, who: Who, token: FencingToken, at: SystemTime) -> bool {
        if let Some(term) = self.of(token) {
            term.began = term.began.or(Some(at));
            return term.seen_at.is_none();
        }
        // It was over before its token was seen.
        let is_it =
            |term: &&mut Term| term.token.is_none() && term.claimed && same(&term.who, &who);
        if let Some(term) = self.terms.iter_mut().rev().find(is_it) {
            term.token = Some(token);
            return false;
        }
        self.push(Term {
            began: Some(at),
            told: true,
            over: true,
            ..Term::new(who, Some(token))
        });
        true
    }

    /// Puts terms of the history into their places.
    pub fn sort(&mut self) {
        self.terms
            .sort_by_key(|term| (term.token.is_none(), term.token));
    }

    /// The history has the end of a term. Returns whether it was not seen here.
    pub fn ended(&mut self, token: FencingToken) -> bool {
        self.of(token).is_none_or(|term| !term.end_seen)
    }

    /// NATS stored the fence record of this term at that time.
    pub fn fenced(&mut self, token: FencingToken, at: SystemTime) {
        if let Some(term) = self.of(token) {
            term.began = Some(at);
        }
    }

    /// Whether the fence record of this term is to be asked for, which is so once.
    pub fn wants_fence(&mut self, token: FencingToken) -> bool {
        self.of(token)
            .is_some_and(|term| !term.claimed && !std::mem::replace(&mut term.asked, true))
    }

    /// For how long this leader has led. `since`: for how long that was watched.
    pub fn led_for(
        &self,
        who: &Who,
        token: Option<FencingToken>,
        since: Duration,
        now: SystemTime,
    ) -> LedFor {
        let mut terms = self.terms.iter().rev();
        let term = terms.find(|term| {
            term.is_present_of(who)
                && (token.is_none() || term.token.is_none_or(|it| Some(it) == token))
        });
        match term {
            Some(term) if term.claimed => LedFor::About(since),
            Some(Term {
                began: Some(began), ..
            }) => {
                let by_clocks = now.duration_since(*began).unwrap_or_default();
                LedFor::About(by_clocks.max(since))
            }
            _ => LedFor::AtLeast(since),
        }
    }

    /// How often somebody became the leader after that time.
    pub fn changes(&self, after: SystemTime) -> usize {
        self.times().filter(|at| *at >= after).count()
    }

    /// When somebody became the leader last.
    pub fn last(&self) -> Option<SystemTime> {
        self.times().max()
    }

    fn times(&self) -> impl Iterator<Item = SystemTime> {
        self.terms.iter().filter_map(Term::at)
    }

    fn of(&mut self, token: FencingToken) -> Option<&mut Term> {
        self.terms.iter_mut().find(|term| term.token == Some(token))
    }

    fn push(&mut self, term: Term) {
        if self.terms.len() == MOST_TERMS {
            self.terms.remove(0);
        }
        self.terms.push(term);
    }
}
