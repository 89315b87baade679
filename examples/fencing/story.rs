//! A leader that does not notice that it was replaced, and the late write that its database
//! refuses.

use std::fmt;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use nats_elect::{FencingToken, RoleConfig, RoleManager, StopOptions, Storage, Term, handler_fn};
use nats_elect_testing::{NatsServer, TcpProxy};
use tokio::sync::{mpsc, oneshot};

/// Any error, for people to read.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It stands.
    Accepted,
    /// A later term has written already. Nothing was changed.
    Stale,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted",
            Self::Stale => "refused as stale",
        })
    }
}

/// One instance's connection to the database that the role's leaders write to.
pub trait Ledger: Send + 'static {
    /// Adds a line for the term that has this token, unless the database has seen a later term of
    /// the role.
    fn write(
        &mut self,
        role: &str,
        token: FencingToken,
        line: &str,
    ) -> impl Future<Output = Result<Written, Problem>> + Send;

    /// All lines that were accepted, in order.
    fn lines(&mut self) -> impl Future<Output = Result<Vec<String>, Problem>> + Send;
}

const ROLE: &str = "billing";
const PATIENCE: Duration = Duration::from_secs(30);
/// Tells the story with a mistake, to see that it matters.
const MISTAKE: &str = "--wrong-token";

/// What a program answers that told the story.
pub fn verdict(outcome: Result<(), Problem>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("FAILED: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Tells the story, with the database connections of two instances. It ends well only if the
/// database refused the late write, and nothing else.
pub async fn tell<L: Ledger>(mut alpha: L, mut beta: L) -> Result<(), Problem> {
    let server = NatsServer::start()?;
    let network = TcpProxy::start(server.url())?;
    let (elected, mut elections) = mpsc::unbounded_channel();

    let alpha_manager = stand("alpha", network.url(), &elected).await?;
    let old = next(&mut elections).await?;
    println!(
        "1. alpha leads the role `{ROLE}`, with token {}",
        old.fencing_token()
    );
    let beta_manager = stand("beta", server.url(), &elected).await?;

    let first = alpha
        .write(ROLE, old.fencing_token(), "invoice 1, by alpha")
        .await?;
    println!("2. alpha writes invoice 1: {first}");
    expect(first, Written::Accepted)?;

    println!(
        "3. alpha begins invoice 2, and asks whether it leads: {}",
        old.is_valid()
    );
    println!(
        "   on its way to the database the write is held up, by a slow disk, a proxy, a retry"
    );
    let mistake = std::env::args().any(|argument| argument == MISTAKE);
    let (go_on, held_up) = oneshot::channel();
    let token = old.fencing_token();
    let late = tokio::spawn(async move {
        let latest: FencingToken = held_up.await?;
        let token = if mistake { latest } else { token };
        alpha.write(ROLE, token, "invoice 2, by alpha").await
    });

    network.black_hole();
    let new = next(&mut elections).await?;
    println!(
        "4. alpha is cut off from NATS; its lease ends, and beta leads, with token {}",
        new.fencing_token()
    );
    if old.is_valid() || old.fencing_token() >= new.fencing_token() {
        return Err("two leaders at once, or a token that did not grow".into());
    }
    let second = beta
        .write(ROLE, new.fencing_token(), "invoice 2, by beta")
        .await?;
    println!("5. beta writes invoice 2: {second}");
    expect(second, Written::Accepted)?;

    let _ = go_on.send(new.fencing_token());
    let late = late.await??;
    println!("6. alpha's write arrives, late: {late}");
    let lines = beta.lines().await?;
    println!("7. in the database stand: {}", lines.join("; "));
    expect(late, Written::Stale)?;
    if lines != ["invoice 1, by alpha", "invoice 2, by beta"] {
        return Err("the database holds something else than what was accepted".into());
    }

    network.restore();
    alpha_manager.stop(StopOptions::default()).await?;
    beta_manager.stop(StopOptions::default()).await?;
    println!("Each invoice was written once.");
    Ok(())
}

/// An instance that hands out its terms as it is elected.
async fn stand(
    id: &str,
    url: String,
    elected: &mpsc::UnboundedSender<Term>,
) -> Result<RoleManager, Problem> {
    let elected = elected.clone();
    let lead = handler_fn(move |term: Term| {
        let elected = elected.clone();
        async move {
            elected.send(term.clone())?;
            term.cancelled().await;
            Ok(())
        }
    });
    let manager = RoleManager::builder()
        .servers(url)
        .bucket("leaders")
        .bucket_auto_create()
        .storage(Storage::Memory)
        .instance_id(id)
        .role(
            ROLE,
            RoleConfig::default().ttl(Duration::from_secs(1)),
            lead,
        );
    Ok(manager.start().await?)
}

async fn next(elections: &mut mpsc::UnboundedReceiver<Term>) -> Result<Term, Problem> {
    let term = tokio::time::timeout(PATIENCE, elections.recv()).await?;
    term.ok_or_else(|| "nobody stands any more".into())
}

fn expect(became: Written, due: Written) -> Result<(), Problem> {
    if became == due {
        return Ok(());
    }
    Err(format!("the write was {became}, and should have been {due}").into())
}
