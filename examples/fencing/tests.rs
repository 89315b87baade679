//! The examples of fencing in other systems, as a reader runs them; and their statements, against
//! writes in any order.
#![cfg(unix)]
#![allow(clippy::duplicate_mod, reason = "each example has its story")]

use std::process::{Command, Output};

use nats_elect::FencingToken;
use rand::RngExt;
use tokio::task::JoinSet;

#[allow(dead_code, reason = "it has a `main`")]
mod fenced_postgres;
#[allow(dead_code, reason = "it has a `main`")]
mod fenced_sqlite;

const ROLE: &str = "billing";
const WRITERS: usize = 4;
const WRITES: usize = 160;

/// `cargo run -p nats-elect-example-fencing --example <name> -- <arguments>`, at the top of the repository.
fn run(name: &str, arguments: &[&str]) -> Output {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "-p", env!("CARGO_PKG_NAME")]);
    cargo.args(["--example", name]);
    // In this folder the features of some dependencies would be others.
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    // What cargo tells this test of its package would make it build some dependencies anew.
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.arg("--").args(arguments).output();
    let output = output.expect("cargo");
    eprintln!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn refuses_the_late_write(name: &str) {
    let output = run(name, &[]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", output.status);
    assert!(told.contains("6. alpha's write arrives, late: refused as stale"));
    assert!(told.contains("stand: invoice 1, by alpha; invoice 2, by beta\n"));
}

/// The story fails where the late write bears a token that it has no right to: it can fail.
fn sees_the_late_write_accepted(name: &str) {
    let output = run(name, &["--wrong-token"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("6. alpha's write arrives, late: accepted"));
    assert!(told.contains("invoice 2, by beta; invoice 2, by alpha\n"));
}

#[test]
fn sqlite_refuses_a_late_write() {
    refuses_the_late_write("fenced_sqlite");
}

#[test]
fn postgres_refuses_a_late_write() {
    refuses_the_late_write("fenced_postgres");
}

#[test]
fn sqlite_can_be_told_the_wrong_token() {
    sees_the_late_write_accepted("fenced_sqlite");
}

#[test]
fn postgres_can_be_told_the_wrong_token() {
    sees_the_late_write_accepted("fenced_postgres");
}

/// Tokens of two buckets, with numbers of few and of many digits.
fn tokens() -> Vec<FencingToken> {
    let mut random = rand::rng();
    let token = |_| FencingToken {
        epoch: 1_795_281_215_153_965_612 + random.random_range(0..2),
        sequence: 10_u64.pow(random.random_range(0..19)) - random.random_range(0..2),
    };
    (0..WRITES).map(token).collect()
}

/// Lines bear the tokens with which they were written.
fn judge(lines: &[String], given: &[FencingToken]) {
    let accepted: Vec<FencingToken> = lines
        .iter()
        .map(|line| line.parse().expect("a token"))
        .collect();
    assert!(accepted.is_sorted(), "a stale write: {accepted:?}");
    assert_eq!(accepted.last(), given.iter().max(), "the newest is refused");
    assert!(accepted.len() < given.len(), "nothing was stale");
}

/// On a slow disk the others may hold the file for longer than a connection waits for it.
fn is_busy(problem: &fenced_sqlite::Problem) -> bool {
    let error = problem.downcast_ref::<rusqlite::Error>();
    error.and_then(rusqlite::Error::sqlite_error_code) == Some(rusqlite::ErrorCode::DatabaseBusy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_accepts_no_smaller_token_after_a_greater_one() {
    use fenced_sqlite::{Ledger, Sqlite};
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Sqlite::open(&folder.path().join("ledger.db")).expect("open");
    let ledgers: Vec<_> = (0..WRITERS).map(|_| open()).collect();
    let (given, mut writers) = (tokens(), JoinSet::new());
    for (mut ledger, tokens) in ledgers.into_iter().zip(given.chunks(WRITES / WRITERS)) {
        let tokens = tokens.to_vec();
        writers.spawn(async move {
            for token in tokens {
                let line = token.to_string();
                let written = loop {
                    let written = Ledger::write(&mut ledger, ROLE, token, &line).await;
                    if !written.as_ref().is_err_and(is_busy) {
                        break written;
                    }
                };
                written.expect("an answer");
            }
        });
    }
    writers.join_all().await;
    judge(&open().lines().await.expect("lines"), &given);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_accepts_no_smaller_token_after_a_greater_one() {
    use fenced_postgres::{Ledger, Postgres, database};
    let (config, _private) = database().expect("a database");
    let schema = format!("fenced_test_{}", std::process::id());
    let connect = async || {
        let connected = Postgres::connect(&config, &schema).await;
        connected.expect("connect")
    };
    let (given, mut writers) = (tokens(), JoinSet::new());
    for tokens in given.chunks(WRITES / WRITERS) {
        let (mut ledger, tokens) = (connect().await, tokens.to_vec());
        writers.spawn(async move {
            for token in tokens {
                let written = ledger.write(ROLE, token, &token.to_string()).await;
                written.expect("an answer");
            }
        });
    }
    writers.join_all().await;
    let mut reader = connect().await;
    let lines = reader.lines().await.expect("lines");
    reader.drop_schema(&schema).await.expect("drop");
    judge(&lines, &given);
}
