//! The log of outages of the connection: one warning when an outage begins, one a minute while it
//! lasts, and its length when it is over. A connection that is lost again and again is one warning a
//! minute, with its count.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::repeated::{REMINDER, Repeated};
use nats_elect_core::Moment;
use nats_elect_core::duration::rounded;

const LOST: &str = "connection to NATS lost: reconnecting; leaders go on until their leases end";
/// An outage that lasts longer is told, even if there was another one within the minute.
const BRIEF: Duration = Duration::from_secs(1);

/// An outage that lasts.
#[derive(Debug)]
pub(super) struct Outage {
    server: String,
    pub since: Moment,
    /// How long it had lasted when grace periods were looked at last.
    lasted: Duration,
    /// Whether its beginning was logged. Then its end is, too.
    told: bool,
    reminded_at: Moment,
    /// The number of attempts to reconnect that failed.
    attempts: u64,
    last_error: Option<String>,
}

impl Outage {
    /// Begins, with a warning that names the server, unless there was one within the last minute.
    pub fn began(server: String, logged: &mut Repeated, now: Moment) -> Self {
        let due = logged.is_due(LOST, now);
        if let Some(repeats) = due {
            let repeats = (repeats > 0).then_some(repeats);
            tracing::warn!(server, repeats, "{LOST}");
        }
        Self {
            server,
            told: due.is_some(),
            ..Self::unlogged(now)
        }
    }

    /// Begins, or goes on with another monitor. Its beginning was not logged.
    pub const fn unlogged(since: Moment) -> Self {
        Self {
            server: String::new(),
            since,
            lasted: Duration::ZERO,
            told: false,
            reminded_at: since,
            attempts: 0,
            last_error: None,
        }
    }

    /// Returns the grace periods that have passed since this was asked last.
    pub fn passed(&mut self, now: Moment) -> RangeInclusive<Duration> {
        let least = self.lasted + Duration::from_nanos(1);
        self.lasted = now.since(self.since);
        least..=self.lasted
    }

    /// Returns when this grace period passes, unless it has.
    pub fn next(&self, grace: Duration) -> Option<Moment> {
        (grace > self.lasted).then(|| self.since + grace)
    }

    /// Counts a failed attempt to reconnect.
    pub fn failed(&mut self, error: String) {
        self.attempts += 1;
        self.last_error = Some(error);
    }

    /// Warns if it has not, or if the last warning is long ago.
    pub fn lasts(&mut self, now: Moment) {
        if !self.told && now >= self.since + BRIEF {
            self.told = true;
            tracing::warn!(server = self.server, "{LOST}");
        }
        if now < self.reminded_at + REMINDER {
            return;
        }
        self.reminded_at = now;
        tracing::warn!(
            lasted = %rounded(now.since(self.since)),
            attempts = self.attempts,
            last_error = self.last_error,
            "still no connection to NATS: trying on"
        );
    }

    /// Ends.
    pub fn ended(self, server: &str, now: Moment) {
        if !self.told {
            return;
        }
        tracing::info!(
            server,
            outage = %rounded(now.since(self.since)),
            failed_attempts = self.attempts,
            last_error = self.last_error,
            "connected to NATS again"
        );
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::support::logs::Logs;

    /// Returns what is logged meanwhile.
    fn logged(of: impl FnOnce()) -> Vec<String> {
        let log = Logs::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone());
        tracing::subscriber::with_default(subscriber.with_ansi(false).finish(), of);
        log.text().lines().map(str::to_owned).collect()
    }

    const fn ms(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_connection_that_is_lost_24_times_in_a_second_is_one_warning_a_minute_with_its_count() {
        let log = logged(|| {
            let mut lost = Repeated::default();
            for outage in 0..24 {
                let at = 1_000 + outage * 40;
                let mut outage = Outage::began("n1".into(), &mut lost, ms(at));
                outage.lasts(ms(at + 20));
                outage.ended("n1", ms(at + 30));
            }
            Outage::began("n1".into(), &mut lost, ms(70_000)).ended("n1", ms(70_100));
        });
        let lost: Vec<_> = log.iter().filter(|it| it.contains(LOST)).collect();
        assert_eq!(lost.len(), 2, "{log:#?}");
        assert!(lost[1].contains("repeats=23"), "{log:#?}");
        let again = log
            .iter()
            .filter(|it| it.contains("connected to NATS again"));
        assert_eq!(again.count(), 2, "{log:#?}");
    }

    #[test]
    fn each_grace_period_passes_once_when_the_outage_has_lasted_so_long() {
        let mut outage = Outage::unlogged(ms(1_000));
        let grace = Duration::from_millis(400);
        assert_eq!(outage.next(grace), Some(ms(1_400)));
        assert!(!outage.passed(ms(1_399)).contains(&grace));
        assert_eq!(outage.next(grace), Some(ms(1_400)));
        assert!(outage.passed(ms(1_400)).contains(&grace));
        assert_eq!(outage.next(grace), None);
        assert!(!outage.passed(ms(1_400)).contains(&grace));
        assert!(!outage.passed(ms(9_000)).contains(&grace));
        let longer = Duration::from_secs(20);
        assert!(outage.passed(ms(90_000)).contains(&longer));
    }

    #[test]
    fn a_second_outage_within_the_minute_is_told_if_it_lasts() {
        let log = logged(|| {
            let mut lost = Repeated::default();
            Outage::began("n1".into(), &mut lost, ms(1_000)).ended("n1", ms(1_100));
            let mut outage = Outage::began("n1".into(), &mut lost, ms(5_000));
            outage.lasts(ms(5_900));
            outage.lasts(ms(6_000));
            outage.lasts(ms(6_100));
            outage.ended("n2", ms(7_000));
        });
        let lost = log.iter().filter(|it| it.contains(LOST));
        assert_eq!(lost.count(), 2, "{log:#?}");
        let again = "connected to NATS again server=\"n2\" outage=2s";
        assert!(log[3].contains(again), "{log:#?}");
    }
}
