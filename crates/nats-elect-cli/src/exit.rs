//! How a command ends: its exit code, and what is said of a failure.

use std::io;
use std::process::ExitCode;
#[cfg(unix)]
use std::{sync::mpsc::channel, thread};

use nats_elect::admin::{AdminError, ProblemCode};
use nats_elect::limits::in_words;
use nats_elect::{ConfigError, Denied, Error, NameError};
use serde::Serialize;

#[cfg(unix)]
use crate::logs::LAST;
use crate::output::Output;

/// What exit codes tell scripts. The help text lists them, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// It failed, for none of the reasons below.
    Failed = 1,
    /// What was asked, or a configuration, breaks a rule. clap ends with it as well.
    Usage = 2,
    /// There is no such thing: no leader, no bucket, no context.
    NotFound = 3,
    /// Somebody refused: NATS the credentials or a permission, an instance a request, a check a
    /// proof.
    Refused = 4,
    /// NATS, or an instance, did not answer in time.
    Unreachable = 5,
    /// `exec`: leadership did not come in time. EX_TEMPFAIL of sysexits.h: try again later.
    NotLed = 75,
}

/// What to do if NATS can't be reached.
pub const ADDRESS: &str =
    "check the address: --server, NATS_URL, or the selected context (`nats context ls`)";

/// What a command that did its work returns: 0, or the code of the command that it ran.
pub type Outcome = Result<u8, Failure>;

/// Why a command failed: what, why, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub what: String,
    pub advice: Option<String>,
    /// The reader of the output has gone: nothing is printed, nothing went wrong.
    unheard: bool,
}

impl Failure {
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            advice: None,
            unheard: false,
        }
    }

    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Code::Usage, what)
    }

    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(Code::NotFound, what)
    }

    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(Code::Failed, what)
    }

    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(Code::Refused, what)
    }

    pub fn unreachable(what: impl Into<String>) -> Self {
        Self::new(Code::Unreachable, what)
    }

    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// As [`advice`](Self::advice), if there is any.
    #[must_use]
    pub fn advised(self, advice: Option<impl Into<String>>) -> Self {
        match advice {
            Some(advice) => self.advice(advice),
            None => self,
        }
    }

    /// Tells it on stderr.
    pub fn tell(&self, output: Output) {
        output.failure(&self.code, &self.what, self.advice.as_deref());
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Config(_)
            | Error::RoleConfig { .. }
            | Error::Name(_)
            | Error::DuplicateRole(_) => Code::Usage,
            Error::UnknownRole(_)
            | Error::BucketMissing(_)
            | Error::HistoryNotKept { .. }
            | Error::SuccessorAbsent { .. } => Code::NotFound,
            Error::Authentication(_)
            | Error::Tls(_)
            | Error::PermissionDenied(_)
            | Error::SuccessorRefused { .. }
            | Error::NotLeader
            | Error::UnexpectedTerm { .. } => Code::Refused,
            Error::Unavailable { .. } | Error::Unproven { .. } | Error::StopTimedOut { .. } => {
                Code::Unreachable
            }
            _ => Code::Failed,
        };
        let advice = match &error {
            Error::Unavailable { .. } => Some(ADDRESS),
            Error::BucketMissing(_) => {
                Some("name another with --bucket, or create it: `nats-elect create-bucket`")
            }
            _ => None,
        };
        Self::new(code, error.to_string()).advised(advice)
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        Self::from(&error)
    }
}

impl From<&AdminError> for Failure {
    fn from(error: &AdminError) -> Self {
        let code = match error {
            AdminError::Name(_)
            | AdminError::Config(_)
            | AdminError::Ambiguous { .. }
            | AdminError::TwoBuckets { .. } => Code::Usage,
            AdminError::NoSuchInstance(_) | AdminError::NoLeader(_) => Code::NotFound,
            AdminError::Refused { code, .. } => match code {
                ProblemCode::UnknownRole | ProblemCode::UnknownGroup | ProblemCode::UnknownUnit => {
                    Code::NotFound
                }
                ProblemCode::Unfinished => Code::Unreachable,
                _ => Code::Refused,
            },
            AdminError::Timeout { .. } | AdminError::Unavailable(_) => Code::Unreachable,
            _ => Code::Failed,
        };
        let advice = "name the domain that is meant with --domain. If both have one domain, the bucket may just have been created anew: try again";
        let advice = matches!(error, AdminError::TwoBuckets { .. }).then_some(advice);
        Self::new(code, error.to_string()).advised(advice)
    }
}

/// The verb of the thing that the user may not do.
pub const fn verb(denied: &Denied) -> &'static str {
    if denied.publish {
        "publish"
    } else {
        "subscribe"
    }
}

/// The advice on what to grant where the server forbids something.
pub fn grant(denied: &Denied) -> String {
    let verb = verb(denied);
    let permission = denied.permission();
    format!("grant {verb} {permission:?}: `nats-elect permissions`, docs/security.md")
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::new(Code::Refused, denied.to_string()).advice(grant(&denied))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let unheard = error.kind() == io::ErrorKind::BrokenPipe;
        Self {
            unheard,
            ..Self::new(Code::Failed, in_words(&error))
        }
    }
}

fn code_of(ended: &Outcome) -> ExitCode {
    match ended {
        Ok(code) => ExitCode::from(*code),
        Err(failure) if failure.unheard => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.code as u8),
    }
}

/// Prints why a command failed, if it did. Returns the exit code.
pub fn report(ended: &Outcome, output: Output) -> ExitCode {
    if let Err(failure) = ended
        && !failure.unheard
    {
        failure.tell(output);
    }
    code_of(ended)
}

/// As `report`, but returns also if nobody reads what is said: where a supervisor waits for the end
/// of this process.
#[cfg(unix)]
pub fn report_in_time(ended: Outcome, output: Output) -> ExitCode {
    let code = code_of(&ended);
    if ended.is_err() {
        in_time(move || {
            report(&ended, output);
        });
    }
    code
}

/// Lets something be said on stderr, and waits for that, but not for a reader who does not read.
#[cfg(unix)]
pub fn in_time(say: impl FnOnce() + Send + 'static) {
    let (said, is_said) = channel();
    let saying = thread::Builder::new().spawn(move || {
        say();
        let _ = said.send(());
    });
    if saying.is_ok() {
        let _ = is_said.recv_timeout(LAST);
    }
}
