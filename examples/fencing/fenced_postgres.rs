//! A stale leader's write that PostgreSQL refuses:
//! `cargo run -p nats-elect-example-fencing --example fenced_postgres`
//!
//! Without `DATABASE_URL` it starts a private server: the PostgreSQL of this machine, else Debian's
//! package, unpacked without installing it. What happens, and what `-- --wrong-token` does, is as
//! in `fenced_sqlite`; this one is about transactions that run side by side.
//!
//! **Form of the token:** its two numbers in two columns. PostgreSQL compares rows, column by
//! column, and people who look at the table find there what the logs of the instances show.
//! `bigint` is signed, but the numbers fit: the epoch, in nanoseconds, until the year 2262. (Text
//! from `to_string` would do too, in a column with `COLLATE "C"`.)

#[path = "../../tests/support/debian.rs"]
mod debian;
#[path = "packages.rs"]
mod packages;
#[path = "server.rs"]
mod server;
#[path = "story.rs"]
mod story;

use std::process::ExitCode;

use nats_elect::FencingToken;
use tokio_postgres::{Client, NoTls};

pub use server::Server;
pub use story::{Ledger, Problem, Written};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS fence (role text PRIMARY KEY, epoch bigint NOT NULL, sequence bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS ledger (
        n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        epoch bigint NOT NULL, sequence bigint NOT NULL, line text NOT NULL);
";

/// Raises the role's fence to this token. If the fence is higher already, no row is changed: the
/// term is stale.
///
/// It is one statement, and it locks the role's row until the transaction ends. Whoever comes
/// second waits, and compares with what the first one has committed, at the isolation level `READ
/// COMMITTED`; at higher levels its transaction fails with a serialization error, which refuses it
/// as well. With a `SELECT` before the write, two could both find their token good enough.
const RAISE_FENCE: &str = "
    INSERT INTO fence (role, epoch, sequence) VALUES ($1, $2, $3)
    ON CONFLICT (role) DO UPDATE SET epoch = excluded.epoch, sequence = excluded.sequence
    WHERE (fence.epoch, fence.sequence) <= (excluded.epoch, excluded.sequence)";

/// One instance's connection.
pub struct Postgres {
    client: Client,
}

impl Postgres {
    /// Connects, and makes the tables in this schema if they are missing.
    pub async fn connect(config: &str, schema: &str) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(config, NoTls).await?;
        tokio::spawn(connection);
        let place = format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema};");
        client.batch_execute(&(place + TABLES)).await?;
        Ok(Self { client })
    }

    /// Leaves nothing behind in a database that is not ours.
    pub async fn drop_schema(&self, schema: &str) -> Result<(), tokio_postgres::Error> {
        let drop = format!("DROP SCHEMA {schema} CASCADE");
        self.client.batch_execute(&drop).await
    }
}

impl Ledger for Postgres {
    /// The work is in one transaction with the fence, and in later statements: they see what the
    /// one before has committed, and a newer leader waits until they stand. (In one statement with
    /// the fence, as a `WITH`, the work would see the data as they were before the wait for the
    /// lock.)
    async fn write(
        &mut self,
        role: &str,
        token: FencingToken,
        line: &str,
    ) -> Result<Written, Problem> {
        let epoch = i64::try_from(token.epoch)?;
        let sequence = i64::try_from(token.sequence)?;
        let transaction = self.client.transaction().await?;
        let raised = transaction
            .execute(RAISE_FENCE, &[&role, &epoch, &sequence])
            .await?;
        if raised == 0 {
            transaction.rollback().await?;
            return Ok(Written::Stale);
        }
        let insert = "INSERT INTO ledger (epoch, sequence, line) VALUES ($1, $2, $3)";
        transaction
            .execute(insert, &[&epoch, &sequence, &line])
            .await?;
        transaction.commit().await?;
        Ok(Written::Accepted)
    }

    async fn lines(&mut self) -> Result<Vec<String>, Problem> {
        let rows = self
            .client
            .query("SELECT line FROM ledger ORDER BY n", &[])
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    story::verdict(run().await)
}

async fn run() -> Result<(), Problem> {
    let (config, _private) = database()?;
    let schema = format!("fenced_story_{}", std::process::id());
    let connect = || Postgres::connect(&config, &schema);
    let (alpha, beta, third) = (connect().await?, connect().await?, connect().await?);
    let told = story::tell(alpha, beta).await;
    third.drop_schema(&schema).await?;
    told
}

/// How to connect to the database that `DATABASE_URL` names, or to a private one, which lasts as
/// long as the second value.
pub fn database() -> Result<(String, Option<Server>), Problem> {
    if let Ok(url) = std::env::var("DATABASE_URL") {
        return Ok((url, None));
    }
    let private = Server::start()?;
    Ok((private.config(), Some(private)))
}
