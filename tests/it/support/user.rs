//! NATS users with permissions, and what the server says about what they try.

use std::sync::{Arc, Mutex};

use async_nats::{Client, ConnectOptions, Event};
use nats_elect_testing::{NatsServer, eventually};

use super::SOON;

/// The users of files like those in `deploy/nats`, in one configuration.
pub fn users_of(files: &[&str]) -> String {
    let users = files.iter().map(|file| {
        let (_, users) = file.split_once("users = [").expect("a list of users");
        let (users, _) = users.rsplit_once(']').expect("its end");
        users
    });
    let users: String = users.collect();
    format!("authorization {{ users = [ {users} ] }}\n")
}

/// A configuration with a user `u` who may do anything but publish to these subjects, and a user
/// `all`.
pub fn all_but(denied: &[&str]) -> String {
    format!(
        "authorization {{ users = [ {{ user: all, password: p }}
           {{ user: u, password: p, permissions: {{ publish: {{ allow: \">\", deny: {denied:?} }}, subscribe: \">\" }} }} ] }}\n"
    )
}

/// How often this server refused a publish to this subject.
pub fn violations(server: &NatsServer, subject: &str) -> usize {
    let subject = format!("\"{subject}\"");
    let log = server.log();
    log.lines()
        .filter(|line| line.contains("Publish Violation") && line.contains(&subject))
        .count()
}

/// A plain client that hears what it may not do.
pub struct User {
    pub client: Client,
    denied: Arc<Mutex<Vec<String>>>,
}

impl User {
    pub async fn connect(url: &str, user: &str, password: &str) -> Self {
        Self::connect_under(url, user, password, "_INBOX").await
    }

    /// Its answers come in under this prefix.
    pub async fn connect_under(url: &str, user: &str, password: &str, inbox: &str) -> Self {
        let denied = Arc::<Mutex<Vec<String>>>::default();
        let told = Arc::clone(&denied);
        let client = ConnectOptions::with_user_and_password(user.into(), password.into())
            .custom_inbox_prefix(inbox)
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    told.lock().expect("no panic").push(error.to_string());
                }
                std::future::ready(())
            })
            .connect(url)
            .await
            .expect("connect");
        Self { client, denied }
    }

    /// Publishes, and waits for the server to forbid it.
    pub async fn may_not_publish(&self, subject: &str) {
        let published = self.client.publish(subject.to_owned(), "x".into()).await;
        published.expect("published");
        eventually(SOON, &format!("a refusal of {subject}"), async || {
            let denied = self.denied.lock().expect("no panic");
            let subject = format!("\"{subject}\"");
            denied
                .iter()
                .any(|text| text.contains(&subject))
                .then_some(())
        })
        .await;
    }

    /// What it was not allowed to do.
    pub fn denied(&self) -> Vec<String> {
        self.denied.lock().expect("no panic").clone()
    }
}
