//! A stale leader's write that SQLite refuses:
//! `cargo run -p nats-elect-example-fencing --example fenced_sqlite`
//!
//! A lease can end while a write is under way. Nobody but the database can refuse it then, by
//! comparing the term's fencing token with the highest that it has seen. With `-- --wrong-token`
//! the late write bears the newest token instead of the one of the term in which it was decided on:
//! the mistake that makes fencing useless.
//!
//! **Form of the token:** text, from its `Display`. SQLite's integers are signed
//! and have 64 bits, too few for a token; text it compares byte by byte, which is the order of the
//! tokens. Do not give the column another collation.

#[path = "story.rs"]
mod story;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nats_elect::FencingToken;
use rusqlite::{Connection, TransactionBehavior};

pub use story::{Ledger, Problem, Written};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS fence (role TEXT PRIMARY KEY, token TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS ledger (n INTEGER PRIMARY KEY, token TEXT NOT NULL, line TEXT NOT NULL) STRICT;
";

/// Raises the role's fence to this token. If the fence is higher already, no row is changed: the
/// term is stale.
///
/// Compare and write are one statement. Between a `SELECT` that finds the token good enough and a
/// later write, a newer leader could write.
const RAISE_FENCE: &str = "
    INSERT INTO fence (role, token) VALUES (?1, ?2)
    ON CONFLICT (role) DO UPDATE SET token = excluded.token
    WHERE excluded.token >= fence.token";

/// One instance's connection.
pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Opens the file, and makes the tables if they are missing.
    pub fn open(file: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(file)?;
        // Another connection may be in a transaction.
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection })
    }

    /// The work is in one transaction with the fence, and after it: it stands if the fence was
    /// raised, and no newer leader can raise the fence in between. A new leader that begins by
    /// reading should raise the fence before that.
    fn write(&mut self, role: &str, token: FencingToken, line: &str) -> rusqlite::Result<Written> {
        let token = token.to_string();
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if transaction.execute(RAISE_FENCE, (role, &token))? == 0 {
            return Ok(Written::Stale); // Dropping the transaction rolls it back.
        }
        transaction.execute(
            "INSERT INTO ledger (token, line) VALUES (?1, ?2)",
            (&token, line),
        )?;
        transaction.commit()?;
        Ok(Written::Accepted)
    }
}

impl Ledger for Sqlite {
    async fn write(
        &mut self,
        role: &str,
        token: FencingToken,
        line: &str,
    ) -> Result<Written, Problem> {
        // SQLite blocks its thread.
        Ok(tokio::task::block_in_place(|| {
            Self::write(self, role, token, line)
        })?)
    }

    async fn lines(&mut self) -> Result<Vec<String>, Problem> {
        let mut lines = self
            .connection
            .prepare("SELECT line FROM ledger ORDER BY n")?;
        let lines = lines.query_map((), |row| row.get(0))?;
        Ok(lines.collect::<Result<_, _>>()?)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    story::verdict(run().await)
}

async fn run() -> Result<(), Problem> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ledger.db");
    story::tell(Sqlite::open(&file)?, Sqlite::open(&file)?).await
}
