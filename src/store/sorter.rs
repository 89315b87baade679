//! Sorts the answers of one subscription: each goes to what awaits it, by the number at the end of its
//! subject.
//!
//! Reply subjects have 128 random bits for the subscription and 128 for each place. So only those who
//! received a message can answer it.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use async_nats::{Message, Subscriber};
use futures::StreamExt;
use tokio::task::JoinHandle;

use crate::lock::lock;

/// What awaits answers, and the task that sorts these. The task ends when this is dropped.
#[derive(Debug)]
pub(super) struct Sorter<T> {
    /// The beginning of the reply subjects, with the trailing dot.
    prefix: String,
    /// By the numbers of their places.
    awaiting: Mutex<HashMap<u128, T>>,
    /// Set once the subscription was sent.
    sorting: OnceLock<JoinHandle<()>>,
}

/// A place for answers. They are awaited until it is dropped.
#[derive(Debug)]
pub(super) struct Place<T> {
    /// The reply subject.
    pub reply: String,
    number: u128,
    sorter: Arc<Sorter<T>>,
}

impl<T: Send + 'static> Sorter<T> {
    /// Reply subjects begin with this prefix.
    pub fn new(prefix: &str) -> Arc<Self> {
        Arc::new(Self {
            prefix: format!("{prefix}.{:032x}.", rand::random::<u128>()),
            awaiting: Mutex::default(),
            sorting: OnceLock::new(),
        })
    }

    /// The subject of the subscription to answers.
    pub fn subscription(&self) -> String {
        format!("{}*", self.prefix)
    }

    /// Hands each answer to `pass`, with what awaits it. When the client has ended, nothing is awaited
    /// any more.
    pub fn sort(
        self: &Arc<Self>,
        mut answers: Subscriber,
        pass: fn(OccupiedEntry<'_, u128, T>, Message),
    ) {
        let sorter = Arc::downgrade(self);
        let sorting = tokio::spawn(async move {
            while let Some(answer) = answers.next().await {
                let Some(sorter) = sorter.upgrade() else {
                    return;
                };
                let number = answer.subject.strip_prefix(&*sorter.prefix);
                let number = number.and_then(|number| u128::from_str_radix(number, 16).ok());
                let Some(number) = number else { continue };
                if let Entry::Occupied(awaiting) = sorter.awaiting().entry(number) {
                    pass(awaiting, answer);
                }
            }
            if let Some(sorter) = sorter.upgrade() {
                sorter.awaiting().clear();
            }
        });
        self.sorting.get_or_init(|| sorting);
    }

    /// Whether answers are sorted. They are no more if the runtime that sorted them has ended.
    pub fn sorts(&self) -> bool {
        self.sorting.get().is_some_and(|it| !it.is_finished())
    }

    /// Makes a place for answers to a message that is about to be sent.
    pub fn place(self: &Arc<Self>, awaiting: T) -> Place<T> {
        let number = rand::random();
        self.awaiting().insert(number, awaiting);
        Place {
            reply: format!("{}{number:032x}", self.prefix),
            number,
            sorter: Arc::clone(self),
        }
    }

    pub fn awaiting(&self) -> MutexGuard<'_, HashMap<u128, T>> {
        lock(&self.awaiting)
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        lock(&self.sorter.awaiting).remove(&self.number);
    }
}

impl<T> Drop for Sorter<T> {
    fn drop(&mut self) {
        if let Some(sorting) = self.sorting.get() {
            sorting.abort();
        }
    }
}
