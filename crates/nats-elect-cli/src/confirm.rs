//! Questions to the user of a terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::thread;

use tokio::sync::oneshot;

use crate::exit::Failure;

/// Fails unless there is a terminal to confirm something on, or that was said to be done already.
pub fn can_be_confirmed(yes: bool, advice: &str) -> Result<(), Failure> {
    if yes || io::stdin().is_terminal() && io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage("there is no terminal to confirm it on").advice(advice))
}

/// Asks the user of the terminal. Fails unless the answer is yes.
pub async fn confirm(question: &str) -> Result<(), Failure> {
    let question = format!("{question} [y/N] ");
    let (answered, answer) = oneshot::channel();
    // A thread of its own: nobody has to type anything for this process to end.
    thread::spawn(move || {
        let mut err = io::stderr().lock();
        let _ = err.write_all(question.as_bytes());
        let _ = err.flush();
        drop(err);
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = answered.send(read.map(|_| line));
    });
    let answer = answer.await.map_err(io::Error::other)??;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::refused("not confirmed: nothing was done")),
    }
}
