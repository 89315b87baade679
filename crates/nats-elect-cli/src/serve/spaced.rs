//! Answers about everything, which take time in proportion to all that there is. However many ask for
//! one and however much changes, each is made one at a time. One that is made in half a second takes
//! a fifth of a processor at most.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::fleet::now;

/// The pause after an answer was made, as a multiple of the time that this took.
const PAUSE: u32 = 4;
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);

/// An answer that is made again and again.
#[derive(Clone, Default)]
pub struct Spaced(Arc<Mutex<Option<Made>>>);

struct Made {
    began: Instant,
    took: Duration,
    text: Arc<str>,
}

impl Spaced {
    /// Returns the answer, made after this call: those who wait at the same time share it. It is made
    /// where it keeps no other request waiting.
    pub async fn get(&self, make: impl FnOnce() -> String + Send + 'static) -> Arc<str> {
        let asked = now();
        let mut last = Arc::clone(&self.0).lock_owned().await;
        if let Some(made) = &*last {
            if made.began >= asked {
                return Arc::clone(&made.text);
            }
            let pause = (made.took * PAUSE).min(LONGEST);
            tokio::time::sleep_until(made.began + made.took + pause).await;
        }
        // It goes on for the others if this one breaks off.
        let making = tokio::task::spawn_blocking(move || {
            let began = now();
            let text = Arc::<str>::from(make());
            *last = Some(Made {
                began,
                took: now().duration_since(began),
                text: Arc::clone(&text),
            });
            text
        });
        let text = making.await;
        text.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn who_asks_at_the_same_time_shares_an_answer_and_none_is_older_than_its_question() {
        let spaced = Spaced::default();
        let count = Arc::new(AtomicUsize::new(0));
        let ask = || {
            let count = Arc::clone(&count);
            spaced.get(move || (count.fetch_add(1, Ordering::SeqCst) + 1).to_string())
        };
        let all = futures::future::join_all((0..100).map(|_| ask())).await;
        assert!(all.iter().all(|it| matches!(&**it, "1" | "2")), "{all:?}");
        let before = count.load(Ordering::SeqCst);
        assert_eq!(&*ask().await, (before + 1).to_string());
    }
}
