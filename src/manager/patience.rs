//! Questions at the start that are asked again while NATS can't answer.

use std::time::Duration;

use tokio::time::sleep;

use crate::clock;
use crate::store::StoreError;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// The pause before a question is asked again.
const PAUSE: Duration = Duration::from_millis(250);

/// Asks until there is an answer or an error that lasts, for that time at most. `ask` takes the time
/// within which the answer has to come.
pub async fn patiently<T, F>(within: Duration, ask: impl Fn(Duration) -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let left = clock::countdown(within);
    loop {
        let left = left();
        match ask(left.min(ANSWER)).await {
            Err(error) if error.is_transient() && left > PAUSE => sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Asks where the first answers are that NATS is unavailable. Returns how often, and what came of it.
    async fn ask(
        unavailable: u32,
        within: Duration,
        last: Result<(), StoreError>,
    ) -> (u32, Result<(), StoreError>) {
        let asked = Cell::new(0);
        let answer = patiently(within, |_| async {
            asked.set(asked.get() + 1);
            if asked.get() <= unavailable {
                return Err(StoreError::Unavailable("no leader".into()));
            }
            last.clone()
        })
        .await;
        (asked.get(), answer)
    }

    #[tokio::test]
    async fn what_nats_cannot_answer_now_is_asked_again_for_a_time() {
        let minute = Duration::from_secs(60);
        assert_eq!(ask(3, minute, Ok(())).await, (4, Ok(())));
        let lasting = Err(StoreError::PermissionDenied("no".into()));
        assert_eq!(ask(0, minute, lasting.clone()).await, (1, lasting));
        let (asked, answer) = ask(u32::MAX, PAUSE * 2, Ok(())).await;
        assert!(answer.is_err());
        assert!((2..=3).contains(&asked), "{asked}");
    }
}
