//! What each process writes down about itself.

use std::collections::HashMap;

use ::drill::Moment;
use ::drill::journal::Record;
use nats_elect::FencingToken;
use serde::{Deserialize, Serialize};

/// What happened. Terms are numbered within their process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The first line: who this is, and the how-many-eth process of that name.
    Started { instance: String, process: u32 },
    /// The instance stands for election.
    Standing,
    /// A handler was started.
    Leading {
        term: u32,
        role: String,
        token: FencingToken,
    },
    /// The term was valid at that time: the clock was read before `Term::is_valid` was asked, and
    /// it said yes. Valid terms have been so since their start, and once they are not they never
    /// are again; so two such lines of a term tell that it was valid from the one to the other.
    Valid(u32),
    /// The term has entered its piece of work of this number in the role's ledger.
    Worked { term: u32, number: u64 },
    /// The handler has ended.
    Ended(u32),
    /// The instance has left every election.
    Stopped,
}

/// A process's history, term by term.
pub fn tenures(records: &[Record<What>]) -> Vec<Tenure> {
    let mut tenures: Vec<Tenure> = Vec::new();
    let mut who = (String::new(), 0);
    // By number: two handlers that start at one time may write in either order.
    let mut places = HashMap::new();
    for record in records {
        match &record.what {
            What::Started { instance, process } => who = (instance.clone(), *process),
            What::Leading { term, role, token } => {
                places.insert(*term, tenures.len());
                tenures.push(Tenure {
                    instance: who.0.clone(),
                    process: who.1,
                    role: role.clone(),
                    token: *token,
                    valid: None,
                    worked: Vec::new(),
                });
            }
            What::Valid(term) => {
                if let Some(place) = places.get(term) {
                    let tenure = &mut tenures[*place];
                    let (first, last) = tenure.valid.unwrap_or((record.at, record.at));
                    tenure.valid = Some((first.min(record.at), last.max(record.at)));
                }
            }
            What::Worked { term, number } => {
                if let Some(place) = places.get(term) {
                    tenures[*place].worked.push(*number);
                }
            }
            What::Standing | What::Ended(_) | What::Stopped => {}
        }
    }
    tenures
}

/// One term, as far as its history shows it.
#[derive(Clone, Debug)]
pub struct Tenure {
    pub instance: String,
    pub process: u32,
    pub role: String,
    pub token: FencingToken,
    /// The first and the last time at which it was seen to be valid.
    pub valid: Option<(Moment, Moment)>,
    /// The numbers of the work that it claims to have done.
    pub worked: Vec<u64>,
}
